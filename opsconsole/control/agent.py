"""One agent process, put together: sources, actuators, laws, journal, loop, API, signals.

`run_agent` is the whole life of a process; who starts one (the daemon's command, single-node mode, a console of its
own) supplies the parts that differ. The trap: it must end with the process that started it even when that one is
killed, hence the watch on the parent; and it must end at all, so a second signal does not wait for anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from opsconsole.act.actuator import Actuator, Member, PoolState
from opsconsole.act.board import Board
from opsconsole.act.null import NullActuator
from opsconsole.clock import Clock, SystemClock
from opsconsole.control import logs, server
from opsconsole.control.api import Api
from opsconsole.control.deciding import Laws
from opsconsole.control.forecasting import Forecasting, Guarded
from opsconsole.control.hands import Hands
from opsconsole.control.journal import Journal
from opsconsole.control.loop import Loop
from opsconsole.control.mode import Holds
from opsconsole.control.observing import Queue, remembered
from opsconsole.control.orders import Orders
from opsconsole.control.passing import Passing
from opsconsole.control.settings import AgentSettings
from opsconsole.domain.fleet import FleetState
from opsconsole.domain.leading import Leading, LoopSide
from opsconsole.domain.records import FleetSnapshot, PrefixView, ReplicaState
from opsconsole.errors import OpsConsoleError
from opsconsole.garbage import Collector
from opsconsole.history.reader import Reader
from opsconsole.history.retention import Retention
from opsconsole.history.store import Store
from opsconsole.observe.source import Source
from policies.registry import policy

log = logging.getLogger(__name__)
PARENT_WATCH_S = 0.5
FOLD_BUDGET = 60_000  # replica pages folded at most when memory is rebuilt from history (a second or two)


class Companion(Protocol):
    """What lives beside the loop as long as it does: a cluster's lease and what is under way there."""

    async def start(self, loop: LoopSide) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What differs between agents. A pool without an actuator gets the one that refuses."""

    sources: Sequence[Source]
    actuators: Mapping[str, Actuator] = field(default_factory=dict)
    laws: Laws = policy
    forecasting: Forecasting | None = None
    queues: Mapping[str, Queue] = field(default_factory=dict)  # by pool: what waits in front of it
    findings: Callable[[], Sequence[dict[str, Any]]] = tuple  # asked in a thread, never in the loop
    prefixes: Callable[[], Awaitable[Sequence[PrefixView]]] | None = None  # shared ones, as a router sees them
    log_of: Callable[[str, int], Sequence[str]] | None = None  # a replica's last lines; asked in a thread
    reload: Callable[[], AgentSettings] | None = None  # on SIGHUP
    board: Board | None = None  # counts that an HPA or KEDA brings about
    beside: Callable[[], AbstractAsyncContextManager[Any]] = contextlib.nullcontext  # what listens besides the API
    companions: Sequence[Companion] = ()
    leading: Callable[[], Leading] | None = None  # where several daemons stand for one fleet: which of them acts


Build = Callable[[AgentSettings, Clock], Parts]


def run_agent(settings: AgentSettings, build: Build, clock: Clock | None = None) -> int:
    """Run until a signal or the parent's end. The exit code: 0, or 1 when the API could not be kept up."""
    if settings.listen is not None:
        server.check_listen(settings.listen, settings.tokens)
    logs.set_up(settings.json_log)
    ticking = clock or SystemClock()
    with server.sole_agent(settings.data_dir):
        return asyncio.run(_live(settings, build, ticking))


async def _live(settings: AgentSettings, build: Build, clock: Clock) -> int:
    stop = asyncio.Event()
    parts = build(settings, clock)
    store = Store(settings.database, Retention(most_bytes=settings.most_bytes))
    try:
        loop = await compose(settings, parts, store, clock)
        loop.rest = Collector(clock).rest
        end_on_signals(stop)
        reload = functools.partial(reload_settings, loop, parts.reload, clock)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        if settings.parent_pid is not None:
            watching = asyncio.create_task(watch_parent(settings.parent_pid, stop, clock))
        else:
            watching = None
        try:
            async with accompanied(parts.companions, loop), parts.beside():
                return await serve(loop, clock, stop, parts=parts)
        finally:
            if watching is not None:
                watching.cancel()
    finally:
        for source in parts.sources:
            with contextlib.suppress(Exception):
                await source.close()
        if parts.forecasting is not None:
            Guarded(parts.forecasting).close()
        store.close()


@contextlib.asynccontextmanager
async def accompanied(companions: Sequence[Companion], loop: Loop) -> AsyncIterator[None]:
    """Start them before the first tick; close those that started, whatever happened."""

    def take_holds(told: str) -> None:
        try:
            loop.holds = Holds.from_data(json.loads(told))
        except ValueError:
            log.error("the standing orders of the last leader cannot be read; this daemon's own stay")

    side = LoopSide(lambda: loop.feed.newest, lambda: loop.holds.to_json(), take_holds)
    async with contextlib.AsyncExitStack() as stack:
        for companion in companions:
            stack.push_async_callback(companion.close)
            await companion.start(side)
        yield


