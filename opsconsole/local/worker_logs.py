"""The last lines a worker wrote, for the agent's API: read from its file in the run's folder, never kept.

It knows names and files. The trap: a name comes from a caller, so only names of files that are there are opened, and
none with a separator in it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from opsconsole.errors import UsageError

MOST_BYTES = 256 * 1024  # read from the end


class WorkerLogs:
    """Call it with a worker's name and how many lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, lines: int) -> Sequence[str]:
        if not name or Path(name).name != name or not (path := self._folder / f"{name}.log").is_file():
            raise UsageError(f"There is no log of {name or 'nobody'} in {self._folder}.")
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - MOST_BYTES))
            text = log.read().decode("utf-8", "replace")
        found = text.splitlines()
        return found[1:][-lines:] if size > MOST_BYTES else found[-lines:]
