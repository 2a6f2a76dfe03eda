"""Names the cause of each divergence in a family: groups changed runs over all requests and classifies them.

Works on parts of the rows that lose reuse. The trap: runs are grouped by the text before them with digits blanked:
the length of a value may change from request to request.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field

from opsconsole.lint.diverge import Hunk, common_prefix, first_difference, hunks
from opsconsole.lint.model import Pair
from opsconsole.lint.request import Part
from opsconsole.lint.rows import Evidence, Row
from opsconsole.lint.segments import estimate
from opsconsole.lint.shapes import Kind, by_context, by_shape
from opsconsole.lint.toolset import ToolChange, compare, key_order

MAX_EXPLAINED = 60
MAX_PAIRS = 40


@dataclass(slots=True)
class Cause:
    """One place of a family's prompt that changes, with all that was seen of it."""

    key: tuple[str, str]
    path: str
    codes: Counter[str] = field(default_factory=Counter)
    words: dict[str, str] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    first: Row | None = None
    stable: int = 0
    rows: set[int] = field(default_factory=set)
    value: str = ""
    end_char: int | None = None
    role: str = ""

    @property
    def code(self) -> str:
        return max(self.codes, key=lambda code: (self.codes[code], code == "PX111", code))


def causes(family: list[Row], losing: list[Row], evidence: Evidence, min_stable: int) -> list[Cause]:
    """The causes that have stable text behind them in the rows that lose, in order of appearance."""
    before = {row.request.index: family[at - 1] for at, row in enumerate(family) if at}
    pools = _Pools(family, evidence)
    found: dict[tuple[str, str], Cause] = {}
    for row in losing[:MAX_EXPLAINED]:
        earlier = before.get(row.request.index)
        if earlier is None:
            continue
        _explain(earlier, row, evidence, min_stable, pools, found)
    wanted = set(found)
    limit = max(MAX_EXPLAINED, 2)
    for row in family[1:limit]:
        earlier = before[row.request.index]
        everything: dict[tuple[str, str], Cause] = {}
        _explain(earlier, row, evidence, 0, pools, everything)
        for key in wanted & set(everything):
            if len(found[key].pairs) < MAX_PAIRS:
                _join(found[key], everything[key])
    _fold(found)
    for cause in found.values():
        cause.pairs.sort(key=lambda pair: pair.requests)
    return sorted(found.values(), key=lambda cause: (cause.first.request.index if cause.first else 0, cause.path))


def token_causes(family: list[Row], losing: list[Row], path: str) -> list[Cause]:
    """The one cause that lists of token ids can show: where they differ; what the ids mean is not known."""
    before = {row.request.index: family[at - 1] for at, row in enumerate(family) if at}
    made = Cause(("PX111", "tokens"), path, Counter({"PX111": 1}), {"PX111": "a run of token ids"})
    for row in losing[:MAX_PAIRS]:
        earlier = before.get(row.request.index)
        if earlier is None or earlier.request.tokens is None or row.request.tokens is None:
            continue
        char = common_prefix(json.dumps(list(earlier.request.tokens)), json.dumps(list(row.request.tokens)))
        made.pairs.append(Pair((earlier.request.index, row.request.index), path, char))
        made.first = made.first or row
        made.stable = max(made.stable, row.repeats)
    return [made] if made.pairs else []


def _fold(found: dict[tuple[str, str], Cause]) -> None:
    """Left-over lines of a drawn block belong to the block: where it is cut by lines that happened to stay."""
    for key, cause in list(found.items()):
        block = found.get((cause.path, "block"))
        if block is None or block is cause or cause.code != "PX111":
            continue
        seen = {pair.requests for pair in block.pairs}
        block.pairs += [pair for pair in cause.pairs if pair.requests not in seen]
        by_request = {pair.requests: pair for pair in cause.pairs}
        earlier = [by_request.get(pair.requests, pair) for pair in block.pairs]
        block.pairs = [min(pair, other, key=lambda p: p.char) for pair, other in zip(block.pairs, earlier, strict=True)]
        block.stable = max(block.stable, cause.stable)
        block.rows |= cause.rows
        del found[key]


def _join(cause: Cause, other: Cause) -> None:
    seen = {pair.requests for pair in cause.pairs}
    cause.pairs += [pair for pair in other.pairs if pair.requests not in seen]
    if not seen & {pair.requests for pair in other.pairs}:
        cause.codes.update(other.codes)
        for code, word in other.words.items():
            cause.words.setdefault(code, word)


def _explain(
    earlier: Row, row: Row, evidence: Evidence, floor: int, pools: _Pools, found: dict[tuple[str, str], Cause]
) -> None:
    a, b = evidence.parts(earlier), evidence.parts(row)
    change = compare(a, b)
    if change is not None:
        _add_tool(change, earlier, row, found)
    late = _add_late_system(earlier, row, a, b, found)
    for hunk in hunks(a, b):
        if (change is not None and hunk.kind == "tool") or (late and hunk.kind == "message"):
            continue
        if hunk.stable_after < floor:
            continue
        _add_hunk(hunk, earlier, row, pools, found)


