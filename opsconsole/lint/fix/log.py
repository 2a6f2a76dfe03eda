"""Rewrites a log as the fixes would have sent it: tools and keys sorted, volatile lines behind stable text.

Never in place: the caller writes a copy. The trap: nothing is deleted, so the multiset of characters stays;
code fences, vendor headers and identities that act as permissions are never moved.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from opsconsole.lint.fix.paths import get, newest_user, put
from opsconsole.lint.formats.record import find_body
from opsconsole.lint.model import Finding
from opsconsole.lint.rows import Evidence, Row
from opsconsole.lint.segments import estimate

MOVABLE = {"PX101", "PX102", "PX103", "PX104", "PX105", "PX106", "PX107", "PX108", "PX109", "PX111"}
_VENDOR = re.compile(r"^\s*x-[\w-]+\s*:", re.I)
_PERMISSION = re.compile(r"\b(?:only|must|never|allowed|permission|authori[sz]ed|may access|deny|refuse)\b", re.I)
MIN_STABLE = 64


@dataclass(slots=True)
class LogFix:
    """What to do with the requests of a log: which paths are sorted and which lines move."""

    tools: set[int]  # families whose tools are sorted
    keys: set[int]
    moves: dict[tuple[int, str], tuple[str, Counter[str], int]]  # family, path -> code, line counts, requests
    orders: dict[tuple[int, str], set[str]]  # family, path -> lines that stand in another order each time

    @classmethod
    def plan(cls, findings: list[Finding], rows: list[Row], evidence: Evidence, *, unsafe: bool) -> LogFix:
        """The fix for the findings of one log."""
        made = cls(set(), set(), {}, {})
        for item in findings:
            if not item.family.startswith("family "):
                continue
            family = int(item.family.split()[1]) - 1
            if item.code == "PX201":
                made.tools.add(family)
            elif item.code == "PX202":
                made.keys.add(family)
            elif unsafe and item.code in MOVABLE | {"PX206"}:
                members = [row for row in rows if row.family == family][:1000]
                texts = [part.text for row in members for part in evidence.parts(row) if part.path == item.path]
                if item.code == "PX206":
                    made.orders[(family, item.path)] = _wandering(texts)
                    continue
                counts: Counter[str] = Counter()
                for text in texts:
                    counts.update(set(text.split("\n")))
                made.moves[(family, item.path)] = (item.code, counts, len(members))
        return made

    def apply(self, record: Any, family: int) -> bool:
        """Rewrite one decoded record; whether anything changed."""
        body = find_body(record) if isinstance(record, dict) else None
        if not isinstance(body, dict):
            return False
        changed = False
        tools = body.get("tools")
        if family in self.keys and isinstance(tools, list):
            sorted_keys = [_sorted(tool) for tool in tools]
            changed = json.dumps(sorted_keys) != json.dumps(tools)
            body["tools"] = tools = sorted_keys
        if family in self.tools and isinstance(tools, list):
            ordered = sorted(tools, key=_tool_name)
            changed = changed or ordered != tools
            body["tools"] = ordered
        for (owner, path), wandering in self.orders.items():
            if owner == family:
                changed = _order(body, path, wandering) or changed
        for (owner, path), (code, counts, total) in self.moves.items():
            if owner == family:
                changed = _move(body, path, code, counts, total) or changed
        return changed


def _wandering(texts: list[str]) -> set[str]:
    """Lines of most texts that stand at different positions."""
    places: dict[str, set[int]] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        lines = text.split("\n")
        counts.update(set(lines))
        for at, line in enumerate(lines):
            places.setdefault(line, set()).add(at)
    return {
        line for line, seen in places.items() if len(seen) > 1 and counts[line] >= 0.5 * len(texts) and line.strip()
    }


def _order(body: dict[str, Any], path: str, wandering: set[str]) -> bool:
    """Sort the wandering lines among the places they stand at."""
    text = get(body, path)
    if not isinstance(text, str):
        return False
    lines = text.split("\n")
    slots = [at for at, line in enumerate(lines) if line in wandering]
    for at, line in zip(slots, sorted(lines[at] for at in slots), strict=True):
        lines[at] = line
    made = "\n".join(lines)
    put(body, path, made)
    return made != text


def _sorted(value: Any) -> Any:
    """Object keys in order; arrays as they are."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _tool_name(tool: Any) -> str:
    holder = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(holder.get("name", "")) if isinstance(holder, dict) else ""


def _move(body: dict[str, Any], path: str, code: str, counts: Counter[str], total: int) -> bool:
    text = get(body, path)
    if not isinstance(text, str):
        return False
    lines = text.split("\n")
    moved = volatile_lines(lines, code, counts, total, _history(body, path))
    if not moved:
        return False
    chosen = set(moved)
    kept = [line for at, line in enumerate(lines) if at not in chosen]
    tail = "".join("\n" + lines[at] for at in moved)
    own = path.startswith(("messages", "input", "prompt")) and _role(body, path) not in ("system", "developer")
    target = path if own else newest_user(body)
    if target is None or (target == path and not kept):
        return False
    put(body, path, "\n".join(kept))
    put(body, target, str(get(body, target)) + tail)
    return True


def _history(body: dict[str, Any], path: str) -> int:
    """Tokens of the messages behind a system text, without the newest turn: they are reusable too."""
    messages = body.get("messages", body.get("input"))
    if not isinstance(messages, list):
        return 0
    found = re.match(r"(?:messages|input)\[(\d+)\]", path)
    start = int(found[1]) + 1 if found else 0
    return sum(estimate(json.dumps(message)) for message in messages[start:-1])


def _role(body: dict[str, Any], path: str) -> str:
    found = re.match(r"(messages|input)\[(\d+)\]", path)
    message = get(body, found[0]) if found else None
    return str(message.get("role", "user")) if isinstance(message, dict) else "user"


def volatile_lines(lines: list[str], code: str, counts: Counter[str], total: int, behind: int = 0) -> list[int]:
    """Which lines move: those of few requests that stand before at least 64 stable tokens."""
    stable = [counts[line] >= 0.5 * total for line in lines]
    moved: list[int] = []
    fenced = _fenced(lines)
    for at in range(len(lines) - 1, -1, -1):
        if stable[at]:
            behind += estimate(lines[at]) if lines[at].strip() else 0
            continue
        blocked = fenced[at] or _VENDOR.match(lines[at]) or not lines[at].strip()
        blocked = blocked or (code == "PX104" and _PERMISSION.search(lines[at]) is not None)
        if behind >= MIN_STABLE and not blocked:
            moved.append(at)
    return moved[::-1]


def _fenced(lines: list[str]) -> list[bool]:
    made: list[bool] = []
    inside = False
    for line in lines:
        if line.lstrip().startswith("```"):
            inside = not inside
            made.append(True)
        else:
            made.append(inside)
    return made
