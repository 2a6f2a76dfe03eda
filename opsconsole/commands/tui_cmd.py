"""Opens the console: on an agent's address, on a demo it starts itself, or on what it finds.

It must not import the screen before it is known that there is one. The trap: Textual draws on standard error; with
`2>log` the screen would go into the log and the terminal stay blank, so drawing is moved to standard output then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from opsconsole.commands.found import find_agent
from opsconsole.errors import UsageError

if TYPE_CHECKING:
    import subprocess

    from opsconsole.tui.app import ConsoleApp
    from opsconsole.tui.recording import Recorder

FRAMES = "120"  # at most, a second: nothing is painted that has not changed, and a key waits half as long for its turn


def run(
    address: str | None, *, demo: bool = False, read_only: bool = False, theme: str | None = None,
    glyphs: str | None = None, replicas: int = 8, pools: int = 1, lean: bool = False,
    no_mouse: bool = False,
) -> int:  # fmt: skip
    """Show the console until it is left; the exit code."""
    if no_mouse:
        os.environ["OPSCONSOLE_NO_MOUSE"] = "1"
    if lean:
        go_lean(os.environ)
        glyphs = glyphs or "ascii"
    if demo and address:
        raise UsageError("--demo brings a fleet of its own: give it, or an agent's address, not both.")
    check_look(theme, glyphs)
    if not os.environ.get("TEXTUAL_DRIVER"):  # a browser brings its own screen and keys
        check_terminal()
    with demo_agent(replicas, pools) if demo else anything(address) as found:
        return show(found, read_only, theme, glyphs, lean)


@contextlib.contextmanager
def anything(address: str | None) -> Iterator[str | None]:
    """The agent to show: the one named, one that runs, or one of our own on what there is; None for an empty fleet."""
    from opsconsole.commands import found

    if address or (address := find_agent()):
        yield address
        return
    config = found.configuration(os.environ)
    if config is not None and (running := found.configured_agent(config)):
        yield running
    elif config is not None and found.names_sources(config):
        with watching("--configured", "--fleet", config.agent.fleet) as socket:
            yield socket
    elif engines := found.engines(found.ports(os.environ)):
        with watching("--fleet", "loopback", *engines) as socket:
            yield socket
    else:
        yield None


@contextlib.contextmanager
def watching(*arguments: str) -> Iterator[str]:
    """An agent of our own that only looks, with what it keeps in a temporary folder; its socket."""
    from opsconsole.commands.scratch import scratch

    with scratch("watch") as folder:
        words = ["--data-dir", str(folder), *arguments]
        with companion("opsconsole.commands.watch_agent", words, folder):
            yield str(folder / "agent.sock")


def check_look(theme: str | None, glyphs: str | None) -> None:
    """Refuse a look that does not exist, by its option's name."""
    from opsconsole.tui import theme as themes

    for option, asked, known in (("--theme", theme, themes.THEMES), ("--glyphs", glyphs, themes.GLYPHS)):
        if asked and asked not in known:
            raise UsageError(f"{option} {asked} is not one of {', '.join(known)}.")


def go_lean(environ: MutableMapping[str, str]) -> None:
    """Few bytes for a slow line: five frames a second, nothing moves by itself. Before Textual is imported."""
    for name, value in (("TEXTUAL_FPS", "5"), ("TEXTUAL_ANIMATIONS", "none"), ("TEXTUAL_SMOOTH_SCROLL", "0")):
        environ.setdefault(name, value)


def show(address: str | None, read_only: bool, theme: str | None, glyphs: str | None, lean: bool = False) -> int:
    """Build the application and run it."""
    os.environ.setdefault("TEXTUAL_FPS", FRAMES)  # read when Textual is imported
    app = build(address, read_only=read_only, theme=theme, glyphs=glyphs, lean=lean)
    app.owns_process = True
    asked = app.run(mouse=not os.environ.get("OPSCONSOLE_NO_MOUSE")) or 0
    if not app.is_web:
        from opsconsole.tui import remembered

        remembered.save(remembered.path(os.environ), app.session.state, app.look_name)
    return app.return_code or asked  # Textual's own says that an error ended it


def build(
    address: str | None, *, read_only: bool = False, theme: str | None = None, glyphs: str | None = None,
    lean: bool = False, fresh: bool = False,
) -> ConsoleApp:  # fmt: skip
    """The application with this user's settings; `fresh` without what was chosen last time."""
    from datetime import UTC

    from opsconsole.tui import remembered
    from opsconsole.tui import theme as themes
    from opsconsole.tui.app import ConsoleApp
    from opsconsole.tui.settings import load
    from opsconsole.tui.world import Look

    settings = load()
    look = Look(
        glyphs=themes.choose_glyphs(glyphs or settings.glyphs, os.environ),
        zone=UTC if settings.utc else None,
        read_only=read_only,
    )
    held = {} if fresh else remembered.load(remembered.path(os.environ))
    name = themes.choose_theme(theme or settings.theme or held.get("theme"), os.environ)
    name_terminal(os.environ)
    app = ConsoleApp(address, settings=settings, look=look, theme_name=name, recorder=recorder, lean=lean)
    app.session.state = remembered.applied(held, app.session.state, settings)
    return app


def name_terminal(environ: MutableMapping[str, str]) -> None:
    """Call a nameless terminal the plainest that has a size: for `dumb` Rich says 80x25 always; no layout settles."""
    if environ.get("TERM", "").lower() in ("dumb", "unknown"):
        environ["TERM"] = "vt100"


def recorder(path: str) -> Recorder:
    """A recording in a file; what writes it is loaded when the key is pressed."""
    from opsconsole.commands.recorder import FileRecorder

    return FileRecorder(path)


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


@contextlib.contextmanager
def demo_agent(replicas: int = 8, pools: int = 1, *extra: str) -> Iterator[str]:
    """A demo in a process of its own, which ends with this one; its socket."""
    from opsconsole.commands.scratch import scratch

    with scratch("demo") as folder:
        socket = str(folder / "agent.sock")
        arguments = ["--socket", socket, "--tied", "--replicas", str(replicas), "--pools", str(pools), *extra]
        with companion("opsconsole.client.demo", arguments, folder):
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
