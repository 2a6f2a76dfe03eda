"""Inline ignores: `px: ignore[PX101] reason` in a comment of any language, and what they silence.

Reads comments by a pattern, not by grammar. The trap: a comment alone on its line speaks for the next line; one behind
code for its own.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

from opsconsole.lint.model import Finding, FixKind, Severity

_IGNORE = re.compile(
    r"(?P<open>#|//|/\*|\{#|<!--|--)[-+]?\s*px:\s*(?P<file>ignore-file|ignore)"
    r"(?:\[(?P<codes>[A-Z0-9, ]*)\])?(?P<reason>[^\n]*)"
)


@dataclass(slots=True)
class Ignore:
    """One comment and whether it silenced anything."""

    line: int
    codes: tuple[str, ...]  # empty: every rule
    whole_file: bool
    reason: str
    at: int
    col: int
    used: bool = False

    def covers(self, finding: Finding) -> bool:
        named = not self.codes or any(finding.code.startswith(code) for code in self.codes)
        return named and (self.whole_file or finding.line == self.line)


def _comments(text: str) -> set[tuple[int, int]] | None:
    """Places of Python's comments (line, column from 0), or None where the text cannot be tokenised."""
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return {token.start for token in tokens if token.type == tokenize.COMMENT}
    except (tokenize.TokenError, SyntaxError):
        return None


def read(text: str, file: str) -> list[Ignore]:
    """All ignore comments of a file; in Python, text that only looks like one is none."""
    if "px:" not in text:
        return []
    made: list[Ignore] = []
    comments = _comments(text) if file.endswith(".py") else None
    for match in _IGNORE.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        line = text.count("\n", 0, match.start()) + 1
        if comments is not None and (line, match.start() - start) not in comments:
            continue
        alone = not text[start : match.start()].strip()
        codes = tuple(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
        reason = re.sub(r"(?:#\}|-->|\*/)\s*$", "", match["reason"]).strip()
        own = line + 1 if alone and match["file"] == "ignore" else line
        made.append(Ignore(own, codes, match["file"] == "ignore-file", reason, line, match.start() - start + 1))
    return made


def apply(
    findings: list[Finding], text: str, file: str, codes: frozenset[str], *, require_reason: bool
) -> tuple[list[Finding], int]:
    """Findings not silenced, with PX900 for comments that silence nothing; and how many were silenced."""
    ignores = read(text, file)
    if not ignores:
        return findings, 0
    kept: list[Finding] = []
    for finding in findings:
        hits = [ignore for ignore in ignores if ignore.covers(finding) and (ignore.reason or not require_reason)]
        for ignore in hits:
            ignore.used = True
        if not hits:
            kept.append(finding)
    silenced = len(findings) - len(kept)
    for ignore in ignores:
        checked = not ignore.codes or any(code.startswith(given) for given in ignore.codes for code in codes)
        if not ignore.used and checked:
            why = (
                "has no reason, and reasons are required"
                if require_reason and not ignore.reason
                else "silences nothing"
            )
            named = ", ".join(ignore.codes) or "all rules"
            kept.append(
                Finding(
                    "PX900",
                    Severity.WARNING,
                    f"the ignore comment for {named} {why}",
                    file,
                    ignore.at,
                    ignore.col,
                    path=f"{file}:{ignore.at}",
                    fix=FixKind.SAFE,
                    subject=named,
                )
            )
    return kept, silenced
