"""`opsconsole watch URL...`: the console on engines that already run, with an agent of its own that only looks.

It must not change anything: the agent it starts has no actuator. The trap: the agent is another process, so what it
says when it cannot start is in its log, and the console is told where that is.
"""

from __future__ import annotations

from pathlib import Path

import typer

from opsconsole.errors import AgentUnavailable, UsageError

STARTS_WITHIN_S = 15.0


def watch(
    addresses: list[str] = typer.Argument(None, metavar="[URL...]", help="Engines' addresses; /metrics is understood."),
    prometheus: str = typer.Option("", "--prometheus", metavar="URL", help="A server that scrapes the engines."),
    kubernetes: str = typer.Option("", "--kubernetes", metavar="SELECTOR", help="Pods, such as app=vllm."),
    config: Path | None = typer.Option(None, "--config", help="TOML file with sources, pools and SLOs."),
    slo: str = typer.Option("", "--slo", metavar="BOUNDS", help="ttft=1s,tpot=80ms,target=95%"),
    interval: float | None = typer.Option(None, "--interval", min=0.2, help="Seconds between looks. Default: 1."),
    data_dir: Path | None = typer.Option(None, "--data-dir", help="Where the agent keeps history; default: temporary."),
    theme: str = typer.Option("", "--theme", help="dark, light, contrast, cvd or mono."),
    glyphs: str = typer.Option("", "--glyphs", help="block or ascii."),
) -> None:
    """Watch engines that already run, by their /metrics.

    Examples:

      opsconsole watch 10.0.0.7:8000 10.0.0.8:8000

      opsconsole watch http://gpu-1:8000 --slo ttft=1s,tpot=80ms,target=95%

      opsconsole watch --prometheus http://prometheus:9090

      opsconsole watch --kubernetes app=vllm --config fleet.toml
    """
    from opsconsole.commands import tui_cmd
    from opsconsole.commands.scratch import scratch
    from opsconsole.commands.watch_agent import parse_slo
    from opsconsole.observe.targets import target_at

    addresses = addresses or []
    for address in addresses:
        target_at(address)  # a wrong address is said before a screen opens
    parse_slo(slo)
    places = ["--prometheus", prometheus, "--kubernetes", kubernetes, "--config", str(config or "")]
    _check(addresses, slo, prometheus, kubernetes, config)
    tui_cmd.check_look(theme, glyphs)
    tui_cmd.check_terminal()
    with scratch("watch") as temporary:
        folder = data_dir or temporary
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["--data-dir", str(folder), "--fleet", "watch", *places, "--slo", slo]
        if interval is not None:
            arguments += ["--interval", str(interval)]
        with tui_cmd.companion("opsconsole.commands.watch_agent", [*arguments, *addresses], folder) as process:
            address = str(folder / "agent.sock")
            if process.poll() is not None:
                raise AgentUnavailable(f"The agent ended at once; {folder / 'agent.log'} says why.")
            raise typer.Exit(tui_cmd.show(address, False, theme or None, glyphs or None))


def _check(addresses: list[str], slo: str, prometheus: str, kubernetes: str, config: Path | None) -> None:
    """What cannot be watched is said before a screen opens."""
    if not (prometheus or kubernetes or config):
        if not addresses:
            raise UsageError("Nothing to watch: give addresses, as in `opsconsole watch http://HOST:8000`.")
        return
    if slo:
        raise UsageError("--slo is for addresses alone: with pools of their own, write [slo.NAME] into the file.")
    from opsconsole.clock import SystemClock
    from opsconsole.commands.watch_agent import loaded_sources
    from opsconsole.control.configured import sources

    list(sources(loaded_sources(addresses, prometheus, kubernetes, config), SystemClock()))  # nobody is asked yet