def _add_late_system(earlier: Row, row: Row, a: list[Part], b: list[Part], found: dict[tuple[str, str], Cause]) -> bool:
    """A stable system text behind messages that changed (PX304)."""
    where = first_difference(a, b)
    known = {part.text for part in a if part.kind == "system"}
    changed = next((at for at, part in enumerate(b) if where is not None and part.path == where[0]), len(b))
    late = [part for part in b[changed + 1 :] if part.kind == "system" and part.text in known]
    stable = sum(estimate(part.text) for part in late)
    if where is None or stable < 48 or b[changed].kind != "message":
        return False
    cause = found.setdefault(("PX304", "system"), Cause(("PX304", "system"), where[0]))
    cause.codes["PX304"] += 1
    cause.words["PX304"] = "what stands in front of a system message"
    cause.first = cause.first or row
    cause.rows.add(row.request.index)
    cause.stable = max(cause.stable, stable)
    cause.pairs.append(Pair((earlier.request.index, row.request.index), *where))
    return True


def _add_tool(change: ToolChange, earlier: Row, row: Row, found: dict[tuple[str, str], Cause]) -> None:
    cause = found.setdefault((change.code, "tools"), Cause((change.code, "tools"), change.path))
    words = {"PX201": "the order of tools", "PX202": "the order of keys", "PX205": "the set of tools"}
    cause.codes[change.code] += 1
    cause.words[change.code] = words[change.code]
    cause.first = cause.first or row
    cause.rows.add(row.request.index)
    cause.stable = max(cause.stable, row.total - row.common_tokens)
    cause.pairs.append(Pair((earlier.request.index, row.request.index), change.part, change.char))


def _add_hunk(hunk: Hunk, earlier: Row, row: Row, pools: _Pools, found: dict[tuple[str, str], Cause]) -> None:
    code, word, kind = classify(hunk, pools)
    label = hunk.line_after[: kind.start] if kind else hunk.line_after[: max(0, hunk.char - hunk.start)]
    last = hunk.context.rstrip("\n").rpartition("\n")[2]
    # A block that changes as a whole is one cause, even where a line of it happens to stay.
    block = code in ("PX107", "PX109", "PX108", "PX206")
    key = (hunk.path, "block" if block else re.sub(r"\d+", "0", label if label.strip() else last)[-40:])
    cause = found.setdefault(key, Cause(key, hunk.path))
    cause.codes[code] += 1
    cause.words.setdefault(code, word)
    cause.first = cause.first or row
    cause.rows.add(row.request.index)
    cause.stable = max(cause.stable, hunk.stable_after)
    cause.role = hunk.role
    if not cause.value:
        cause.value = (kind.value if kind else hunk.after.strip())[:200]
        start = hunk.start + kind.start if kind else hunk.start
        cause.end_char = start + (len(kind.value) if kind else len(hunk.after))
    low = max(0, hunk.char - hunk.start)
    cause.pairs.append(
        Pair(
            (earlier.request.index, row.request.index),
            hunk.path,
            hunk.char,
            hunk.before[max(0, low - 24) : low + 56],
            hunk.after[max(0, low - 24) : low + 56],
        )
    )


def classify(hunk: Hunk, pools: _Pools) -> tuple[str, str, Kind | None]:
    """Rule, word and (where it has a shape) the value of one changed run."""
    if _folded(hunk.before) == _folded(hunk.after):
        return "PX204", "white space or encoding", None
    if key_order(hunk.before.strip(), hunk.after.strip()) is not None:
        return "PX202", "the order of keys", None
    if hunk.reordered or _same_items(hunk.line_before, hunk.line_after, hunk):
        return "PX206", "the order of lines", None
    lines = [line for line in hunk.after.splitlines() if line.strip()]
    if len(lines) <= 1 and hunk.before.count("\n") <= 1:
        kind = by_shape(hunk.line_before, hunk.line_after)
        if kind is not None:
            return kind.code, kind.word, kind
    pooled = pools.is_pooled(hunk)
    at = max(0, hunk.char - hunk.start)
    code, word = by_context(hunk.context, hunk.after[:at] + " " + _opening(hunk.after), hunk.role, pooled)
    return code, word, None


def _opening(text: str) -> str:
    found = re.match(r"\s*(?:<[\w-]+>|\[[\w -]+\]|#+ .*|\w[\w ]{0,24}:|[-*] )", text)
    return found[0] if found else ""


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _same_items(before: str, after: str, hunk: Hunk) -> bool:
    if hunk.before.count("\n") > 1 or before == after:
        return False
    split = re.compile(r"[,;|]\s*|\s*[\[\]{}()]\s*|:\s+|\.\s*$")
    a, b = (sorted(item.strip() for item in split.split(text) if item.strip()) for text in (before, after))
    return len(a) > 2 and a == b


class _Pools:
    """Which lines come back in several requests, so that a changed block is a draw from a pool."""

    def __init__(self, family: list[Row], evidence: Evidence) -> None:
        self._counts: Counter[str] | None = None
        self._rows = family[:MAX_EXPLAINED]
        self._evidence = evidence

    def is_pooled(self, hunk: Hunk) -> bool:
        """Whether most changed lines recur in other requests, though not in all."""
        if self._counts is None:
            self._counts = Counter()
            for row in self._rows:
                seen = {line for part in self._evidence.parts(row) for line in part.text.splitlines()}
                self._counts.update(seen)
        lines = [line for line in (hunk.after or hunk.before).splitlines() if len(line.strip()) > 3]
        if len(lines) == 1:  # one line of a drawn block: the line before it is drawn too
            if hunk.before and hunk.after:
                lines = [line for line in hunk.context.splitlines() if len(line.strip()) > 3][-1:]
            return bool(lines) and 1 < self._counts[lines[0]] < len(self._rows)
        if not lines:
            return False
        back = sum(1 < self._counts[line] < len(self._rows) for line in lines)
        return back >= 0.5 * len(lines)
