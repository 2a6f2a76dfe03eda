"""Lints live captured traffic: reads what was added to a log and tells findings that are new.

Opt-in and redacted: it shows places and rules, not prompt text. The trap: the last line may be half written, so only
complete lines are taken.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.model import Finding, Result
from opsconsole.lint.reader import LogFile
from opsconsole.lint.report import wire

MAX_REQUESTS = 20_000


class Watcher:
    """Follows one growing log."""

    def __init__(self, path: Path, options: LogOptions) -> None:
        self._path = path
        self._options = options
        self._offset = 0
        self._line = 0
        self._inode = 0
        self._told: set[str] = set()
        self._analysis = LogAnalysis(options)
        self.result = Result()

    def poll(self) -> list[Finding]:
        """Findings not told before, from all traffic up to the last complete line."""
        try:
            with self._path.open("rb") as handle:
                told = os.fstat(handle.fileno())
                if told.st_size < self._offset or told.st_ino != self._inode:
                    self._restart(told.st_ino)
                handle.seek(self._offset)
                data = handle.read()
        except FileNotFoundError:
            return []
        complete = data.rfind(b"\n") + 1
        return self.take(data[:complete])

    def _restart(self, inode: int) -> None:
        """Another file, or rotated: start again, and do not repeat what was told."""
        self._inode = inode
        self._offset = self._line = 0
        self._analysis = LogAnalysis(self._options)

    def take(self, data: bytes) -> list[Finding]:
        """Take complete lines; returns findings not told before."""
        if not data:
            return []
        log = LogFile(str(self._path), io.BytesIO(data))
        for request in log.requests():
            request.line += self._line
            request.length = -1
            self._analysis.feed(request)
        self._offset += len(data)
        self._line += data.count(b"\n")
        if len(self._analysis.rows) > MAX_REQUESTS:
            self._forget()
        self.result = self._analysis.finish({})
        fresh = [item for item in self.result.findings if item.fingerprint not in self._told]
        self._told.update(item.fingerprint for item in fresh)
        return fresh

    @staticmethod
    def batches(stream: BinaryIO) -> Iterator[bytes]:
        """Complete lines of a stream, as they come."""
        rest = b""
        read = getattr(stream, "read1", stream.read)
        while chunk := read(1 << 16):
            rest += chunk
            complete = rest.rfind(b"\n") + 1
            if complete:
                yield rest[:complete]
                rest = rest[complete:]
        if rest:
            yield rest + b"\n"

    def items(self) -> tuple[dict[str, object], ...]:
        """All present findings as plain objects without prompt text, for an agent to publish."""
        self.poll()
        return tuple({"rule": item.code, **wire.finding(item, redact=True)} for item in self.result.findings)

    def _forget(self) -> None:
        """Keep the newest half, so that memory stays bounded on endless traffic."""
        kept = [row.request for row in self._analysis.rows[-MAX_REQUESTS // 2 :]]
        self._analysis = LogAnalysis(self._options)
        for request in kept:
            self._analysis.feed(request)
