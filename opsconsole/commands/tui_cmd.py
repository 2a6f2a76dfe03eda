"""Opens the console: on an agent's address, on a demo it starts itself, or on what it finds.

It must not import the screen before it is known that there is one. The trap: Textual draws on standard error; with
`2>log` the screen would go into the log and the terminal stay blank, so drawing is moved to standard output then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    import subprocess

    from opsconsole.tui.app import ConsoleApp


def run(
    address: str | None, *, demo: bool = False, read_only: bool = False, theme: str | None = None,
    glyphs: str | None = None, replicas: int = 8, pools: int = 1,
) -> int:  # fmt: skip
    """Show the console until it is left; the exit code."""
    if not os.environ.get("TEXTUAL_DRIVER"):  # a browser brings its own screen and keys
        check_terminal()
    with web_slot():
        if demo and not address:
            with demo_agent(replicas, pools) as socket:
                return show(socket, read_only, theme, glyphs)
        return show(address or find_agent(), read_only, theme, glyphs)


def show(address: str | None, read_only: bool, theme: str | None, glyphs: str | None) -> int:
    """Build the application and run it."""
    app = build(address, read_only=read_only, theme=theme, glyphs=glyphs)
    app.owns_process = True
    return app.run(mouse=not os.environ.get("OPSCONSOLE_NO_MOUSE")) or 0


def build(
    address: str | None, *, read_only: bool = False, theme: str | None = None, glyphs: str | None = None
) -> ConsoleApp:
    """The application with this user's settings."""
    from datetime import UTC

    from opsconsole.tui import theme as themes
    from opsconsole.tui.app import ConsoleApp
    from opsconsole.tui.settings import load
    from opsconsole.tui.world import Look

    settings = load()
    look = Look(
        glyphs=themes.choose_glyphs(glyphs or settings.glyphs, os.environ),
        zone=UTC if settings.utc else None,
        read_only=read_only or bool(os.environ.get("OPSCONSOLE_READ_ONLY")),
    )
    name = themes.choose_theme(theme or settings.theme, os.environ)
    return ConsoleApp(address, settings=settings, look=look, theme_name=name)


def check_terminal() -> None:
    """Refuse with a sentence where no screen can be drawn or no key can come."""
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError(
            "The console needs a terminal to read keys from; `opsconsole status` prints the fleet without one."
        )
    if sys.stderr.isatty():
        return
    if sys.stdout.isatty():
        sys.__stderr__ = sys.stdout  # type: ignore[misc, assignment]
        return
    raise UsageError("The console needs a terminal to draw on; `opsconsole status` prints the fleet without one.")


def state_home() -> Path:
    """Where agents of this user keep their sockets."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "opsconsole"


def find_agent() -> str | None:
    """An agent's socket of this user that something listens on; the newest wins."""
    named = os.environ.get("OPSCONSOLE_AGENT")
    if named:
        return named
    found = [path for path in (*state_home().glob("agent.sock"), *state_home().glob("*/agent.sock")) if listening(path)]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


def listening(path: Path) -> bool:
    """Whether a process accepts connections on the socket; a file left behind by a dead one does not count."""
    import socket

    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def demo_agent(replicas: int = 8, pools: int = 1, *extra: str) -> Iterator[str]:
    """A demo in a process of its own, which ends with this one; its socket."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="opsconsole-demo-") as folder:
        socket = str(Path(folder) / "agent.sock")
        arguments = ["--socket", socket, "--tied", "--replicas", str(replicas), "--pools", str(pools), *extra]
        with companion("opsconsole.client.demo", arguments, Path(folder)):
            yield socket


@contextlib.contextmanager
def companion(module: str, arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of our own beside the console; it ends when we do, and its words are in `agent.log`."""
    import subprocess

    with (folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            if process.stdin:
                process.stdin.close()
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def web_slot() -> Iterator[None]:
    """One of the places for browser sessions; refused when all are taken. Nothing outside the web mode."""
    folder, _, places = os.environ.get("OPSCONSOLE_WEB_SLOTS", "").rpartition(":")
    if not folder:
        yield
        return
    import fcntl

    for number in range(int(places)):
        with (Path(folder) / str(number)).open("w") as slot:
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield
            return
    raise UsageError(f"All {places} browser sessions are taken; close one, or start with more --sessions.")
