"""Compares the tools of two requests: other order, other key order, or another set.

Works on parts whose text is JSON. The trap: arrays keep their order in the comparison; only object keys are sorted.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from opsconsole.lint.diverge import common_prefix
from opsconsole.lint.request import Part


class ToolChange(NamedTuple):
    """How the tools differ: the rule, the path to report, and the first differing part with its code point."""

    code: str
    path: str
    part: str
    char: int
    subject: str


def compare(a: list[Part], b: list[Part]) -> ToolChange | None:
    """The change between the tools of two requests, or None where there is none (or a value inside changed)."""
    mine = [part for part in a if part.path.startswith(("tools[", "toolConfig.tools["))]
    other = [part for part in b if part.path.startswith(("tools[", "toolConfig.tools["))]
    if [part.text for part in mine] == [part.text for part in other]:
        return None
    at = 0
    while at < min(len(mine), len(other)) and mine[at].text == other[at].text:
        at += 1
    path = (other[at] if at < len(other) else mine[at]).path
    old, new = (mine[at].text if at < len(mine) else ""), (other[at].text if at < len(other) else "")
    char = common_prefix(old, new) if old and new else 0
    names_a, names_b = [_name(part.text) for part in mine], [_name(part.text) for part in other]
    if sorted(names_a) != sorted(names_b):
        return ToolChange("PX205", path, path, char, "set")
    if names_a != names_b:
        return ToolChange("PX201", path, path, char, "order")
    deep = key_order(old, new)
    if deep is not None:
        return ToolChange("PX202", path + deep, path, char, deep)
    return None


def _name(text: str) -> str:
    try:
        tool = json.loads(text)
    except ValueError:
        return text
    if not isinstance(tool, dict):
        return text
    for holder in (tool.get("function"), tool.get("toolSpec"), tool):
        if isinstance(holder, dict) and isinstance(holder.get("name"), str):
            return str(holder["name"])
    return str(tool.get("type", text))


def key_order(old: str, new: str) -> str | None:
    """Where two JSON texts that mean the same write their keys in different order: a path, '' for the top."""
    try:
        a, b = json.loads(old), json.loads(new)
    except ValueError:
        return None
    if not isinstance(a, (dict, list)) or a != b:
        return None
    return _first_flip(a, b, "")


def _first_flip(a: Any, b: Any, path: str) -> str | None:
    if isinstance(a, dict):
        if list(a) != list(b):
            return path
        for key in a:
            found = _first_flip(a[key], b[key], f"{path}.{key}")
            if found is not None:
                return found
    elif isinstance(a, list):
        for at, (x, y) in enumerate(zip(a, b, strict=True)):
            found = _first_flip(x, y, f"{path}[{at}]")
            if found is not None:
                return found
    return None
