"""The agent that `opsconsole watch` starts for itself: scrapes the addresses given, acts on nothing.

It must not outlive the console that started it. The trap: it keeps its database in a folder of its own, so that
watching never mixes with the history of an agent that runs for good.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from opsconsole.errors import OpsConsoleError, UsageError


def main(arguments: list[str] | None = None) -> int:
    """The process."""
    from opsconsole.clock import Clock
    from opsconsole.control.agent import Parts, run_agent
    from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
    from opsconsole.domain.fleet import PoolSpec, SloSpec
    from opsconsole.observe.scrape import ScrapeSource
    from opsconsole.observe.targets import StaticTargets, target_at

    parser = argparse.ArgumentParser(prog="opsconsole watch")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--slo", default="")
    parser.add_argument("--fleet", default="watch")
    parser.add_argument("addresses", nargs="+")
    given = parser.parse_args(arguments)
    slos = (SloSpec("default", *parse_slo(given.slo)),) if given.slo else ()
    settings = AgentSettings(
        data_dir=given.data_dir,
        fleet=given.fleet,
        interval_s=given.interval,
        mode=Mode.ADVISE,
        pools=(PoolSettings(PoolSpec("default", slos=slos)),),
        parent_pid=os.getppid(),
    )

    def build(settings: AgentSettings, clock: Clock) -> Parts:
        return Parts((ScrapeSource(StaticTargets([target_at(a) for a in given.addresses]), clock),))

    try:
        return run_agent(settings, build)
    except OpsConsoleError as error:
        sys.stderr.write(f"{error}\n")
        return 2


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
