"""The API over a real Unix socket and real TCP with tokens and TLS, spoken by the real client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import stat
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from opsconsole.client.agent import AgentClient
from opsconsole.control import agent
from opsconsole.control.agent import Parts
from opsconsole.control.server import QuietServer, check_listen, sole_agent, unix_listener
from opsconsole.control.settings import AlertSettings, Channel, Listen, Mode, PoolSettings, Role, Token
from opsconsole.domain.pool import PoolSpec
from opsconsole.domain.records import (
    FleetSnapshot,
    ForecastView,
    Interval,
    PlanKind,
    PoolView,
    PrefixView,
    SloView,
)
from opsconsole.domain.replica import SloSpec
from opsconsole.errors import AgentUnavailable, ConfigError, PlanRefused, UsageError
from policies.situation import Limits, Outlook

Make = Callable[..., Awaitable[Any]]
TOKENS = (Token("reader", "read-secret"), Token("ops", "operate-secret", Role.OPERATE))


@asynccontextmanager
async def serving(stage: Any, **parts: Any) -> AsyncIterator[str]:
    """The stage's loop with its API, ticking on the stage's manual clock."""
    stop = asyncio.Event()
    running = asyncio.create_task(agent.serve(stage.loop, stage.clock, stop, **parts))
    path = stage.settings.socket_path
    async with AgentClient(str(path)) as client:
        for _ in range(500):
            if stage.loop.feed.newest is not None and await client.ready():
                break
            await asyncio.sleep(0.01)
    try:
        yield str(path)
    finally:
        stop.set()
        assert await asyncio.wait_for(running, 10) == 0


async def test_a_console_reads_the_newest_tick_the_past_and_the_journal(make_stage: Make) -> None:
    stage = await make_stage()
    stage.law.target = 3
    await stage.ticks(20)
    async with serving(stage) as address, AgentClient(address) as client:
        newest = await client.snapshot()
        assert newest == stage.loop.feed.newest
        assert [s.tick for s in await client.history(limit=5)] == [17, 18, 19, 20, 21]
        assert len(await client.history(newest.at - 19.5, newest.at, step=10.0)) in (2, 3)
        past = await client.at(newest.at - 10)
        assert past is not None and past.tick == newest.tick - 10
        assert await client.at(newest.at - 1e6) is None
        (decision,) = await client.decisions()
        assert decision.target == 3 and decision.trace[0].text == "the test wants 3"
        (older,) = await client.decisions(newest.at - 19.5)
        assert (older.current, older.target) == (2, 3)
        lines = await client.journal(kind="decision")
        assert [line.text.split(":")[0] for line in lines] == ["chat 2 -> 3 (wanted)", "chat stays at 3"]
        assert await client.journal(after=(await client.journal())[-1].seq) == ()
        assert await client.forecast() == () and await client.findings() == () and await client.alerts() == ()


class Oracle:
    """Says the same of the future at every tick."""

    def observe(self, snapshot: FleetSnapshot) -> None:
        return None

    def outlooks(self, pool: str, now: float) -> dict[str, Outlook]:
        return {"requests/s": Outlook((60.0,), (0.5, 0.9), ((now, now + 1),), "requests/s", "oracle")}

    def views(self) -> tuple[ForecastView, ...]:
        return ()

    def close(self) -> None:
        return None


async def test_the_past_tells_the_forecast_that_was_decided_on(make_stage: Make) -> None:
    stage = await make_stage(forecasting=Oracle())
    await stage.ticks(20)
    async with serving(stage) as address, AgentClient(address) as client:
        newest = await client.snapshot()
        (then,) = await client.forecast(at=newest.at - 10)
        assert (then.pool, then.model, then.made_at) == ("chat", "oracle", newest.at - 10)
        assert then.quantiles == ((newest.at - 10, newest.at - 9),)
        assert await client.forecast("other", at=newest.at - 10) == () == await client.forecast(at=1.0)


async def test_findings_are_looked_for_beside_the_loop(make_stage: Make) -> None:
    threads: list[threading.Thread] = []

    def look() -> tuple[dict[str, Any], ...]:
        threads.append(threading.current_thread())
        return ({"rule": "PX101", "message": "a time at the head"},)

    async with serving(await make_stage(), parts=Parts((), findings=look)) as address, AgentClient(address) as client:
        assert await client.findings() == ({"rule": "PX101", "message": "a time at the head"},)
    assert threads and threading.main_thread() not in threads


async def test_the_stream_gives_every_tick_to_a_quick_reader(make_stage: Make) -> None:
    stage = await make_stage()
    async with serving(stage) as address, AgentClient(address) as client:
        seen: list[FleetSnapshot] = []
        async for snapshot in client.stream():
            seen.append(snapshot)
            if len(seen) == 3:
                break
            await stage.loop.tick()
        assert [s.tick for s in seen] == [1, 2, 3]


async def test_the_stream_tells_what_changed_beside_its_ticks_and_only_then(make_stage: Make) -> None:
    stage = await make_stage()
    await stage.ticks(2)
    asked = ("journal", "alerts", "decisions", "holds", "unheard")
    async with (
        serving(stage) as address,
        AgentClient(address) as client,
        contextlib.aclosing(client.follow(asked)) as turns,
    ):
        first = await anext(turns)
        assert first.told == {"journal", "alerts", "decisions", "holds"}
        assert first.beside == {
            "journal": await client.journal(), "decisions": await client.decisions(), "alerts": (), "holds": (),
        }  # fmt: skip
        await stage.loop.tick()
        second = await anext(turns)
        assert second.snapshot.tick == first.snapshot.tick + 1 and "holds" not in second.beside
        held = await client.hold("pause", "chat", for_s=600.0, note="a launch")
        await stage.loop.tick()
        third = await anext(turns)
        assert third.beside["holds"] == held
        assert [entry.kind for entry in third.beside["journal"]][:1] == ["mode"]


@pytest.mark.parametrize("topics", [(), ("alerts",)])
async def test_a_stream_over_tcp_is_the_same(make_stage: Make, unused_tcp_port: int, topics: tuple[str, ...]) -> None:
    stage = await make_stage(listen=Listen("127.0.0.1", unused_tcp_port), tokens=TOKENS)
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with serving(stage), AgentClient(url, token="read-secret") as client:
        async with contextlib.aclosing(client.follow(topics)) as turns:
            turn = await anext(turns)
        assert (turn.snapshot, turn.told) == (stage.loop.feed.newest, frozenset(topics))
        assert turn.beside == dict.fromkeys(topics, ())


async def test_the_stream_ends_when_the_agent_does(make_stage: Make) -> None:
    stage = await make_stage()
    async with AgentClient(str(stage.settings.socket_path)) as client:
        async with serving(stage):
            stream = client.stream()
            assert (await anext(stream)).tick == 1
        with pytest.raises((StopAsyncIteration, AgentUnavailable)):
            await anext(stream)


async def test_a_plan_is_shown_then_done_then_journalled_with_who_did_it(make_stage: Make) -> None:
    stage = await make_stage(mode=Mode.ADVISE)
    async with serving(stage) as address, AgentClient(address, who="ann") as client:
        plan = await client.plan(PlanKind.SCALE, "chat", to=4, reason="launch")
        assert plan.dry_run and (plan.from_count, plan.to_count) == (2, 4)
        assert stage.world.applied == 0
        outcome = await client.intent(plan.plan_id, note="agreed with bob")
        assert (outcome.status, outcome.by, stage.world.applied) == ("running", "ann", 1)
        with pytest.raises(UsageError, match="make a new one"):
            await client.intent(plan.plan_id)
        told = [(e.kind, e.who, e.text) for e in await client.journal(pool="chat") if e.who == "ann"]
        assert told == [
            ("plan", "ann", "scale chat from 2 to 4: launch"),
            ("outcome", "ann", "scale chat from 2 to 4 running"),
            ("note", "ann", "agreed with bob"),
        ]


async def test_a_plan_for_a_world_that_moved_is_refused(make_stage: Make) -> None:
    stage = await make_stage(mode=Mode.ADVISE)
    async with serving(stage) as address, AgentClient(address) as client:
        first = await client.plan("scale", "chat", to=4)
        second = await client.plan("drain", replicas=["r1"], reason="old node")
        assert second.pool == "chat"
        await client.intent(first.plan_id)
        with pytest.raises(PlanRefused, match="The world moved"):
            await client.intent(second.plan_id)
        assert stage.world.applied == 1


async def test_without_allow_intents_a_plan_is_shown_and_nothing_is_done(make_stage: Make) -> None:
    stage = await make_stage(allow_intents=False)
    async with serving(stage) as address, AgentClient(address, who="eve") as client:
        plan = await client.plan("scale", "chat", to=8)
        with pytest.raises(PlanRefused, match="--allow-intents"):
            await client.intent(plan.plan_id)
        with pytest.raises(PlanRefused, match="--allow-intents"):
            await client.hold("pause", "chat")
        assert stage.world.applied == 0
        assert any(e.who == "eve" and "refused" in e.text for e in await client.journal())


async def test_orders_are_checked_kept_and_shown(make_stage: Make) -> None:
    stage = await make_stage()
    async with serving(stage) as address, AgentClient(address, who="ann") as client:
        (held,) = await client.hold("pin", "chat", minimum=3, for_s=7200, note="sale")
        assert (held.by, held.minimum, held.until) == ("ann", 3, stage.clock.now() + 7200)
        await stage.loop.tick()
        assert (await client.snapshot()).notes == ("chat is pinned at 3 or more for 2 h by ann: sale",)
        assert (await client.decisions())[0].target == 3
        await client.hold("pause")
        assert len(await client.holds()) == 2
        assert await client.hold("resume") == ()
        for kind, pool, lasts in (
            ("pin", "chat", None),
            ("stop", "chat", None),
            ("pause", "x", None),
            ("pause", "", 0.0),
        ):
            with pytest.raises(UsageError):
                await client.hold(kind, pool, for_s=lasts)


async def test_maintenance_names_a_pool_or_a_replica_and_never_everything(make_stage: Make) -> None:
    async with serving(await make_stage()) as address, AgentClient(address, who="ann") as client:
        assert await client.silence("*", "chat/w1", for_s=600) is None  # nothing fires there now
        with pytest.raises(UsageError, match="name a pool or a replica"):
            await client.silence("*")
        assert any("* of chat/w1 silenced" in entry.text for entry in await client.journal(kind="alert"))


async def test_prefixes_and_logs_are_told_where_somebody_knows_them(make_stage: Make) -> None:
    shared = PrefixView("9f3c21aa", 1024, 12, 3, ("w1",), 5.0)

    async def prefixes() -> tuple[PrefixView, ...]:
        return (shared,)

    def log_of(name: str, lines: int) -> list[str]:
        if name != "w1":
            raise UsageError(f"There is no log of {name}.")
        return ["started", "ready"][-lines:]

    parts = Parts((), prefixes=prefixes, log_of=log_of)
    async with serving(await make_stage(), parts=parts) as address, AgentClient(address) as client:
        assert await client.prefixes() == (shared,)
        assert await client.logs("w1") == ("started", "ready") and await client.logs("w1", 1) == ("ready",)
        with pytest.raises(UsageError, match="no log of w9"):
            await client.logs("w9")


async def test_budgets_are_summed_up_from_the_minutes_kept(make_stage: Make) -> None:
    spec = PoolSpec("chat", "model", 1, 8, slos=(SloSpec("default", 1.0, 0.1, target=0.9),))
    stage = await make_stage(pools=(PoolSettings(spec, Limits(1, 8), policy="wanted"),))
    now = stage.clock.now()
    for ago, met in ((180.0, 1.0), (120.0, 0.95), (60.0, 0.9)):
        told = PoolView("chat", request_rate=2.0, slos=(SloView("default", target=0.9, attainment=Interval(met, met)),))
        stage.store.write_tick(FleetSnapshot(1, now - ago, "f", "act", pools=(told,)))
    await stage.ticks(2)
    async with serving(stage) as address, AgentClient(address) as client:
        (kept,) = await client.budgets()
        assert await client.budgets() == (kept,)
    assert (kept.pool, kept.slo, kept.since, kept.minutes, kept.offered) == ("chat", "default", now - 180.0, 3, 360.0)
    assert kept.met.low == pytest.approx(0.95) and kept.left is not None and kept.left.high == pytest.approx(0.5)


async def test_an_agent_that_knows_neither_says_so(make_stage: Make) -> None:
    async with serving(await make_stage()) as address, AgentClient(address) as client:
        assert await client.prefixes() == ()
        with pytest.raises(UsageError, match="cannot reach the logs"):
            await client.logs("w1")


async def test_what_fires_is_told_to_the_channels_of_the_configuration(make_stage: Make, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    script = f"import sys; open({str(heard)!r}, 'a').write(sys.stdin.read())"
    channel = Channel("command", command=(sys.executable, "-c", script))
    stage = await make_stage(alerts=AlertSettings(notify=(channel,)))
    stage.source.ok = False
    await stage.ticks(20)
    async with serving(stage):
        for _ in range(500):
            if heard.exists() and heard.read_text().endswith("\n"):
                break
            await asyncio.sleep(0.02)
    told = json.loads(heard.read_text())
    assert (told["rule"], told["status"]) == ("source-failing", "firing")
    assert [alert.rule for alert in stage.loop.journal.told()] == ["source-failing"]  # for after a restart


async def test_a_silence_keeps_an_alert_quiet(make_stage: Make) -> None:
    stage = await make_stage()
    stage.source.ok = False
    await stage.ticks(20)
    async with serving(stage) as address, AgentClient(address, who="ann") as client:
        (alert,) = await client.alerts()
        assert (alert.rule, alert.state) == ("source-failing", "firing")
        assert await client.silence("source-failing", for_s=600, note="known") is not None
        await stage.loop.tick()
        (alert,) = await client.alerts()
        assert (alert.state, alert.silenced_by) == ("silenced", "ann")
        with pytest.raises(UsageError, match="is no alert"):
            await client.silence("nonsense")
        assert any("silenced for 600 s: known" in e.text for e in await client.journal(kind="alert"))


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/plans", b"{", 400, "not JSON"),
        ("/v1/plans", b"[]", 400, "must be a JSON object"),
        ("/v1/plans", b"{}", 400, "kind is missing"),
        ("/v1/plans", b'{"kind": "explode"}', 400, "no kind of plan"),
        ("/v1/plans", b'{"kind": "scale", "pool": "chat"}', 400, "needs `to`"),
        ("/v1/plans", b'{"kind": "scale", "pool": "chat", "to": -1}', 400, "0 replicas or more"),
        ("/v1/plans", b'{"kind": "scale", "pool": "chat", "to": true}', 400, "to must be of type int"),
        ("/v1/plans", b'{"kind": "scale", "pool": "nope", "to": 1}', 400, "no pool 'nope' here: chat"),
        ("/v1/plans", b'{"kind": "drain", "pool": "chat"}', 400, "needs the names"),
        ("/v1/intents", b'{"plan_id": "zzz"}', 400, "no plan zzz"),
        ("/v1/silences", b'{"rule": "slo-missed", "for_s": -1}', 400, "longer than no time"),
        ("/v1/silences", b'{"rule": "slo-missed", "for_s": NaN}', 400, "for_s must be a number"),
        ("/v1/holds", b'{"kind": "pause", "for_s": NaN}', 400, "for_s must be a number"),
        ("/v1/plans", b"x" * 70_000, 400, "longer than"),
    ],
)
async def test_bad_requests_get_a_sentence(make_stage: Make, path: str, body: bytes, status: int, words: str) -> None:
    stage = await make_stage()
    async with serving(stage) as address:
        transport = httpx.AsyncHTTPTransport(uds=address)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as http:
            reply = await http.post(path, content=body)
            assert reply.status_code == status
            assert words in reply.json()["error"]
            assert (await http.get("/v1/history?since=yesterday")).status_code == 400


async def test_health_and_metrics_answer(make_stage: Make) -> None:
    stage = await make_stage()
    async with serving(stage) as address:
        transport = httpx.AsyncHTTPTransport(uds=address)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as http:
            assert (await http.get("/healthz")).json() == {"status": "ok"}
            assert (await http.get("/readyz")).status_code == 200
            assert "opsconsole_tick_seconds_count" in (await http.get("/metrics")).text
            stage.clock._now += 60.0  # no tick for a minute
            late = await http.get("/readyz")
            assert (late.status_code, late.json()) == (503, {"status": "no tick for 60 s"})


async def test_the_socket_is_its_owners_alone_and_goes_with_the_agent(make_stage: Make) -> None:
    stage = await make_stage()
    path: Path = stage.settings.socket_path
    async with serving(stage):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_tokens_decide_over_tcp(make_stage: Make, unused_tcp_port: int) -> None:
    stage = await make_stage(listen=Listen("127.0.0.1", unused_tcp_port), tokens=TOKENS)
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with serving(stage):
        async with AgentClient(url) as client:
            with pytest.raises(AgentUnavailable, match="wants a token"):
                await client.snapshot()
        async with AgentClient(url, token="wrong") as client:
            with pytest.raises(AgentUnavailable, match="wants a token"):
                await client.snapshot()
        async with AgentClient(url, token="read-secret", who="root") as client:
            assert (await client.snapshot()).tick >= 1
            plan = await client.plan("scale", "chat", to=3)
            with pytest.raises(PlanRefused, match="reader may read"):
                await client.intent(plan.plan_id)
        async with AgentClient(url, token="operate-secret", who="root") as client:
            assert (await client.intent(plan.plan_id)).by == "ops", "a token's caller does not choose its own name"
        forged = {"x-forwarded-for": "", "x-opsconsole-who": "root"}
        async with httpx.AsyncClient(base_url=url, headers=forged) as http:
            assert (await http.get("/v1/snapshot")).status_code == 401


def test_listening_is_refused_unprotected() -> None:
    with pytest.raises(ConfigError, match="at least one token"):
        check_listen(Listen("127.0.0.1", 1), ())
    with pytest.raises(ConfigError, match="without TLS"):
        check_listen(Listen("0.0.0.0", 1), TOKENS)
    check_listen(Listen("0.0.0.0", 1, Path("cert"), Path("key")), TOKENS)
    check_listen(Listen("localhost", 1), TOKENS)


async def test_tls_is_spoken_where_a_certificate_is_given(
    make_stage: Make, unused_tcp_port: int, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    stage = await make_stage(listen=Listen("127.0.0.1", unused_tcp_port, cert, key), tokens=TOKENS)
    async with serving(stage):
        trust = ssl.create_default_context(cafile=str(cert))
        async with httpx.AsyncClient(verify=trust) as http:
            url = f"https://127.0.0.1:{unused_tcp_port}/v1/snapshot"
            assert (await http.get(url, headers={"authorization": "Bearer read-secret"})).status_code == 200


async def test_no_agent_is_said_in_words(tmp_path: Path) -> None:
    async with AgentClient(str(tmp_path / "agent.sock")) as client:
        with pytest.raises(AgentUnavailable, match="No agent answers"):
            await client.snapshot()
        assert not await client.ready()


def test_a_data_folder_belongs_to_one_agent(tmp_path: Path) -> None:
    with (
        sole_agent(tmp_path),
        pytest.raises(UsageError, match=r"in use by another agent \(pid \d+\)"),
        sole_agent(tmp_path),
    ):
        pass
    with sole_agent(tmp_path):
        pass


def test_a_socket_left_behind_is_replaced_and_a_path_too_long_is_said(tmp_path: Path) -> None:
    (tmp_path / "agent.sock").touch()
    unix_listener(tmp_path / "agent.sock").close()
    with pytest.raises(UsageError, match="longer than"):
        unix_listener(tmp_path / ("x" * 120))


def test_the_server_leaves_signals_to_the_agent() -> None:
    assert QuietServer.capture_signals.__module__ == "opsconsole.control.server"
