"""A real terminal for tests: one tmux pane that is typed at and read back, by polling with a deadline.

It must not know what runs in it. The trap: tmux reads Escape followed at once by a key as Alt and that key, so a pause
stands after every Escape.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from opsconsole.clock import SystemClock

ROOT = Path(__file__).parents[3]
CLOCK = SystemClock()


def need_tmux() -> None:
    """Skip, visibly, where there is none."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: the real-terminal tests need it (apt-get install tmux)")


def wait_for(what: str, check: Callable[[], object], seconds: float = 20.0) -> None:
    """Poll until a check holds; the sentence says what never came."""
    end = CLOCK.monotonic() + seconds
    while CLOCK.monotonic() < end:
        if check():
            return
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError(f"{what} within {seconds:.0f} s")


class Tmux:
    """One pane of one private server."""

    def __init__(self, folder: Path, command: str, size: tuple[int, int]) -> None:
        self._socket = f"ops-{uuid.uuid4().hex[:8]}"
        environ = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": str(folder), "TZ": "UTC"}
        for name in ("TMUX", "NO_COLOR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            environ.pop(name, None)
        environ["OPSCONSOLE_PORTS"] = ""  # engines that happen to run on this machine are not meant
        self._environ = environ
        shell = f"cd {folder} && PYTHONPATH={ROOT} {command}; echo LEFT WITH $?; cat"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-s", "t", shell)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], env=self._environ, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "t", *keys)
        if "Escape" in keys:
            subprocess.run(["sleep", "0.3"], check=True)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "t")

    def sees(self, *words: str, seconds: float = 20.0) -> str:
        """Wait until the screen holds each of the words; the screen."""
        return self.shows(str(words), lambda text: all(word in text for word in words), seconds)

    def shows(self, what: str, check: Callable[[str], object], seconds: float = 20.0) -> str:
        """Wait until the screen fits the check; the screen."""
        seen = [""]

        def fits() -> object:
            seen[0] = self.text()
            return check(seen[0])

        try:
            wait_for(f"{what} on the screen", fits, seconds)
        except AssertionError as error:
            size = self._tmux("display", "-p", "-t", "t", "#{pane_width}x#{pane_height}").strip()
            raise AssertionError(f"{error}; at {size} it shows:\n{self.text()}") from None
        return seen[0]

    def end(self) -> None:
        self._tmux("kill-server")
