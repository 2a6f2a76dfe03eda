"""Edits of sources and templates: `sorted()` around unordered iterables, lines moved in templates, clocks pinned.

Makes text from text; the caller lints the result again and drops edits that do not help. The trap: an edit is made only
where the node at the finding's place is found again in the text.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable

from opsconsole.lint.fix.pymove import move_behind
from opsconsole.lint.frontends.pymodule import parse
from opsconsole.lint.ignores import read
from opsconsole.lint.model import Edit, Finding, FixKind


def edits(finding: Finding, text: str, *, unsafe: bool) -> tuple[Edit, ...]:
    """The edits that fix one finding, or none."""
    if finding.code in ("PX203", "PX201") and finding.file.endswith(".py"):
        return _wrap_sorted(finding, text)
    if finding.code == "PX900":
        return _drop_comment(finding, text)
    if not unsafe or finding.fix is not FixKind.UNSAFE:
        return ()
    if finding.file.endswith(".py"):
        return move_behind(finding, text)
    if finding.code == "PX401":
        return _pin_clock(finding, text)
    if finding.file.endswith((".txt", ".md", ".prompt", ".tmpl", ".tpl", ".j2", ".jinja", ".jinja2")):
        return _move_line(finding, text)
    return ()


def apply(text: str, chosen: list[Edit]) -> str:
    """A text with edits made, last first; overlapping ones are left out."""
    last = len(text) + 1
    for edit in sorted(chosen, key=lambda item: (-item.start, -item.end)):
        if edit.end > last:
            continue
        text = text[: edit.start] + edit.text + text[edit.end :]
        last = edit.start
    return text


def fix_text(
    text: str, findings: list[Finding], check: Callable[[str], list[Finding]], codes: frozenset[str], *, unsafe: bool
) -> tuple[str, int]:
    """The fixed text and how many findings are gone; every step must parse and leave fewer findings."""
    fixed = 0
    for _ in range(len(findings)):
        current = check(text) if fixed else findings
        for item in current:
            made = edits(item, text, unsafe=unsafe) if item.code in codes else ()
            if not made:
                continue
            candidate = apply(text, list(made))
            if candidate != text and _parses(item.file, candidate) and len(check(candidate)) < len(current):
                text, fixed = candidate, fixed + 1
                break
        else:
            break
    return text, fixed


def diff(name: str, before: str, after: str) -> str:
    """A unified diff."""
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, name))


def _offset(text: str, line: int, col: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at + col - 1


def _wrap_sorted(finding: Finding, text: str) -> tuple[Edit, ...]:
    try:
        module = parse(finding.file, text)
    except SyntaxError:
        return ()
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.expr) or node.lineno != finding.line:
            continue
        spot = module.spot(node)
        source = ast.get_source_segment(text, node)
        if spot.col != finding.col or source is None or isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            continue
        start = _offset(text, spot.line, spot.col)
        return (Edit(finding.file, start, start + len(source), f"sorted({source})"),)
    return ()


def _drop_comment(finding: Finding, text: str) -> tuple[Edit, ...]:
    for ignore in read(text, finding.file):
        if ignore.at == finding.line and ignore.col == finding.col:
            start = _offset(text, ignore.at, ignore.col)
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            closing = re.search(r"#\}|-->|\*/", text[start:end])
            end = start + closing.end() if closing else end
            line_start = text.rfind("\n", 0, start) + 1
            if not text[line_start:start].strip() and text[end : end + 1] == "\n":
                return (Edit(finding.file, line_start, end + 1, ""),)
            return (Edit(finding.file, len(text[:start].rstrip(" \t")), end, ""),)
    return ()


def _pin_clock(finding: Finding, text: str) -> tuple[Edit, ...]:
    made = [
        Edit(finding.file, match.start(), match.end(), "date_string")
        for match in re.finditer(r"\bstrftime_now\s*\(\s*(?:'[^']*'|\"[^\"]*\")\s*\)", text)
    ]
    return tuple(made)


def _move_line(finding: Finding, text: str) -> tuple[Edit, ...]:
    start = _offset(text, finding.line, 1)
    end = text.find("\n", start)
    if end < 0:
        return ()
    line = text[start:end]
    fences = sum(row.lstrip().startswith("```") for row in text[:start].split("\n"))
    if "{%" in line or fences % 2:
        return ()
    tail = "" if text.endswith("\n") else "\n"
    closing = "\n" if text.endswith("\n") else ""
    return (
        Edit(finding.file, start, end + 1, ""),
        Edit(finding.file, len(text), len(text), tail + line + closing),
    )


def _parses(file: str, text: str) -> bool:
    try:
        if file.endswith(".py"):
            ast.parse(text)
        elif file.endswith((".j2", ".jinja", ".jinja2")):
            from jinja2 import Environment

            Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True).parse(text)
    except Exception:
        return False
    return True
