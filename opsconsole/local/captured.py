"""What captured requests show: the linter's findings on the router's capture, for the agent to publish.

Knows one file and the linter. Trap: judging thousands of requests takes a while; it is done in the asking thread, one
at a time, and whoever asks meanwhile gets what was found last.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opsconsole.lint.runner import log_options
from opsconsole.lint.settings import LintSettings
from opsconsole.lint.watch import Watcher

ENOUGH = 20  # requests of a fresh file from which it speaks for itself


class CapturedFindings:
    """Call it for the present findings as plain objects."""

    def __init__(self, path: Path) -> None:
        settings = LintSettings()
        self._codes = settings.codes
        self._watcher = Watcher(path, log_options(settings))
        self._found: tuple[dict[str, Any], ...] = ()
        self._turn = threading.Lock()

    def __call__(self) -> Sequence[dict[str, Any]]:
        if self._turn.acquire(blocking=False):
            try:
                found = tuple(item for item in self._watcher.items() if item["rule"] in self._codes)
                if found or self._watcher.result.records >= ENOUGH:
                    self._found = found
            finally:
                self._turn.release()
        return self._found