async def compose(settings: AgentSettings, parts: Parts, store: Store, clock: Clock, *, threaded: bool = True) -> Loop:
    """The loop of an agent, with what the last process left taken back."""
    observed: dict[str, Callable[[str], PoolState]] = {}
    fallback = NullActuator(lambda pool: observed["ask"](pool))
    hands = Hands(parts.actuators, fallback, store, clock)
    folded = await asyncio.to_thread(recall_fleet, settings, clock.now())
    loop = Loop(
        settings,
        parts.sources,
        hands,
        parts.laws,
        Journal(store),
        clock,
        folded=folded,
        forecasting=parts.forecasting,
        queues=parts.queues,
        board=parts.board,
        threaded=threaded,
    )
    observed["ask"] = lambda pool: observed_state(loop.feed.newest, pool)
    return loop


async def serve(
    loop: Loop,
    clock: Clock,
    stop: asyncio.Event,
    run: Callable[[asyncio.Event], Awaitable[None]] | None = None,
    parts: Parts | None = None,
) -> int:
    """Tick and answer until `stop`. `run` ticks in another manner than the loop by itself."""
    settings = loop.settings
    orders = Orders(loop, clock)
    given = parts or Parts(())
    certificate = None if settings.listen is None else settings.listen.certificate
    api = Api(
        loop, orders, settings.tokens, forecasts=loop.forecasts, findings=given.findings, prefixes=given.prefixes,
        log_of=given.log_of,
        passing=None if given.leading is None else Passing(given.leading, settings.tokens, certificate),
    )  # fmt: skip
    listeners: list[tuple[server.QuietServer, socket.socket]] = []
    if settings.listen is not None:
        listeners.append((server.server(api.app, settings.listen), server.tcp_listener(settings.listen)))
    listeners.append((server.server(api.app), server.unix_listener(settings.socket_path)))
    ticking = asyncio.ensure_future((run or loop.run)(stop))
    telling = asyncio.ensure_future(tell(loop, clock, given.leading)) if run is None else None
    try:
        await server.serve_until(stop, listeners)
        code = 0 if stop.is_set() else 1
    finally:
        stop.set()
        await ticking
        if telling is not None:
            await telling
        api.close()
        settings.socket_path.unlink(missing_ok=True)
    return code


async def tell(loop: Loop, clock: Clock, leading: Callable[[], Leading] | None = None) -> None:
    """Tell the channels of `[alerts] notify`, until the loop's feed closes. Of several daemons the leader tells."""
    channels = loop.settings.alerts.notify
    if not channels:
        return
    from opsconsole.control.notifier import Notifier

    notifier = Notifier(
        channels, clock, lambda words: loop.journal.say(clock.now(), "error", "", words), told=loop.journal.told()
    )
    before = {(alert.rule, alert.subject) for alert in notifier.told}
    try:
        async for _ in loop.feed.follow():
            newest = loop.feed.newest
            if newest is not None:
                others = leading is not None and not leading().here
                notifier.take(loop.alerts.views(), newest.at, newest.fleet, told_by_others=others)
                if (after := {(alert.rule, alert.subject) for alert in notifier.told}) != before:
                    before = after
                    loop.journal.write_told(notifier.told, newest.at)
    finally:
        await notifier.close()


def recall_fleet(settings: AgentSettings, now: float) -> FleetState:
    """The fold's memory from the history: the window tick by tick, the hour before it minute by minute."""
    if not settings.database.is_file():
        return FleetState()
    options = settings.options
    try:
        reader = Reader(settings.database)
    except OpsConsoleError as error:
        log.error("history cannot be read: %s", error)
        return FleetState()
    with contextlib.closing(reader):
        near = reader.range(now - options.window_s, now)
        members = max((len(s.replicas) for s in near), default=0)
        far: tuple[FleetSnapshot, ...] = ()
        if members * 60 <= FOLD_BUDGET:
            far = reader.range(now - options.long_s, now - options.window_s, step=60.0)
    return remembered((*far, *near), settings)


def observed_state(snapshot: FleetSnapshot | None, pool: str) -> PoolState:
    """A pool as observation alone tells it: what stands in where nothing can be asked."""
    views = [] if snapshot is None else [r for r in snapshot.replicas if r.pool == pool]
    members = tuple(
        Member(
            r.replica,
            ready=r.state in (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED),
            draining=r.state is ReplicaState.DRAINING,
            phase=r.phase,
            started_at=r.started_at,
            expected_ready_at=r.expected_ready_at,
            url=r.url,
            streams=r.streams,
        )
        for r in views
    )
    return PoolState(pool, sum(r.state is not ReplicaState.DRAINING for r in views), members)


async def watch_parent(pid: int, stop: asyncio.Event, clock: Clock) -> None:
    """Set `stop` when the process `pid` is gone."""
    is_child = os.getppid() == pid
    while not stop.is_set():
        if not (os.getppid() == pid if is_child else _exists(pid)):
            log.warning("the process that started this agent is gone: ending")
            stop.set()
            return
        await clock.sleep(PARENT_WATCH_S)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT set `stop`; a second one waits for nothing."""

    def end() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)


def reload_settings(loop: Loop, load: Callable[[], AgentSettings] | None, clock: Clock) -> None:
    """Take a changed configuration from the next tick on; a wrong one is told and changes nothing."""
    if load is None:
        return
    try:
        fresh = load()
    except OpsConsoleError as error:
        loop.journal.say(clock.now(), "error", "", f"configuration not reloaded: {error}")
        return
    kept = loop.settings
    loop.settings = replace(
        fresh,
        data_dir=kept.data_dir,
        socket=kept.socket,
        listen=kept.listen,
        tokens=kept.tokens,
        parent_pid=kept.parent_pid,
    )
    stay = "sources, addresses, tokens and channels stay until a restart"
    loop.journal.say(clock.now(), "mode", "", f"configuration reloaded; {stay}")
