"""Cuts prompt text into segments, names each by a 64-bit number and counts its tokens.

Knows no requests. Numbers are equal where texts are equal, within one process only: never print one. The trap: tables
are bounded and cleared, so nothing may depend on a number being remembered.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

LONG = 400
MAX_LINES = 300_000
MAX_MEMO_CHARS = 48_000_000
CHARS_PER_TOKEN = 3.5
_PIECES = re.compile(r".{1,240}?(?:[.!?;:>}\]]\s+|, |$)|.{1,240}", re.S)


class Cut(NamedTuple):
    """A text cut: segment numbers, and tokens of each."""

    hashes: array[int]
    tokens: array[int]


def estimate(text: str) -> int:
    """Tokens of a text, from its size: good to about a tenth for prose and JSON."""
    if text.isascii():
        return max(1, int(len(text) / CHARS_PER_TOKEN + 0.5))
    wide = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return max(1, int((len(text) + wide) / CHARS_PER_TOKEN + 0.5))


def lines_of(text: str) -> list[str]:
    """Segments as text: lines with their ends; very long lines are cut at the ends of sentences."""
    lines = text.split("\n")
    if len(text) > LONG and max(map(len, lines)) > LONG:
        pieces: list[str] = []
        for line in lines:
            pieces += _PIECES.findall(line) if len(line) > LONG else [line]
        return [piece for piece in pieces if piece]
    return lines


class Segmenter:
    """Cuts texts, remembering those seen: repetitive logs cost one dictionary look-up per part."""

    def __init__(self, count: Callable[[str], int] = estimate) -> None:
        self._count = count
        self._lines: dict[str, int] = {}
        self._texts: dict[str, Cut] = {}
        self._chars = 0

    def cut(self, text: str) -> Cut:
        """Segments of a text."""
        known = self._texts.get(text)
        if known is not None:
            return known
        lines = lines_of(text)
        table = self._lines
        tokens = [table.get(line) for line in lines]
        if None in tokens:
            tokens = [self._line(line) for line in lines]
        made = Cut(array("q", map(hash, lines)), array("i", tokens))  # type: ignore[arg-type]
        self._chars += len(text)
        if self._chars > MAX_MEMO_CHARS:
            self._texts.clear()
            self._chars = len(text)
        self._texts[text] = made
        return made

    def _line(self, line: str) -> int:
        known = self._lines.get(line)
        if known is None:
            if len(self._lines) > MAX_LINES:
                self._lines.clear()
            known = self._count(line + "\n")
            self._lines[line] = known
        return known
