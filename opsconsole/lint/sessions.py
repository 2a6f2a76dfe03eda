"""Conversations: which request continues which, and whether the earlier one is still its beginning.

Works on rows first and on parts only for the pairs that matter. The trap: a retry or another branch is no rewritten
history; only a request that goes on after the changed message is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from opsconsole.lint.diverge import common_prefix, first_difference
from opsconsole.lint.request import Part
from opsconsole.lint.rows import Evidence, Row
from opsconsole.lint.segments import estimate

_THINK = re.compile(r"<(think|thinking|reasoning|thought)>.*?(?:</\1>|$)\s*", re.S)
_LOOK_BACK = 64


class Break(NamedTuple):
    """One turn whose earlier turn is not its beginning."""

    code: str
    earlier: Row
    later: Row
    path: str
    char: int
    lost: int  # tokens behind the change that the earlier request had as well


def predecessors(family: list[Row]) -> dict[int, Row]:
    """For each request (by index) that continues a conversation, the request it continues."""
    frequency: Counter[int] = Counter()
    for row in family:
        frequency.update(set(row.messages))
    common = {number for number, count in frequency.items() if count > 8 and count > 0.9 * len(family)}
    holders: dict[int, list[Row]] = {}
    by_session: dict[str, Row] = {}
    found: dict[int, Row] = {}
    for row in family:
        earlier = by_session.get(row.request.session) if row.request.session else _best(row, holders, common)
        if earlier is None and not row.request.session and len(row.messages) > 1:
            earlier = _by_length(row, holders)
        if earlier is not None:
            found[row.request.index] = earlier
        if row.request.session:
            by_session[row.request.session] = row
        for number in row.messages:
            if number not in common:
                holders.setdefault(number, []).append(row)
        holders.setdefault(len(row.messages), []).append(row)
    return found


def _best(row: Row, holders: dict[int, list[Row]], common: set[int]) -> Row | None:
    votes: Counter[int] = Counter()
    rows: dict[int, Row] = {}
    for number in row.messages[:-1]:
        if number in common:
            continue
        for holder in holders.get(number, [])[-_LOOK_BACK:]:
            votes[holder.request.index] += 1
            rows[holder.request.index] = holder
    if not votes:
        return None
    top = max(votes, key=lambda index: (votes[index], index))
    return rows[top]


def _by_length(row: Row, holders: dict[int, list[Row]]) -> Row | None:
    """The last request that is one exchange shorter: a candidate only, checked by its text later."""
    for gap in (2, 1):
        shorter = holders.get(len(row.messages) - gap)
        if shorter:
            return shorter[-1]
    return None


def examine(earlier: Row, later: Row, evidence: Evidence) -> Break | None:
    """The break between a turn and the one before it, or None where history only grew (or another talk began)."""
    a = [part for part in evidence.parts(earlier) if part.kind == "message"]
    b = [part for part in evidence.parts(later) if part.kind == "message"]
    groups_a, groups_b = _by_message(a), _by_message(b)
    same = 0
    while same < min(len(groups_a), len(groups_b)) and _same(groups_a[same], groups_b[same]):
        same += 1
    if same >= len(groups_a) or same >= len(groups_b):
        return None
    code = _cause(groups_a, groups_b, same)
    if code is None:
        return None
    where = first_difference(groups_a[same], groups_b[same])
    path, char = where if where else (groups_b[same][0].path, 0)
    lost = sum(estimate(part.text) for group in groups_a[same + 1 :] for part in group)
    if code == "PX302":
        kept = {_key(group) for group in groups_a[same:]}
        lost = sum(estimate(p.text) for group in groups_b[same:] if _key(group) in kept for p in group)
    if code in ("PX301", "PX303"):
        # The end of the changed message is the same text again, at another place.
        old, new = _text(groups_a[same])[char:], _text(groups_b[same])[char:]
        kept_end = common_prefix(old[::-1], new[::-1])
        lost += estimate(new[len(new) - kept_end :]) if kept_end else 0
    return Break(code, earlier, later, path, char, lost)


def _by_message(parts: list[Part]) -> list[list[Part]]:
    groups: dict[int, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.message, []).append(part)
    return list(groups.values())


def _key(group: list[Part]) -> tuple[tuple[str, str], ...]:
    return tuple((part.role, part.text) for part in group)


def _same(a: list[Part], b: list[Part]) -> bool:
    return _key(a) == _key(b)


def _cause(a: list[list[Part]], b: list[list[Part]], at: int) -> str | None:
    """Why message `at` differs; None where the two are not turns of one conversation."""
    if _shifted(a, b, at):
        return "PX302"
    if a[at][0].role != b[at][0].role or len(b) <= at + 1:
        return None
    old, new = _text(a[at]), _text(b[at])
    goes_on = sum(_same(x, y) for x, y in zip(a[at + 1 :], b[at + 1 :], strict=False))
    if a[at][0].role == "assistant" and _bare(old) == _bare(new):
        return "PX303"
    is_newest = all(group[0].role != "user" for group in a[at + 1 :])
    if a[at][0].role == "user" and is_newest and len(new.strip()) >= 4 and new.strip() in old:
        return "PX306"
    if goes_on:
        return "PX301"
    related = common_prefix(old, new) + common_prefix(old[::-1], new[::-1])
    return "PX301" if at > 0 and related >= 0.5 * min(len(old), len(new)) and at == len(a) - 1 else None


def _shifted(a: list[list[Part]], b: list[list[Part]], at: int) -> bool:
    """Whether the later turn continues the earlier one with messages dropped in between."""
    for drop in range(1, len(a) - at):
        rest = a[at + drop :]
        if len(rest) >= 2 and len(b) - at >= len(rest) and all(map(_same, rest, b[at:])):
            return True
        if len(rest) == 1 and drop <= 2 and _same(rest[0], b[at]) and len(b) > at + 1 and len(_text(rest[0])) > 24:
            return True
    return False


def _text(group: list[Part]) -> str:
    return "\n".join(part.text for part in group)


def _bare(text: str) -> str:
    return _THINK.sub("", text).strip()
