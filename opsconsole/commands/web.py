"""`opsconsole web`: the console in a browser, on loopback, read-only, for a few readers at a time.

It must not be reachable from elsewhere: the server behind it has no authentication. The trap: every browser session is
a process of its own, told on its command line to be read-only, and the number of them is capped.
"""

from __future__ import annotations

import sys

import typer

from opsconsole.errors import UsageError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def web(
    attach: str = typer.Option("", "--attach", metavar="ADDRESS", help="The agent to show."),
    demo: bool = typer.Option(False, "--demo", help="A synthetic fleet, clearly labelled."),
    host: str = typer.Option("127.0.0.1", "--host", help="Loopback addresses only."),
    port: int = typer.Option(8899, "--port", min=1, max=65535),
    sessions: int = typer.Option(4, "--sessions", min=1, max=64, help="Readers at a time."),
    theme: str = typer.Option("", "--theme", help="dark, light, contrast, cvd or mono."),
) -> None:
    """Show the console in a browser: loopback only, read-only, a few sessions.

    Examples:

      opsconsole web --demo

      opsconsole web --attach ~/.local/state/opsconsole/agent.sock --port 8899
    """
    import shlex

    from opsconsole.commands.tui_cmd import check_look

    if host not in LOOPBACK:
        raise UsageError(
            f"{host} is not a loopback address; the web console has no log-in, so use an SSH tunnel instead."
        )
    if attach and demo:
        raise UsageError("--demo brings a fleet of its own: give it, or --attach, not both.")
    check_look(theme, None)
    try:
        from opsconsole.commands.web_server import ConsoleServer
    except ImportError:
        raise UsageError("The web console needs the package textual-serve: pip install 'opsconsole[web]'.") from None
    command = [sys.executable, "-m", "opsconsole", "--read-only"]
    command += ["--attach", attach] if attach else ["--demo"] if demo else []
    command += ["--theme", theme] if theme else []
    try:
        ConsoleServer(f"exec {shlex.join(command)}", host, port, sessions).serve()
    except OSError as error:
        raise UsageError(f"{host}:{port} cannot be used ({error.strerror}); choose another with --port.") from None
