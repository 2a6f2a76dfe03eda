"""The agent of single-node mode: scrapes the supervisor's workers and acts through the supervisor.

`python -m opsconsole.local.agent SETTINGS`; composes what `control` runs and decides nothing. Trap: rates are taken
over a window much shorter than a fleet's, because a load that has ended must show before the run does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from opsconsole.clock import Clock
from opsconsole.control.agent import Build, Parts, run_agent
from opsconsole.control.foresight import Foresight, foresight_options
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.domain.fleet import FoldOptions, PoolSpec, SloSpec
from opsconsole.errors import OpsConsoleError
from opsconsole.history.store import Store
from opsconsole.local.actuator import LocalActuator
from opsconsole.local.captured import CapturedFindings
from opsconsole.local.chronicle import Chronicle
from opsconsole.local.front import RouterPrefixes, RouterQueue
from opsconsole.local.settings import POOL, UpSettings, load_settings
from opsconsole.local.supervisor_client import SupervisorClient
from opsconsole.local.targets import LocalTargets
from opsconsole.local.worker_logs import WorkerLogs
from opsconsole.observe.scrape import ScrapeSource
from policies import lead
from policies.memory import Memory
from policies.situation import CapacityFacts, Limits

WINDOW_LEAST, WINDOW_MOST = 10.0, 60.0  # s, of rates and latencies
BURN_MOST, LONG_BURN = 300.0, 12.0  # s of the short burn window at most; the long one in multiples of it
RUN_KEY, BEGAN_KEY = "local/run", "local/began"
# Asked beside the one that decides.
LAWS = ("predictive", "reactive", "hpa-queue", "hpa-kv", "keda-epp", "kpa", "dynamo-constant")
ASSUMED_LEAD = 15.0  # s, until a start has been seen


def agent_settings(up: UpSettings) -> AgentSettings:
    """`up`'s settings as the agent's."""
    bounds = up.measured.bounds if up.measured else up.bounds
    slos = (SloSpec("default", bounds.ttft, bounds.tpot, bounds.target),) if bounds else ()
    pool = PoolSettings(
        spec=PoolSpec(POOL, up.model_name, up.minimum, up.maximum, slos, gpus_per_replica=1 if up.devices else None),
        limits=Limits(
            minimum=up.minimum,
            maximum=up.maximum,
            stabilise_down_s=up.stabilise_down,
            drain_deadline_s=up.drain_deadline,
        ),
        policy=up.policy,
        lead_s=ASSUMED_LEAD if up.measured is None else up.measured.start_s or ASSUMED_LEAD,
        capacity=_capacity(up),
    )
    return AgentSettings(
        data_dir=up.folder,
        fleet="this machine",
        interval_s=up.interval,
        mode=Mode.ACT,
        allow_intents=True,
        pools=(pool,),
        socket=up.agent_socket,
        parent_pid=os.getppid(),
        options=_windows(up.stabilise_down),
        baselines=LAWS,
    )


def _windows(stabilise_s: float) -> FoldOptions:
    """As short as the calm that is asked for before a drain: what is older than that is over."""
    window = max(WINDOW_LEAST, min(stabilise_s, WINDOW_MOST))
    short = max(WINDOW_LEAST, min(stabilise_s, BURN_MOST))
    return FoldOptions(window_s=window, short_s=short, long_s=LONG_BURN * short)


def _capacity(up: UpSettings) -> CapacityFacts | None:
    if up.measured is None or up.measured.sustained is None:
        return None
    measured = up.measured
    return CapacityFacts(
        request_rate=measured.sustained,
        source="bench",
        samples=1,
        idle_ttft=measured.idle_ttft,
        idle_tpot=measured.idle_tpot,
    )


def forget_other_runs(store: Store, up: UpSettings, now: float) -> float:
    """What a law has learned holds for the bounds and the machine it was learned on; each run is calibrated anew.

    An agent that restarts within its run keeps it. When the run began, Unix seconds.
    """
    began = store.get_state(BEGAN_KEY).get(BEGAN_KEY)
    if store.get_state(RUN_KEY).get(RUN_KEY) == up.run_id and began is not None:
        return float(began)
    for prefix in ("memory/", "regret/"):
        for key in store.get_state(prefix):
            store.put_state(key, None, now)
    for law in LAWS:
        if (memory := first_start(up, now)) is not None:
            store.put_state(f"memory/{POOL}/{law}", memory.to_json(), now)
    store.put_state(RUN_KEY, up.run_id, now)
    store.put_state(BEGAN_KEY, repr(now), now)
    return now


def first_start(up: UpSettings, now: float) -> Memory | None:
    """The first worker's start as a law remembers one, so that the lead is a measured one from the first tick on."""
    if up.measured is None or up.measured.start_s is None or up.devices:
        return None  # with devices starts are kept by their kind, which is not known here
    return lead.observe(Memory(), lead.key(POOL, up.model_name, None), now, up.measured.start_s)


def builder(up: UpSettings) -> Build:
    """The parts that differ from a daemon's: source and actuator over the supervisor's socket, the router's queue."""

    def build(settings: AgentSettings, clock: Clock) -> Parts:
        client, queue = SupervisorClient(up.supervisor_socket), RouterQueue(up.url)
        shared = RouterPrefixes(up.url, up.router_token, clock)
        store = Store(settings.database)
        began = forget_other_runs(store, up, clock.now())
        options = foresight_options(settings, time_scale=up.time_scale, since=None if up.has_past else began)
        chronicle = asyncio.get_running_loop().create_task(Chronicle(store, client, clock, up.run_id).run())

        async def close() -> None:
            chronicle.cancel()
            await asyncio.gather(chronicle, return_exceptions=True)
            store.close()
            await queue.close()
            await shared.close()
            await client.close()

        source = ScrapeSource(LocalTargets(client, close), clock, name="workers")
        return Parts(
            (source,),
            {POOL: LocalActuator(client, clock, up.drain_deadline)},
            forecasting=Foresight(options, clock),
            queues={POOL: queue},
            findings=CapturedFindings(up.captured) if up.capture else tuple,
            prefixes=shared,
            log_of=WorkerLogs(up.logs),
        )

    return build


def main() -> None:
    """The process."""
    up = load_settings(Path(sys.argv[1]))
    try:
        sys.exit(run_agent(agent_settings(up), builder(up)))
    except OpsConsoleError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
