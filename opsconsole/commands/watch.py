"""`opsconsole watch URL...`: the console on engines that already run, with an agent of its own that only looks.

It must not change anything: the agent it starts has no actuator. The trap: the agent is another process, so what it
says when it cannot start is in its log, and the console is told where that is.
"""

from __future__ import annotations

from pathlib import Path

import typer

from opsconsole.errors import AgentUnavailable

STARTS_WITHIN_S = 15.0


def watch(
    addresses: list[str] = typer.Argument(..., metavar="URL...", help="Engines' addresses; /metrics is understood."),
    slo: str = typer.Option("", "--slo", metavar="BOUNDS", help="ttft=1s,tpot=80ms,target=95%"),
    interval: float = typer.Option(1.0, "--interval", min=0.2, help="Seconds between looks."),
    data_dir: Path | None = typer.Option(None, "--data-dir", help="Where the agent keeps history; default: temporary."),
    theme: str = typer.Option("", "--theme", help="dark, light, contrast, cvd or mono."),
    glyphs: str = typer.Option("", "--glyphs", help="block or ascii."),
) -> None:
    """Watch engines that already run, by their /metrics.

    Examples:

      opsconsole watch 10.0.0.7:8000 10.0.0.8:8000

      opsconsole watch http://gpu-1:8000 --slo ttft=1s,tpot=80ms,target=95%
    """
    import tempfile

    from opsconsole.commands import tui_cmd
    from opsconsole.commands.watch_agent import parse_slo
    from opsconsole.observe.targets import target_at

    for address in addresses:
        target_at(address)  # a wrong address is said before a screen opens
    parse_slo(slo)
    tui_cmd.check_look(theme, glyphs)
    tui_cmd.check_terminal()
    with tempfile.TemporaryDirectory(prefix="opsconsole-watch-") as temporary:
        folder = data_dir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["--data-dir", str(folder), "--interval", str(interval), "--fleet", "watch"]
        if slo:
            arguments += ["--slo", slo]
        with tui_cmd.companion("opsconsole.commands.watch_agent", [*arguments, *addresses], folder) as process:
            address = str(folder / "agent.sock")
            if process.poll() is not None:
                raise AgentUnavailable(f"The agent ended at once; {folder / 'agent.log'} says why.")
            raise typer.Exit(tui_cmd.show(address, False, theme or None, glyphs or None))
