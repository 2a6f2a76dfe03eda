"""One row per request of a log: numbers only, so that a gigabyte of prompts fits in memory.

Built by the first pass; the evidence is read again later. The trap: `units` are segment numbers of this process and
`tokens` their sizes, equally long.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass

from opsconsole.lint.reader import LogFile
from opsconsole.lint.request import Part, Request
from opsconsole.lint.segments import Segmenter

_HEADER_TOKENS = 3
KEEP_CHARS = 64_000_000


@dataclass(slots=True)
class Row:
    """What the analysis needs to know of one request."""

    request: Request
    units: array[int]
    tokens: array[int]
    total: int
    head: int  # units of tools and leading system text
    messages: tuple[int, ...]  # a number per message that is not leading system text
    tail: int = 0  # number of the last message
    common: int = 0  # leading units an earlier request shares
    common_tokens: int = 0
    reused: int = 0
    repeats: int = 0  # tokens behind the common prefix that an earlier request had too
    family: int = -1
    in_budget: int | None = None


def make_row(request: Request, segmenter: Segmenter) -> Row:
    """Cut a request into numbers. Its parts stay on it until the caller drops them."""
    units: array[int] = array("q")
    tokens: array[int] = array("i")
    head = 0
    messages: dict[int, int] = {}
    leading = True
    for part in request.parts:
        if part.kind == "message":
            leading = False
        units.append(hash(part.role))
        tokens.append(_HEADER_TOKENS)
        cut = segmenter.cut(part.text)
        units += cut.hashes
        tokens += cut.tokens
        if leading:
            head = len(units)
        else:
            messages[part.message] = hash((messages.get(part.message), part.role, part.text))
    if request.tokens is not None:
        ids = request.tokens
        units = array("q", ids)
        tokens = array("i", b"\x01\x00\x00\x00" * len(ids))
    return Row(request, units, tokens, sum(tokens), head, tuple(messages.values()))


class Evidence:
    """The parts of requests, kept for small logs and read again for large ones."""

    def __init__(self, logs: dict[str, LogFile]) -> None:
        self._logs = logs
        self._kept: OrderedDict[int, list[Part]] = OrderedDict()

    def parts(self, row: Row) -> list[Part]:
        """The parts of a row's request."""
        request = row.request
        if request.parts or request.tokens is not None:
            return request.parts
        known = self._kept.get(request.index)
        if known is None:
            known = self._logs[request.file].again(request).parts
            self._kept[request.index] = known
            if len(self._kept) > 64:
                self._kept.popitem(last=False)
        return known
