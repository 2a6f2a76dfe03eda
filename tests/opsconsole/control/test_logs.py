"""The log is lines of one form, whoever speaks: the journal, the program, a library, a warning."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from opsconsole.control.logs import Ours, log_entries, set_up
from opsconsole.domain.records import JournalEntry


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The process's logging, which other tests read, is put back."""
    root, own = logging.getLogger(), logging.getLogger("opsconsole")
    before = list(root.handlers), list(own.handlers), own.level, own.propagate
    logging.captureWarnings(False)  # what another test set up ended with that test's own view of warnings
    yield
    logging.captureWarnings(False)
    root.handlers[:], own.handlers[:], own.level, own.propagate = before


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_everybodys_words_are_json_lines() -> None:
    stream = io.StringIO()
    set_up(True, stream)
    log_entries([JournalEntry(7, 1.0, "alert", "chat", "it burns\nand burns", 3)])
    logging.getLogger("opsconsole.control.loop").info("a tick")
    logging.getLogger("some.library").warning('a "quoted" word')
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("all is not a number", RuntimeWarning, stacklevel=1)
    found = lines(stream)
    assert [(line["from"], line["level"]) for line in found] == [
        ("journal", "warning"), ("control.loop", "info"), ("some.library", "warning"), ("py.warnings", "warning"),
    ]  # fmt: skip
    assert (found[0]["text"], found[0]["seq"], found[0]["pool"]) == ("it burns\nand burns", 7, "chat")
    assert "RuntimeWarning: all is not a number" in str(found[3]["text"])


def test_a_traceback_is_part_of_its_line() -> None:
    stream = io.StringIO()
    set_up(True, stream)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("opsconsole.x").exception("it failed")
    (line,) = lines(stream)
    assert line["text"] == "it failed" and "ValueError: no" in str(line["trace"])


def test_set_up_twice_speaks_once_and_leaves_the_handlers_of_others() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    first, second = io.StringIO(), io.StringIO()
    set_up(False, first)
    set_up(False, second)
    logging.getLogger("opsconsole.x").warning("once")
    logging.getLogger("a.library").warning("twice?")
    assert first.getvalue() == ""
    assert [line.split()[-1] for line in second.getvalue().splitlines()] == ["once", "twice?"]
    handlers = logging.getLogger().handlers
    assert other in handlers and sum(isinstance(handler, Ours) for handler in handlers) == 1


def test_quiet_libraries_stay_quiet() -> None:
    stream = io.StringIO()
    set_up(True, stream)
    logging.getLogger("a.library").info("chatter")
    assert stream.getvalue() == ""
