"""Text as it lies in a terminal: cells, lines, widths, and the only place that measures or cuts a string.

It must not know what the text means. Every name that came from outside goes through `clean` first: control and
escape bytes, zero-width joiners and bidirectional marks would move the cursor or the neighbours' columns. The trap:
`len` of a string is not its width; a wide character takes two cells and a combining one none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, cast

from rich.cells import cell_len


class Cell(NamedTuple):
    """A run of text in one style; the style is a name that `theme` turns into colours."""

    text: str
    style: str = "text"


Line = tuple[Cell, ...]

_DROPPED = {"Cf", "Cs", "Co", "Cn"}  # format characters (joiners, direction marks), surrogates, unassigned
_MAX_NAME = 512


@lru_cache(maxsize=8192)
def clean(text: str, substitute: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Data text made harmless: one line, no control bytes, nothing that joins or reorders its neighbours."""
    if text.isascii() and text.isprintable():
        return text[:_MAX_NAME]
    kept: list[str] = []
    for char in text[:_MAX_NAME]:
        category = unicodedata.category(char)
        if category in _DROPPED or "\ufe00" <= char <= "\ufe0f":
            continue
        if category in ("Zl", "Zp", "Cc"):
            kept.append(" " if char in "\t\n\r" else substitute)
        else:
            kept.append(char)
    if kept and unicodedata.combining(kept[0]):
        kept.insert(0, " ")  # a combining mark at the start would sit on the cell before ours
    return "".join(kept)


@lru_cache(maxsize=16384)
def width(text: str) -> int:
    """Cells a string takes."""
    return len(text) if text.isascii() else cell_len(text)


@lru_cache(maxsize=16384)
def cut(text: str, cells: int) -> str:
    """The head of a string that fits, never half a wide character."""
    if width(text) <= cells:
        return text
    taken, used = 0, 0
    for char in text:
        used += width(char)
        if used > cells:
            break
        taken += 1
    return text[:taken]


@lru_cache(maxsize=16384)
def left(text: str, cells: int, mark: str = "~") -> str:
    """Padded or cut to exactly `cells`, the text at the left; a cut one ends in `mark`."""
    if cells <= 0:
        return ""
    if width(text) > cells:
        text = cut(text, cells - 1) + mark if cells > 1 else mark
    return text + " " * (cells - width(text))


@lru_cache(maxsize=16384)
def right(text: str, cells: int, mark: str = "~") -> str:
    """Padded or cut to exactly `cells`, the text at the right; numbers go this way."""
    if cells <= 0:
        return ""
    if width(text) > cells:
        text = cut(text, cells - 1) + mark if cells > 1 else mark
    return " " * (cells - width(text)) + text


@lru_cache(maxsize=8192)
def tail(text: str, cells: int, mark: str = "..") -> str:
    """The end of a long name, where the telling part is (`..-7d9-x2k`); short names are left alone."""
    if width(text) <= cells:
        return left(text, cells)
    if cells <= len(mark):
        return left(mark, cells)
    room, taken = cells - len(mark), 0
    start = len(text)
    while start > 0 and taken + width(text[start - 1]) <= room:
        start -= 1
        taken += width(text[start])
    while start < len(text) and unicodedata.combining(text[start]):
        start += 1  # never begin with a mark that lost its letter
    return left(mark + text[start:], cells)


def line_width(line: Iterable[Cell]) -> int:
    """Cells a line takes."""
    return sum([len(text) if text.isascii() else width(text) for text, _ in line])


def fit(line: Iterable[Cell], cells: int, mark: str = "~") -> Line:
    """The line padded or cut to exactly `cells`; cut words end in `mark`, if any. One that fits stays itself."""
    if line.__class__ is tuple and line_width(line) == cells:
        return cast("Line", line)
    out: list[Cell] = []
    used = 0
    for cell in line:
        size = width(cell.text)
        if used + size > cells:
            rest = cut(cell.text, cells - used)
            if mark and used < cells and cell.text[len(rest) :].strip():
                rest = cut(cell.text, cells - used - 1) + mark
            out.append(Cell(rest, cell.style))
            used += width(rest)
            break
        out.append(cell)
        used += size
    if used < cells:
        out.append(Cell(" " * (cells - used)))
    return tuple(out)


def whole(parts: Iterable[Iterable[Cell]], cells: int) -> Line:
    """Parts of a line in their order, each entire or not at all; the first stays whatever it takes."""
    out: list[Cell] = []
    used = 0
    for part in parts:
        piece = tuple(part)
        if out and used + line_width(piece) > cells:
            continue
        out += piece
        used += line_width(piece)
    return tuple(out)


def spread(left_side: Iterable[Cell], right_side: Iterable[Cell], cells: int) -> Line:
    """Two groups at the two ends of a line; the right one wins when there is no room for both."""
    tail_cells = tuple(right_side)
    room = cells - line_width(tail_cells)
    if room <= 0:
        return fit(tail_cells, cells, "")
    return (*fit(left_side, room), *tail_cells)


def plain(line: Iterable[Cell]) -> str:
    """The characters of a line, for tests, copying and exports."""
    return "".join(cell.text for cell in line)


def wrap(text: str, cells: int) -> list[str]:
    """Words of a sentence over lines of at most `cells`; a word longer than a line is cut into pieces."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        while width(word) > max(1, cells):
            if current:
                lines.append(current)
                current = ""
            head = cut(word, max(1, cells)) or word[:1]
            lines.append(head)
            word = word[len(head) :]
        candidate = f"{current} {word}" if current else word
        if width(candidate) <= cells:
            current = candidate
        else:
            lines.append(current)
            current = word
    if current:
        lines.append(current)
    return lines or [""]
