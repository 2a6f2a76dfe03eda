"""Output to a terminal that has gone: dropped, so that the thread that writes it lives and nobody waits for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from opsconsole.tui.app import ConsoleApp
from opsconsole.tui.terminal import Lasting, LastingDriver, lasting


@pytest.fixture
def gone() -> Iterator[IO[str]]:
    """A terminal's stream whose other end is closed."""
    ours, theirs = os.openpty()
    file = os.fdopen(theirs, "w")
    os.close(ours)
    yield file
    with contextlib.suppress(OSError):  # what it still held cannot be written
        file.close()


def test_a_terminal_that_has_gone_refuses_what_is_written_to_it(gone: IO[str]) -> None:
    gone.write("x")
    with pytest.raises(OSError):
        gone.flush()


def test_the_thread_that_writes_outlives_the_terminal_and_ends_when_asked(gone: IO[str]) -> None:
    thread = WriterThread(Lasting(gone))  # type: ignore[arg-type]
    thread.start()
    for _ in range(3 * MAX_QUEUED_WRITES):
        thread.write("a frame")
    thread.stop()
    assert not thread.is_alive()


def test_what_is_written_while_it_is_there_arrives() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as file:
        stream = Lasting(file)
        assert stream.write("hello") == 5
        stream.flush()
        assert os.read(ours, 16) == b"hello"
        assert stream.fileno() == file.fileno()
    os.close(ours)


def test_only_the_driver_of_this_terminal_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lasting(LinuxDriver) is LastingDriver
    assert lasting(HeadlessDriver) is HeadlessDriver
    assert ConsoleApp(None).driver_class is LastingDriver
    monkeypatch.setattr("textual.constants.DRIVER", "textual.drivers.web_driver:WebDriver")
    assert ConsoleApp(None).driver_class.__name__ == "WebDriver"
