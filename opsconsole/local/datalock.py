"""One `up` per data directory: an advisory lock that the kernel releases with the process, however it ends.

Trap: the lock belongs to the open file; whoever holds it must keep the object until the end.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from opsconsole.errors import UsageError


class DataLock:
    """Held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "up.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            who = f" (process {holder})" if holder else ""
            raise UsageError(
                f"another `opsconsole up`{who} uses {folder}; stop it, or name another folder with --data-dir"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._file)
