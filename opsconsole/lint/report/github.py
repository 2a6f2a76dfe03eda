"""Workflow commands that GitHub turns into annotations.

Pure. The trap: percent signs, newlines and, in properties, colons and commas must be escaped.
"""

from __future__ import annotations

from opsconsole.lint.model import Result

_LEVEL = {"error": "error", "warning": "warning", "info": "notice", "off": "notice"}


def report(result: Result) -> str:
    """One command per finding."""
    lines = []
    for item in result.findings:
        where = item.written_at
        file, line, col = (where.file, where.line, where.col) if where else (item.file, item.line, item.col)
        title = _property(f"{item.code} {item.path}" if item.char is not None else item.code)
        level = _LEVEL[item.severity.value]
        lines.append(f"::{level} file={_property(file)},line={line},col={col},title={title}::{_data(item.message)}")
    return "\n".join(lines) + "\n" if lines else ""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
