"""Finds inversions: a value that changes more often than text behind it in the same request.

Works on the IR of any front end. The trap: a question or a document behind a clock cannot be reused anyway; only
constant text and append-only history count as lost.
"""

from __future__ import annotations

from opsconsole.lint.frontends.ir import UNKNOWN_TOKENS, Hole, Literal, Message, Piece, Prompt, Volatility
from opsconsole.lint.model import Finding, Severity
from opsconsole.lint.rules.table import RULES

_ALWAYS_WARN = {"PX104", "PX106", "PX109"}


def inversions(prompt: Prompt, min_tokens: int) -> list[Finding]:
    """Findings of one prompt, in prompt order."""
    flat: list[tuple[Message, Piece]] = [(m, piece) for m in prompt.messages for piece in m.pieces]
    constant = history = 0
    behind: list[tuple[int, int]] = []
    for _, piece in reversed(flat):
        behind.append((constant, history))
        if isinstance(piece, Literal):
            constant += piece.tokens
        elif piece.growing:
            history += UNKNOWN_TOKENS
    behind.reverse()
    found: list[Finding] = []
    literal = 0
    for (message, piece), (fixed, grown) in zip(flat, behind, strict=True):
        if isinstance(piece, Literal):
            literal += piece.chars
            continue
        rank = _rank(piece, prompt)
        lost = fixed if rank <= Volatility.SESSION else fixed + grown
        if not piece.growing and piece.code and rank >= Volatility.DAY and lost >= min_tokens:
            found.append(_finding(piece, message, lost, literal, from_history=fixed < min_tokens))
    return found + _late_system(prompt, min_tokens)


def _rank(hole: Hole, prompt: Prompt) -> Volatility:
    """A value made outside the loop that sends is the same for the whole conversation."""
    rank = hole.volatility
    inside = len(prompt.loops) > 0 and hole.loops[: len(prompt.loops)] == prompt.loops
    if prompt.loops and not inside and rank > Volatility.SESSION:
        return Volatility.SESSION
    return rank


def severity(code: str, weak: bool) -> Severity:
    """A rule's severity from source: evidence by name alone is a warning."""
    base = RULES[code].severity
    if base is Severity.ERROR and (weak or code in _ALWAYS_WARN):
        return Severity.WARNING
    return base


def _finding(hole: Hole, message: Message, lost: int, literal: int, *, from_history: bool) -> Finding:
    rule = RULES[hole.code]
    what = "the conversation" if from_history else f"about {lost:,} tokens"
    text = f"{hole.word} stands before {what} that could be reused ({message.role or 'prompt'})"
    return Finding(
        hole.code,
        severity(hole.code, hole.weak),
        text,
        hole.spot.file,
        hole.spot.line,
        hole.spot.col,
        path=f"{hole.spot.file}:{hole.spot.line}",
        literal_chars=literal,
        stable_tokens=lost,
        confirmed=not hole.weak,
        fix=rule.fix,
        advice=rule.how,
        subject=hole.word,
    )


def _late_system(prompt: Prompt, min_tokens: int) -> list[Finding]:
    """A system message with stable text behind history or the user's words (PX304)."""
    changes = False
    for message in prompt.messages:
        fixed = sum(piece.tokens for piece in message.pieces if isinstance(piece, Literal))
        if message.role in ("system", "developer") and changes and fixed >= min_tokens:
            rule = RULES["PX304"]
            text = f"a system message of about {fixed:,} stable tokens stands behind messages that change"
            spot = message.spot
            return [
                Finding(
                    "PX304",
                    rule.severity,
                    text,
                    spot.file,
                    spot.line,
                    spot.col,
                    path=f"{spot.file}:{spot.line}",
                    stable_tokens=fixed,
                    confirmed=True,
                    fix=rule.fix,
                    advice=rule.how,
                    subject="system",
                )
            ]
        if message.role not in ("system", "developer", "tools"):
            changes = changes or any(
                isinstance(piece, Hole) and (piece.growing or piece.volatility >= Volatility.SESSION)
                for piece in message.pieces
            )
    return []
