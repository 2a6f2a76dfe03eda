"""The agent's API served from a generator: `opsconsole --demo`, screenshots, and tests that want a real socket.

    python -m opsconsole.client.demo --socket PATH [--replicas N] [--pools N] [--seed N] [--read-only]

It must not be taken for an agent: nothing is observed, and every snapshot says DEMO. The trap: it ends when the
process that started it closes its standard input (`--tied`), so no demo outlives its console.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from opsconsole.client.demo_agent import DemoAgent
from opsconsole.client.demo_extras import FINDINGS, budgets, log_of, prefixes
from opsconsole.client.demo_views import forecasts
from opsconsole.client.telling import Telling, Topic
from opsconsole.clock import Clock, SystemClock
from opsconsole.domain.beside import JOURNAL_KEPT, event
from opsconsole.domain.records import FleetSnapshot, HoldView, JournalEntry
from opsconsole.domain.wire import dumps, to_json
from opsconsole.errors import OpsConsoleError, PlanRefused

SELDOM_S, FORECASTS_S, BUDGETS_S = 5.0, 15.0, 60.0  # between two looks at what a stream tells and takes long to find


class DemoApi:
    """Requests to answers; one agent."""

    def __init__(self, agent: DemoAgent, clock: Clock) -> None:
        self._agent, self._clock = agent, clock

    def app(self) -> Starlette:
        """The ASGI application."""
        get, post = ["GET"], ["POST"]
        return Starlette(
            routes=[
                Route("/v1/snapshot", self._snapshot, methods=get),
                Route("/v1/stream", self._stream, methods=get),
                Route("/v1/history", self._history, methods=get),
                Route("/v1/decisions", self._decisions, methods=get),
                Route("/v1/forecast", self._forecast, methods=get),
                Route("/v1/journal", self._journal, methods=get),
                Route("/v1/alerts", self._alerts, methods=get),
                Route("/v1/findings", self._findings, methods=get),
                Route("/v1/holds", self._holds, methods=get),
                Route("/v1/budgets", self._budgets, methods=get),
                Route("/v1/prefixes", self._prefixes, methods=get),
                Route("/v1/logs", self._logs, methods=get),
                Route("/v1/plans", self._plan, methods=post),
                Route("/v1/intents", self._intent, methods=post),
                Route("/v1/silences", self._silence, methods=post),
                Route("/v1/holds", self._hold, methods=post),
                Route("/readyz", self._ready, methods=get),
                Route("/healthz", self._ready, methods=get),
            ],
            exception_handlers={OpsConsoleError: _refused},
        )

    async def _ready(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "demo": True})

    async def _snapshot(self, request: Request) -> Response:
        return Response(dumps(self._agent.advance()), media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        last = -1
        telling = Telling(self._topics(), request.query_params.get("with", "").split(","))
        try:
            while not await request.is_disconnected():
                snapshot = self._agent.advance()
                if snapshot.tick != last:
                    last = snapshot.tick
                    yield await telling.before(snapshot.at) + event("", dumps(snapshot))
                await self._clock.sleep(self._agent.interval)
        finally:
            await telling.close()

    def _topics(self) -> dict[str, Topic]:
        """What a stream tells beside its ticks; the journal from where this reader was told it last."""
        agent, last = self._agent, 0

        async def journal() -> list[JournalEntry]:
            nonlocal last
            found = [entry for entry in agent.journal if entry.seq > last][-JOURNAL_KEPT:]
            last = found[-1].seq if found else last
            return found

        def topic(read: Callable[[], Iterable[Any]], every_s: float = 0.0) -> Topic:
            async def ask() -> list[Any]:
                return list(read())

            return Topic(ask, every_s)

        return {
            "alerts": topic(agent.alerts),
            "journal": Topic(journal, adds=True),
            "decisions": topic(agent.decided.values),
            "holds": topic(lambda: agent.holds),
            "forecasts": topic(lambda: forecasts(agent.world, agent.seed, agent.hindsight), FORECASTS_S),
            "prefixes": topic(lambda: prefixes(agent.world), SELDOM_S),
            "findings": topic(lambda: FINDINGS, SELDOM_S),
            "budgets": topic(lambda: budgets(agent.advance()), BUDGETS_S),
        }

    async def _history(self, request: Request) -> Response:
        query = request.query_params
        kept = list(self._agent.history)
        if "at" in query:
            at = float(query["at"])
            found = [s for s in kept if s.at <= at][-1:]
            return _items(found)
        since, until = float(query.get("since", "-inf")), float(query.get("until", "inf"))
        step, limit = float(query.get("step", 0)), int(query.get("limit", 600))
        picked: list[FleetSnapshot] = []
        for snapshot in kept:
            if since <= snapshot.at <= until and (not picked or snapshot.at - picked[-1].at >= step - 1e-6):
                picked.append(snapshot)
        pools_only = query.get("pools") == "1"
        rows = [to_json(s) for s in picked[-limit:]]
        if pools_only:
            for row in rows:
                row.pop("replicas", None)
        return JSONResponse({"items": rows})

    async def _decisions(self, request: Request) -> Response:
        if "at" not in request.query_params:
            return _items(list(self._agent.decided.values()))
        at = float(request.query_params["at"])
        newest = {d.pool: d for d in self._agent.past_decisions if d.at <= at}
        return _items(list(newest.values()))

    async def _forecast(self, request: Request) -> Response:
        wanted, at = request.query_params.get("pool"), request.query_params.get("at")
        hindsight = self._agent.hindsight if at is None else None
        views = forecasts(self._agent.world, self._agent.seed, hindsight, None if at is None else float(at))
        return _items([view for view in views if wanted in (None, "", view.pool)])

    async def _journal(self, request: Request) -> Response:
        query = request.query_params
        after, limit = int(query.get("after", 0)), int(query.get("limit", 200))
        since, until = float(query.get("since", "-inf")), float(query.get("until", "inf"))
        found = [
            entry for entry in self._agent.journal
            if entry.seq > after and since <= entry.at <= until
            and query.get("kind") in (None, "", entry.kind) and query.get("pool") in (None, "", entry.pool)
        ]  # fmt: skip
        return _items(found[-limit:])

    async def _alerts(self, request: Request) -> Response:
        return _items(list(self._agent.alerts()))

    async def _findings(self, request: Request) -> Response:
        return JSONResponse({"items": list(FINDINGS)})

    async def _holds(self, request: Request) -> Response:
        return _items(self._agent.holds)

    async def _budgets(self, request: Request) -> Response:
        return _items(list(budgets(self._agent.advance())))

    async def _prefixes(self, request: Request) -> Response:
        return _items(list(prefixes(self._agent.world)))

    async def _logs(self, request: Request) -> Response:
        query = request.query_params
        lines = log_of(self._agent.world, query.get("replica", ""))
        return JSONResponse({"lines": lines[-int(query.get("lines", 200)) :]})

    async def _plan(self, request: Request) -> Response:
        body = await request.json()
        plan = self._agent.plan(
            body["kind"], body.get("pool", ""), to=body.get("to"), replicas=tuple(body.get("replicas", ())),
            reason=body.get("reason", ""),
        )  # fmt: skip
        return JSONResponse(to_json(plan))

    async def _intent(self, request: Request) -> Response:
        body = await request.json()
        return JSONResponse(to_json(self._agent.intent(body["plan_id"], _who(request), body.get("note", ""))))

    async def _silence(self, request: Request) -> Response:
        body = await request.json()
        agent, who = self._agent, _who(request)
        rule, subject = str(body.get("rule", "")), str(body.get("subject", ""))
        agent.silenced[rule, subject] = (agent.world.at + float(body.get("for_s", 3600)), who)
        agent.note("note", "", f"silenced {rule} {subject}".strip(), who=who)
        found = next((a for a in agent.alerts() if a.rule == rule and subject in ("", a.subject)), None)
        return JSONResponse({"alert": to_json(found) if found else None})

    async def _hold(self, request: Request) -> Response:
        body = await request.json()
        agent, who = self._agent, _who(request)
        if not agent.can_act:
            raise PlanRefused("This agent lets no intents through; start it with --allow-intents.")
        kind, pool = str(body["kind"]), str(body.get("pool", ""))
        old = "pause" if kind in ("pause", "resume") else "pin"
        agent.holds = [h for h in agent.holds if (h.kind, h.pool) != (old, pool)]
        if kind in ("pause", "pin"):
            until = agent.world.at + float(body["for_s"]) if body.get("for_s") else None
            agent.holds.append(
                HoldView(kind, pool, who, agent.world.at, until, body.get("minimum"), body.get("note", ""))
            )
            if kind == "pin" and body.get("minimum") is not None:
                agent.pool(pool).minimum = int(body["minimum"])
        agent.note("mode", pool, f"{kind} {body.get('minimum') or ''} {body.get('note', '')}".strip(), who=who)
        return _items(agent.holds)


def _items(records: list[Any]) -> Response:
    return JSONResponse({"items": [to_json(record) for record in records]})


def _who(request: Request) -> str:
    return request.headers.get("x-opsconsole-who", "somebody")


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=409 if isinstance(error, PlanRefused) else 400)


async def serve(
    agent: DemoAgent, clock: Clock, socket: str, tied: bool = False, stop: asyncio.Event | None = None
) -> None:
    """Serve on a Unix socket until told to stop, or until standard input closes when tied to another process."""
    import uvicorn

    config = uvicorn.Config(DemoApi(agent, clock).app(), uds=socket, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    if tied:
        asyncio.get_running_loop().run_in_executor(None, _until_closed, server)
    serving = asyncio.ensure_future(server.serve())
    if stop is not None:
        await stop.wait()
        server.should_exit = server.force_exit = True
    await serving


def _until_closed(server: Any) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = True
    server.force_exit = True


def main(arguments: list[str] | None = None) -> None:
    """The demo as a process of its own."""
    parser = argparse.ArgumentParser(prog="opsconsole.client.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--socket", required=True)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--pools", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--mode", choices=("off", "advise", "act"), default="advise")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--tied", action="store_true", help="end when standard input closes")
    given = parser.parse_args(arguments)
    clock = SystemClock()
    agent = DemoAgent(
        clock.now, replicas=given.replicas, pools=given.pools, seed=given.seed, interval=given.interval,
        mode=given.mode, can_act=not given.read_only,
    )  # fmt: skip
    asyncio.run(serve(agent, clock, given.socket, given.tied))


if __name__ == "__main__":
    main()
