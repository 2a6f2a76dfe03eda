"""Writes redacted requests to a file of bounded size, in a thread of its own. Off unless it was asked for.

Knows bodies and bytes, nothing of routing. What cannot be taken at once is dropped and counted: a request never waits
for its capture. Trap: words are only comparable under one key, and each process has its own, so a file that is already
there is moved aside and never continued.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from opsconsole.lint.capture import Redactor

MOST_BYTES = 8 * 2**20  # of one file; the one before it is kept as `.1`
LARGEST_BODY = 2**20  # bytes; larger ones are mostly pictures
MOST_PENDING = 8 * 2**20  # bytes of bodies that wait to be written
CLOSE_LIMIT = 2.0  # s

Count = Callable[[str], None]


class Capture:
    """Takes bodies from the event loop; a daemon thread redacts and writes them."""

    def __init__(self, path: Path, redactor: Redactor, count: Count, *, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._redactor, self._count, self._most = path, redactor, count, most_bytes
        self._waiting: deque[tuple[Mapping[str, Any], int]] = deque()
        self._pending = self._size = 0
        self._file: int | None = None
        self._is_over = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()

    def offer(self, body: Mapping[str, Any], size: int) -> None:
        """Take a parsed body of `size` bytes, or count it as dropped. Returns at once; nobody may change it later."""
        with self._news:
            is_taken = size <= LARGEST_BODY and self._pending + size <= MOST_PENDING and not self._is_over
            if is_taken:
                self._waiting.append((body, size))
                self._pending += size
                self._news.notify()
        if not is_taken:
            self._count("dropped")

    def close(self) -> None:
        """Write what waits, as long as that is soon done."""
        with self._news:
            self._is_over = True
            self._news.notify()
        self._thread.join(CLOSE_LIMIT)

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            body, size = taken
            try:
                self._write(self._redactor.line(body).encode("utf-8", "replace"))
                outcome = "written"
            except (OSError, ValueError, RecursionError):
                outcome = "dropped"
            self._count(outcome)
            with self._news:
                self._pending -= size
        if self._file is not None:
            os.close(self._file)

    def _next(self) -> tuple[Mapping[str, Any], int] | None:
        with self._news:
            while not self._waiting and not self._is_over:
                self._news.wait()
            return self._waiting.popleft() if self._waiting else None

    def _write(self, line: bytes) -> None:
        if self._file is None or (self._size and self._size + len(line) > self._most):
            self._open()
        assert self._file is not None
        try:
            done = os.write(self._file, line)
            if done < len(line):
                raise OSError(f"{self._path}: only a part of the line fits")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # half a line would spoil the next one
            raise
        self._size += done

    def _open(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        with suppress(FileNotFoundError):
            os.replace(self._path, self._path.with_name(self._path.name + ".1"))
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._file, self._size = os.open(self._path, flags, 0o600), 0
