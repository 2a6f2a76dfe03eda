"""The agent that a console starts for itself: scrapes the addresses given, or the configuration's; acts on nothing.

It must not outlive the console that started it. The trap: it keeps its database in a folder of its own, so that
watching never mixes with the history of an agent that runs for good.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsconsole.errors import OpsConsoleError, UsageError

if TYPE_CHECKING:
    from opsconsole.clock import Clock
    from opsconsole.config import Loaded
    from opsconsole.control.agent import Build, Parts
    from opsconsole.control.settings import AgentSettings


def main(arguments: list[str] | None = None) -> int:
    """The process."""
    from opsconsole.control.agent import run_agent

    parser = argparse.ArgumentParser(prog="opsconsole watch")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--interval", type=float)
    for name in ("--slo", "--prometheus", "--kubernetes", "--config"):
        parser.add_argument(name, default="")
    parser.add_argument("--fleet", default="watch")
    parser.add_argument("--configured", action="store_true")
    parser.add_argument("addresses", nargs="*")
    given = parser.parse_args(arguments)
    try:
        configured = given.configured or given.prometheus or given.kubernetes or given.config
        return run_agent(*(_configured(given) if configured else _addressed(given)))
    except OpsConsoleError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _addressed(given: argparse.Namespace) -> tuple[AgentSettings, Build]:
    """One pool of the addresses on the command line."""
    from opsconsole.control.agent import Parts
    from opsconsole.control.foresight import Foresight, foresight_options
    from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
    from opsconsole.domain.fleet import PoolSpec, SloSpec
    from opsconsole.observe.scrape import ScrapeSource
    from opsconsole.observe.targets import StaticTargets, target_at

    slos = (SloSpec("default", *parse_slo(given.slo)),) if given.slo else ()
    settings = AgentSettings(
        data_dir=given.data_dir,
        fleet=given.fleet,
        interval_s=given.interval or 1.0,
        mode=Mode.ADVISE,
        pools=(PoolSettings(PoolSpec("default", slos=slos)),),
        parent_pid=os.getppid(),
    )

    def build(settings: AgentSettings, clock: Clock) -> Parts:
        source = ScrapeSource(StaticTargets([target_at(a) for a in given.addresses]), clock)
        return Parts((source,), forecasting=Foresight(foresight_options(settings), clock))

    return settings, build


def _configured(given: argparse.Namespace) -> tuple[AgentSettings, Build]:
    """The configuration's pools and sources, and none of what lets an agent act or be reached from elsewhere."""
    from opsconsole.control.agent import Parts
    from opsconsole.control.configured import agent_settings, sources
    from opsconsole.control.foresight import Foresight, foresight_options

    more = {"agent.data_dir": given.data_dir}
    if given.interval is not None:
        more["agent.interval"] = f"{given.interval}s"
    config = Path(given.config) if given.config else None
    loaded = loaded_sources(given.addresses, given.prometheus, given.kubernetes, config, more)
    settings = replace(agent_settings(loaded), listen=None, tokens=(), parent_pid=os.getppid())

    def build(settings: AgentSettings, clock: Clock) -> Parts:
        return Parts(tuple(sources(loaded, clock)), forecasting=Foresight(foresight_options(settings), clock))

    return settings, build


def loaded_sources(
    addresses: list[str],
    prometheus: str,
    kubernetes: str,
    config: Path | None,
    more: Mapping[str, object] | None = None,
) -> Loaded:
    """The configuration with what the command line says over it, for an agent that only looks."""
    from opsconsole.config import load

    flags = {
        "act.mode": "advise",
        "act.allow_intents": False,
        "sources.targets": addresses or None,
        "sources.prometheus.url": prometheus or None,
        "sources.kubernetes.selector": kubernetes or None,
    }
    return load(config, flags={**flags, **(more or {})})


def parse_slo(text: str) -> tuple[float | None, float | None, float]:
    """`ttft=1s,tpot=80ms,target=95%`."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        scale = 1e-3 if value.endswith("ms") else 0.01 if value.endswith("%") else 1.0
        try:
            found[name] = float(value.rstrip("ms%")) * scale
        except ValueError:
            raise UsageError(f"{part!r} is no bound; say ttft=1s,tpot=80ms,target=95%.") from None
    unknown = set(found) - {"ttft", "tpot", "target"}
    if unknown:
        raise UsageError(f"{unknown.pop()!r} is no bound; say ttft=1s,tpot=80ms,target=95%.")
    return found.get("ttft"), found.get("tpot"), found.get("target", 0.95)


if __name__ == "__main__":
    sys.exit(main())
