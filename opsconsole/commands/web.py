"""`opsconsole web`: the console in a browser, on loopback, read-only, for a few readers at a time.

It must not be reachable from elsewhere by default: the server behind it has no authentication. The trap: every browser
session is a process of its own, so the number of sessions is capped by lock files that die with their processes.
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
) -> None:
    """Show the console in a browser: loopback only, read-only, a few sessions.

    Examples:

      opsconsole web --demo

      opsconsole web --attach ~/.local/state/opsconsole/agent.sock --port 8899
    """
    import importlib
    import os
    import shlex
    import tempfile

    if host not in LOOPBACK:
        raise UsageError(
            f"{host} is not a loopback address; the web console has no log-in, so use an SSH tunnel instead."
        )
    try:
        serving = importlib.import_module("textual_serve.server")
    except ImportError:
        raise UsageError("The web console needs the package textual-serve: pip install 'opsconsole[web]'.") from None
    command = [sys.executable, "-m", "opsconsole"]
    command += ["--attach", attach] if attach else ["--demo"] if demo else []
    with tempfile.TemporaryDirectory(prefix="opsconsole-web-") as slots:
        os.environ["OPSCONSOLE_READ_ONLY"] = "1"
        os.environ["OPSCONSOLE_WEB_SLOTS"] = f"{slots}:{sessions}"
        serving.Server(shlex.join(command), host=host, port=port, title="opsconsole").serve()
