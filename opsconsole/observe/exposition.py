"""The scanner of metrics pages: Prometheus text 0.0.4 in, the wanted series and their values out.

It must not know any engine: which names are wanted is asked of a resolver, once per name. It is line tolerant (one bad
line costs one line, and its family is marked damaged so that no total is silently short) and quick: the text of a
series does not change between scrapes, so it is parsed once and remembered. The trap: only a complete series key may
be remembered; a key with a value or an exemplar glued to it would grow the memory with every scrape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opsconsole.observe.layout import Layout

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|(?=\}))')
_QUOTED = re.compile(r'[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|(?=\}))')
_ESCAPE = re.compile(r"\\(.)")
_COMMENT = re.compile(r"#[ \t]*(TYPE|HELP)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(.*)")
_TYPES = frozenset({"counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset"})
_BAD_KEPT = 20  # enough to show; a page of garbage is not kept


class Slot(NamedTuple):
    """Where a sample belongs: its family after folding, and which part of it ("" or total, bucket, sum, count)."""

    family: str
    part: str


Resolver = Callable[[str], Slot | None]
"""From a name as exposed to its slot, or None where nobody wants it."""


class Series:
    """One series key, parsed once. Compared by identity: the memory hands out one object per key."""

    __slots__ = ("labels", "le", "name", "slot")

    def __init__(self, name: str, labels: dict[str, str], slot: Slot) -> None:
        self.name = name
        self.slot = slot
        self.labels = labels
        self.le: float | None = None
        if slot.part == "bucket" and "le" in labels:
            self.le = number(labels["le"])

    def __repr__(self) -> str:
        return f"Series({self.name}{self.labels})"


class _Comment:
    """A TYPE or HELP line of a wanted family."""

    __slots__ = ("family", "kind", "text")

    def __init__(self, kind: str, family: str, text: str) -> None:
        self.kind = kind
        self.family = family
        self.text = text


class _Skip:
    """What nobody wants."""

    __slots__ = ()


_SKIP = _Skip()


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read; `family` where its name could be, so that totals over it are not trusted."""

    number: int  # from 1
    text: str  # its beginning
    family: str | None


