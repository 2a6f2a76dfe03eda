"""Reads logs line by line: plain, gz or standard input; one bad record costs one record.

Knows nothing of reuse. Records are found again by offset for evidence, so memory does not grow with the prompts. The
trap: gz and standard input cannot be read twice, so they are spooled to an unnamed temporary file.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from opsconsole.lint.formats import record, vllm
from opsconsole.lint.model import Note
from opsconsole.lint.request import Request, Unreadable

MAX_LINE_BYTES = 256 * 1024 * 1024
_decode_json = json.JSONDecoder().decode
_decode_item = json.JSONDecoder().raw_decode
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(slots=True)
class LogFile:
    """One log that is read in order and, for evidence, at offsets."""

    name: str
    handle: IO[bytes]
    notes: list[Note] = field(default_factory=list)
    bad: int = 0
    records: int = 0
    truncated: int = 0

    @classmethod
    def open(cls, path: Path, name: str) -> LogFile:
        """Open a log; a gz file is unpacked to a temporary file first."""
        handle = path.open("rb")
        if handle.read(2) == b"\x1f\x8b":
            handle.close()
            with gzip.open(path, "rb") as packed:
                return cls.spool(packed, name)
        handle.seek(0)
        return cls(name, handle)

    @classmethod
    def spool(cls, source: Any, name: str) -> LogFile:
        """Copy a stream that cannot be read twice."""
        spooled = tempfile.TemporaryFile()  # noqa: SIM115
        log = cls(name, spooled)
        try:
            while chunk := source.read(1 << 20):
                spooled.write(chunk)
        except (EOFError, OSError, zlib.error) as error:
            log.notes.append(
                Note("PX901", f"{name}: the packed file ends early ({error}); what was read is checked", name)
            )
            log.bad += 1
        spooled.seek(0)
        return log

    def close(self) -> None:
        self.handle.close()

    def requests(self) -> Iterator[Request]:
        """Every readable request, in order. Whole-file JSON (an array or one object) is read too."""
        offset = 0
        first = self.handle.read(1)
        self.handle.seek(0)
        if first == b"[" and self._is_array():
            items = self._array()
            if items is not None:
                yield from items
                return
            self.handle.seek(0)
        pending = ""  # a first object that is pretty-printed over several lines
        for number, raw in enumerate(self.handle, 1):
            start, offset = offset, offset + len(raw)
            if pending or (number == 1 and raw.strip() == b"{"):
                pending += raw.decode("utf-8", "replace")
                continue
            request = self._line(raw, number)
            if request is not None:
                request.offset, request.length = start, len(raw)
                yield request
        if pending:
            yield from self._whole(pending)

    def _is_array(self) -> bool:
        line = self.handle.readline().strip()
        self.handle.seek(0)
        return not (line.endswith(b"]") and line[1:2].isdigit())

    def _array(self) -> Iterator[Request] | None:
        """The requests of one JSON array, those before a broken place too; None where its first item is no record."""
        text = self.handle.read().decode("utf-8", "replace")
        try:
            return self._items(json.loads(text))
        except (ValueError, RecursionError) as error:
            items = _items_before(text)
            if not items or not isinstance(items[0], (dict, list)):
                return None
            self._bad(text.count("\n", 0, getattr(error, "pos", 0)) + 1, f"not valid JSON: {error}")
            return self._items(items)

    def _items(self, items: list[Any]) -> Iterator[Request]:
        for number, item in enumerate(items, 1):
            request = self._parse(item, number)
            if request is not None:
                request.length = -1
                yield request

    def _whole(self, text: str) -> Iterator[Request]:
        try:
            request = self._parse(json.loads(text), 1)
        except (ValueError, RecursionError) as error:
            self._bad(1, f"not valid JSON: {error}")
            return
        if request is not None:
            request.length = -1
            yield request

    def _line(self, raw: bytes, number: int) -> Request | None:
        if len(raw) < 2 or raw.isspace():
            return None
        if len(raw) > MAX_LINE_BYTES:
            self._bad(number, f"the line has {len(raw):,} bytes; the limit is {MAX_LINE_BYTES:,}")
            return None
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self._bad(number, f"not UTF-8 text (byte {error.start})")
            return None
        try:
            value = _decode_json(line)
        except (ValueError, RecursionError) as error:
            return self._text_line(line, number, error)
        return self._parse(value, number)

    def _text_line(self, line: str, number: int, error: Exception) -> Request | None:
        if vllm.looks_like(line):
            found = vllm.read(line)
            if found is not None:
                self.records += 1
                self.truncated += found.truncated
                found.file, found.line = self.name, number
                return found
        if line.lstrip()[:1] not in ("{", "[") and self.records and not line.startswith("\x00"):
            return None  # ordinary lines between the requests of a server's log
        self._bad(number, f"not valid JSON: {error}")
        return None

    def _parse(self, value: Any, number: int) -> Request | None:
        try:
            request = record.read(value)
        except Unreadable as error:
            self._bad(number, str(error))
            return None
        self.records += 1
        request.file, request.line = self.name, number
        return request

    def _bad(self, line: int, reason: str) -> None:
        self.bad += 1
        if self.bad <= 20:
            self.notes.append(Note("PX901", f"{self.name}:{line}: {reason}; this record was skipped", self.name, line))

    def again(self, request: Request) -> Request:
        """The same request read again by its offset (its parts were dropped to save memory)."""
        if request.length < 0 or request.parts or request.tokens is not None:
            return request
        self.handle.seek(request.offset)
        raw = self.handle.read(request.length)
        before = self.records, self.bad, len(self.notes), self.truncated
        fresh = self._line(raw, request.line)
        self.records, self.bad, _, self.truncated = before
        assert fresh is not None
        fresh.index, fresh.offset, fresh.length = request.index, request.offset, request.length
        return fresh


def _items_before(text: str) -> list[Any]:
    """The whole items of an array that is broken further on."""
    made: list[Any] = []
    at = 1
    while True:
        gap = _BETWEEN.match(text, at)
        assert gap is not None
        try:
            item, at = _decode_item(text, gap.end())
        except (ValueError, RecursionError):
            return made
        made.append(item)
