"""Moves a volatile part of a Python text behind the stable part of the same expression.

Edits f-strings and `+` chains only; the source text of each part stays as written. The trap: raw strings do not know
`\\n`, so they are left alone.
"""

from __future__ import annotations

import ast

from opsconsole.lint.frontends.pymodule import Module, parse
from opsconsole.lint.frontends.pytext import fields
from opsconsole.lint.model import Edit, Finding


def move_behind(finding: Finding, text: str) -> tuple[Edit, ...]:
    """The edit that puts what is at the finding's place last in its expression, or none."""
    try:
        module = parse(finding.file, text)
    except SyntaxError:
        return ()
    best: tuple[int, Edit] | None = None
    for node in ast.walk(module.tree):
        made = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            made = _chain(node, finding, module, text)
        elif isinstance(node, ast.JoinedStr):
            made = _f_string(node, finding, module, text)
        if made is not None and (best is None or made.end - made.start > best[0]):
            best = (made.end - made.start, made)
    return (best[1],) if best else ()


def _range(node: ast.expr, module: Module, text: str) -> tuple[int, int] | None:
    source = ast.get_source_segment(text, node)
    if source is None or "#" in source:
        return None
    spot = module.spot(node)
    start = sum(len(line) + 1 for line in module.lines[: spot.line - 1]) + spot.col - 1
    return start, start + len(source)


def _holds(node: ast.expr, finding: Finding) -> bool:
    return node.lineno <= finding.line <= (node.end_lineno or node.lineno)


def _chain(node: ast.BinOp, finding: Finding, module: Module, text: str) -> Edit | None:
    """`volatile + STABLE` becomes `STABLE + "\\n" + volatile`."""
    whole = _range(node, module, text)
    if whole is None or not _holds(node, finding):
        return None
    place = sum(len(line) + 1 for line in module.lines[: finding.line - 1]) + finding.col - 1
    operands: list[ast.expr] = []
    current: ast.expr = node
    while isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
        operands.insert(0, current.right)
        current = current.left
    operands.insert(0, current)
    ranges = [_range(operand, module, text) for operand in operands]
    if any(found is None for found in ranges):
        return None
    spans = [found for found in ranges if found is not None]
    at = next((i for i, (start, end) in enumerate(spans) if start <= place < end), None)
    if at is None or at == len(spans) - 1:
        return None
    words = [text[start:end] for start, end in spans]
    made = " + ".join([*words[at + 1 :], repr("\n"), *words[: at + 1]])
    return Edit(finding.file, whole[0], whole[1], made)


def _f_string(node: ast.JoinedStr, finding: Finding, module: Module, text: str) -> Edit | None:
    """`f"Now {now}. {RULES}"` becomes `f"{RULES}\\nNow {now}. "`."""
    whole = _range(node, module, text)
    if whole is None or not _holds(node, finding):
        return None
    source = text[whole[0] : whole[1]]
    quote = next((mark for mark in ('"""', "'''", '"', "'") if source.lower().startswith("f" + mark)), None)
    if quote is None or not source.endswith(quote) or source.count(quote) != 2:
        return None
    spots = fields(node, module)
    mine = next((i for i, s in enumerate(spots) if (s.line, s.col) == (finding.line, finding.col)), None)
    if mine is None or mine == len(spots) - 1:
        return None
    following = spots[mine + 1]
    brace = sum(len(line) + 1 for line in module.lines[: following.line - 1]) + following.col - 2 - whole[0]
    opening = len(quote) + 1
    head, tail = source[opening:brace], source[brace : -len(quote)]
    if source[brace : brace + 1] != "{":
        return None
    return Edit(finding.file, whole[0], whole[1], source[:opening] + tail + "\\n" + head.rstrip() + quote)
