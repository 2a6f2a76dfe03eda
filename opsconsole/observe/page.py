"""Bytes that claim to be a metrics page: scanned, or refused with the kind of what they are instead.

It must not know engines. The trap: `200 OK` with an empty body or with `[]` parses to no samples at all, and no
samples must never read as zeros.
"""

from __future__ import annotations

from opsconsole.errors import SourceErrorKind
from opsconsole.observe.exposition import Page
from opsconsole.observe.fetch import FetchFailed
from opsconsole.observe.layout import PageReader


def open_page(data: bytes, reader: PageReader, *, complete: bool = True, cut_is_fine: bool = False) -> Page:
    """The scanned page; `FetchFailed` for what is not one, or is cut off unless that is fine."""
    if not data or data.isspace():
        raise FetchFailed(SourceErrorKind.EMPTY, "answered with an empty page")
    first = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    if first[:1] in (b"[", b"<"):
        raise FetchFailed(SourceErrorKind.NOT_METRICS, _what(first))
    page = reader.read(data, complete=complete)
    if page.truncated and not cut_is_fine:
        raise FetchFailed(SourceErrorKind.TRUNCATED, "the page ends within a line")
    if not page.is_exposition:
        raise FetchFailed(SourceErrorKind.NOT_METRICS, _what(first))
    return page


def _what(first: bytes) -> str:
    """Words for what came instead."""
    if first[:1] == b"<":
        return "answered with HTML or XML, not with a metrics page: is this the right path?"
    if first[:1] in (b"[", b"{"):
        return "answered with JSON, not with a metrics page (trtllm-serve has its page at /prometheus/metrics)"
    return "did not answer with a metrics page"
