"""Where two prompts differ: the first code point, and every changed run of lines with what is stable behind it.

Works on parts. The trap: parts are aligned by path, so a conversation must be compared with its own earlier turn.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from opsconsole.lint.request import Part
from opsconsole.lint.segments import estimate

MAX_DIFF_LINES = 300


class Hunk(NamedTuple):
    """A changed run of one part: where it starts in both texts, the changed text, its line, and what stands before."""

    path: str
    kind: str
    role: str
    char: int
    start: int  # of the changed region in the later text
    before: str
    after: str
    line_before: str
    line_after: str
    context: str
    stable_after: int
    reordered: bool = False


def first_difference(a: list[Part], b: list[Part]) -> tuple[str, int] | None:
    """Path and code point of the first difference, or None where one prompt is the start of the other."""
    for mine, other in zip(a, b, strict=False):
        if mine.path != other.path or mine.role != other.role:
            return other.path, 0
        if mine.text != other.text:
            return other.path, common_prefix(mine.text, other.text)
    if len(a) == len(b):
        return None
    longer = a if len(a) > len(b) else b
    return longer[min(len(a), len(b))].path, 0


def common_prefix(a: str, b: str) -> int:
    """Length of the common start of two texts."""
    if a == b:
        return len(a)
    low, high = 0, min(len(a), len(b))
    while low < high:
        mid = (low + high + 1) // 2
        if a[low:mid] == b[low:mid]:
            low = mid
        else:
            high = mid - 1
    return low


def hunks(a: list[Part], b: list[Part]) -> list[Hunk]:
    """Changed runs of all parts that both prompts have, in prompt order."""
    theirs = {part.path: part for part in a}
    found: list[Hunk] = []
    behind = 0
    for part in reversed(b):
        other = theirs.get(part.path)
        if other is None or other.role != part.role:
            continue
        if other.text == part.text:
            behind += estimate(part.text)
            continue
        made, behind = _part_hunks(part, other.text, behind)
        found += made
    found.reverse()
    return found


def _part_hunks(part: Part, old: str, behind: int) -> tuple[list[Hunk], int]:
    """Hunks of one part, last first, and the stable tokens from its first line on."""
    before, after = old.splitlines(keepends=True), part.text.splitlines(keepends=True)
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    mid_a, mid_b = before[head : len(before) - tail], after[head : len(after) - tail]
    behind += sum(map(estimate, after[len(after) - tail :])) if tail else 0
    char = common_prefix(old, part.text)
    ops = _opcodes(mid_a, mid_b)
    made: list[Hunk] = []
    for index in range(len(ops) - 1, -1, -1):
        tag, a0, a1, b0, b1 = ops[index]
        if tag == "equal":
            behind += sum(map(estimate, mid_b[b0:b1]))
            continue
        start = sum(map(len, after[: head + b0]))
        text_a, text_b = "".join(mid_a[a0:a1]), "".join(mid_b[b0:b1])
        # The line's end may be stable too: text behind a value in the same line counts.
        suffix = _common_suffix(text_a, text_b)
        at = char if not any(op[0] != "equal" for op in ops[:index]) else start + common_prefix(text_a, text_b)
        made.append(
            Hunk(
                part.path,
                part.kind,
                part.role,
                at,
                start,
                text_a,
                text_b,
                text_a.split("\n", 1)[0],
                text_b.split("\n", 1)[0],
                "".join(after[max(0, head + b0 - 3) : head + b0]),
                behind + (estimate(text_b[-suffix:]) if suffix > 8 else 0),
                tag == "reorder",
            )
        )
    behind += sum(map(estimate, after[:head])) if head else 0
    return made, behind


def _common_suffix(a: str, b: str) -> int:
    return common_prefix(a[::-1], b[::-1])


def _opcodes(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    if len(a) > 1 and len(a) == len(b) and sorted(a) == sorted(b):
        return [("reorder", 0, len(a), 0, len(b))]
    if len(a) > MAX_DIFF_LINES or len(b) > MAX_DIFF_LINES or len(a) <= 1 or len(b) <= 1:
        return [("replace", 0, len(a), 0, len(b))]
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return [op for op in matcher.get_opcodes() if op[0] == "equal" or op[2] > op[1] or op[4] > op[3]]