@dataclass(slots=True)
class Page:
    """What was read of one page. `samples` counts every sample line, wanted or not, as far as it looked like one."""

    series: list[Series] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)  # family -> type
    helps: dict[str, str] = field(default_factory=dict)  # family -> help text
    lines: int = 0  # samples, TYPE and HELP
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    truncated: bool = False  # the last line had no end and was not read
    damaged: set[str] = field(default_factory=set)  # families of which a line could not be read
    layout: Layout | None = None  # everything but the values is the same on every page that bears it

    @property
    def is_exposition(self) -> bool:
        """Whether most of it could be read as exposition text; HTML, JSON and prose could not."""
        return self.lines > self.bad_count and self.bad_count <= max(3, self.lines // 2)


class SeriesMemo:
    """What is remembered of series keys across scrapes and replicas; bounded, since labels may be unbounded."""

    def __init__(self, resolve: Resolver, limit: int = 200_000) -> None:
        self.resolve = resolve
        self.limit = limit
        self.heads: dict[str, Series | _Comment | _Skip] = {}
        self.keys: dict[tuple[str, Slot, tuple[tuple[str, str], ...]], Series] = {}

    def remember(self, head: str, entry: Series | _Comment | _Skip) -> None:
        if len(self.heads) >= self.limit:
            self.heads.clear()
            self.keys.clear()
        self.heads[head] = entry

    def series(self, name: str, labels: dict[str, str], slot: Slot) -> Series:
        """The one object for this key, whatever the order of its labels and the spelling (`vllm:`, `vllm_`) was."""
        key = (name.replace(":", "_"), slot, tuple(sorted(labels.items())))
        known = self.keys.get(key)
        if known is None:
            known = self.keys[key] = Series(name, labels, slot)
        return known


def number(text: str) -> float | None:
    """A value as the format allows it, or None. Python's own `1_000` and other scripts' digits are not allowed."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def as_text(data: bytes | str) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def is_unwanted(entry: object) -> bool:
    """Whether what is remembered of a key is that nobody wants it."""
    return entry is _SKIP


def scan(text: bytes | str, memo: SeriesMemo, *, complete: bool = True) -> Page:
    """Read a page. `complete`: its length is known to be whole, so that a last line without an end may be read."""
    text = as_text(text)
    page = Page()
    lines = text.split("\n")
    last = lines.pop()
    if last.strip():
        if complete:
            lines.append(last)
        else:
            page.truncated = True
            match = _NAME.match(last)
            slot = memo.resolve(match.group()) if match else None
            page.damaged |= {slot.family} if slot else set()
    page.lines = len(lines)
    plain = text.isascii()
    cut = frozenset(page.damaged)
    tails = _pass(lines, page, memo, plain)
    if plain and "_" not in "".join(tails):
        try:
            page.values.extend(map(float, tails))  # all at once: what a line costs here, it costs hundreds of times
        except ValueError:
            pass
        else:
            return page
    again = Page(lines=len(lines), truncated=page.truncated, damaged=set(cut))
    again.values.extend(map(float, _pass(lines, again, memo, False)))
    return again


def _pass(lines: list[str], page: Page, memo: SeriesMemo, trusting: bool) -> list[str]:
    """Every line once: the series go into the page, the texts of their values come back.

    Trusting, a line whose key is known gives its last word unread; else every value is read on the spot.
    """
    known = memo.heads.get
    tails: list[str] = []
    keep_series, keep_tail = page.series.append, tails.append
    for index, line in enumerate(lines):
        if line[:1] == "#":
            entry = known(line)
            if entry is _SKIP:
                continue
            if entry.__class__ is _Comment:
                _note(page, entry)
                continue
        else:
            head, _, tail = line.rpartition(" ")
            entry = known(head)
            if entry is _SKIP:
                continue
            if entry.__class__ is Series and (trusting or number(tail) is not None):
                keep_series(entry)
                keep_tail(tail)
                continue
        _slow(line, index, page, tails, memo)
    return tails


def _slow(line: str, index: int, page: Page, tails: list[str], memo: SeriesMemo) -> None:
    """A line not seen before, or not simple: read it in full, and remember its key where it is one."""
    stripped = line.strip(" \t\r")
    if not stripped:
        page.lines -= 1
        return
    if stripped[0] == "#":
        _comment(line, stripped, page, memo)
        return
    parsed = _key(stripped)
    if parsed is None:
        _bad(page, index, stripped, memo)
        return
    name, labels, end = parsed
    value = _value(stripped[end:])
    if value is None:
        _bad(page, index, stripped, memo)
        return
    head = line.rpartition(" ")[0]
    is_key = head.strip(" \t\r") == stripped[:end].rstrip(" \t")
    slot = memo.resolve(name)
    if slot is None:
        if is_key:
            memo.remember(head, _SKIP)
        return
    series = memo.series(name, labels, slot)
    if is_key:
        memo.remember(head, series)
    page.series.append(series)
    tails.append(repr(value))


def _key(line: str) -> tuple[str, dict[str, str], int] | None:
    """Name, labels and where the key ends; None where there is no whole key."""
    match = _NAME.match(line)
    name = match.group() if match else ""
    at = match.end() if match else 0
    while at < len(line) and line[at] in " \t":
        at += 1
    labels: dict[str, str] = {}
    if at >= len(line) or line[at] != "{":
        # without labels, a blank must part the name from the value
        return (name, labels, match.end()) if match and at > match.end() else None
    at += 1
    if not name:
        quoted = _QUOTED.match(line, at)  # {"a.name", label="value"}: names in UTF-8
        if quoted is None:
            return None
        name, at = _unescape(quoted.group(1)), quoted.end()
    while True:
        pair = _LABEL.match(line, at)
        if pair is None:
            break
        label = pair.group(1)
        if label in labels:
            return None
        labels[_unescape(label[1:-1]) if label[0] == '"' else label] = _unescape(pair.group(2))
        at = pair.end()
    while at < len(line) and line[at] in " \t":
        at += 1
    return (name, labels, at + 1) if at < len(line) and line[at] == "}" else None


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    char = match.group(1)
    return "\n" if char == "n" else char if char in '\\"' else "\\" + char


def _value(rest: str) -> float | None:
    """The value of what follows a key: `value [timestamp] [# exemplar]`."""
    words = rest.partition("#")[0].split()
    if not words or len(words) > 2:
        return None
    if len(words) == 2 and number(words[1]) is None:
        return None
    return number(words[0])


def _comment(line: str, stripped: str, page: Page, memo: SeriesMemo) -> None:
    match = _COMMENT.match(stripped)
    if match is None:
        page.lines -= 1  # anybody's comment: no sign that this is a metrics page
        return
    slot = memo.resolve(match.group(2))
    if slot is None:
        memo.remember(line, _SKIP)
        return
    comment = _Comment(match.group(1), slot.family, match.group(3))
    memo.remember(line, comment)
    _note(page, comment)


def _note(page: Page, comment: _Comment) -> None:
    if comment.kind == "HELP":
        page.helps[comment.family] = comment.text
    elif comment.text.lower() in _TYPES:
        page.types[comment.family] = comment.text.lower()


def _bad(page: Page, index: int, line: str, memo: SeriesMemo) -> None:
    page.bad_count += 1
    match = _NAME.match(line)
    slot = memo.resolve(match.group()) if match else None
    if slot is not None:
        page.damaged.add(slot.family)
    if len(page.bad) < _BAD_KEPT:
        page.bad.append(BadLine(index + 1, line[:80], slot.family if slot else None))
