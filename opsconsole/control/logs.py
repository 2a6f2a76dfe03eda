"""The agent's log: the journal's lines and the program's own warnings, one JSON object a line.

It words nothing: a journal line is logged as it was written. The trap: a log record's message may hold anything a
metrics page or a name held, so it is always encoded, never pasted into the line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from opsconsole.domain.records import JournalEntry

_journal = logging.getLogger("opsconsole.journal")
_LEVELS = {"error": logging.ERROR, "alert": logging.WARNING}


class JsonLines(logging.Formatter):
    """{"at", "level", "from", "text", ...}; a traceback under "trace"."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "from": record.name.removeprefix("opsconsole."),
            "text": record.getMessage(),
        }
        line.update(getattr(record, "entry", {}))
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Ours(logging.StreamHandler[TextIO]):
    """The one handler of this program, told from those of whoever else set some up."""


def set_up(as_json: bool, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send our log to `stream` (standard error), and what other libraries log or warn of, at their own levels, as well:
    a line in another form would break whoever reads the log."""
    handler = Ours(stream or sys.stderr)
    words = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(JsonLines() if as_json else words)
    logger = logging.getLogger("opsconsole")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    root = logging.getLogger()
    root.handlers[:] = [*(other for other in root.handlers if not isinstance(other, Ours)), handler]
    logging.captureWarnings(True)


def log_entries(entries: Iterable[JournalEntry]) -> None:
    for entry in entries:
        told = {"seq": entry.seq, "kind": entry.kind, "pool": entry.pool, "who": entry.who, "tick": entry.tick}
        level = _LEVELS.get(entry.kind, logging.INFO)
        _journal.log(level, "%s", entry.text, extra={"entry": told})
