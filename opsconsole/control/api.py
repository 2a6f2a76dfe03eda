"""The agent's HTTP API: reading what is and was, and the few things a person may ask for.

Routes and JSON only; what may be done is decided by `orders`, who is calling by `access`. It never scrapes, decides or
writes ticks. The trap: history is read from the file in a thread, with a reader of its own, because one slow query in
the event loop would delay the next tick.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from opsconsole.client.telling import Telling, Topic
from opsconsole.control.access import Caller, Forbidden, Unauthorised, caller_of, need
from opsconsole.control.long_budget import LongBudget
from opsconsole.control.loop import Loop
from opsconsole.control.meter import CONTENT_TYPE
from opsconsole.control.orders import Orders
from opsconsole.control.passing import Passing
from opsconsole.control.past_forecast import forecasts_then
from opsconsole.control.settings import Role, Token
from opsconsole.domain.beside import JOURNAL_KEPT, event
from opsconsole.domain.records import BudgetView, ForecastView, JournalEntry, PrefixView
from opsconsole.domain.wire import to_json
from opsconsole.errors import OpsConsoleError, PlanRefused, UsageError
from opsconsole.history.reader import Reader

log = logging.getLogger(__name__)
BODY_LIMIT = 64 * 1024
STALE_TICKS = 10.0  # intervals without a tick before the agent says it is not ready
SELDOM_S, FORECASTS_S, BUDGETS_S = 5.0, 15.0, 60.0  # between two looks at what a stream tells and takes long to find
LONGEST_HISTORY, LONGEST_LOG = 5000, 2000
JSON_TYPE = "application/json"

Handler = Callable[[Request, Caller], Awaitable[Response]]


class Api:
    """Handlers over one loop. `app` is what a server runs."""

    def __init__(
        self,
        loop: Loop,
        orders: Orders,
        tokens: Sequence[Token] = (),
        *,
        forecasts: Callable[[], tuple[ForecastView, ...]] = tuple,
        findings: Callable[[], Sequence[dict[str, Any]]] = tuple,
        prefixes: Callable[[], Awaitable[Sequence[PrefixView]]] | None = None,
        log_of: Callable[[str, int], Sequence[str]] | None = None,
        passing: Passing | None = None,
    ) -> None:
        self._loop, self._orders, self._tokens = loop, orders, tuple(tokens)
        self._forecasts, self._findings = forecasts, findings
        self._prefixes_of, self._log_of, self._passing = prefixes, log_of, passing
        self._reader: Reader | None = None
        self._budget, self._counting = LongBudget(), asyncio.Lock()
        read = [
            ("/v1/snapshot", self._snapshot),
            ("/v1/stream", self._stream),
            ("/v1/history", self._history),
            ("/v1/decisions", self._decisions),
            ("/v1/forecast", self._forecast),
            ("/v1/journal", self._journal),
            ("/v1/alerts", self._alerts),
            ("/v1/findings", self._found),
            ("/v1/holds", self._holds),
            ("/v1/budgets", self._budgets),
            ("/v1/prefixes", self._prefixes),
            ("/v1/logs", self._log),
            ("/metrics", self._metrics),
        ]
        write = [
            ("/v1/plans", self._plan),
            ("/v1/intents", self._intent),
            ("/v1/silences", self._silence),
            ("/v1/holds", self._hold),
        ]
        routes = [Route(path, self._guarded(handler, Role.READ), methods=["GET"]) for path, handler in read]
        routes += [Route(path, self._guarded(handler, Role.OPERATE), methods=["POST"]) for path, handler in write]
        routes += [Route("/healthz", self._healthz), Route("/readyz", self._readyz)]
        self.app = Starlette(routes=routes)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _guarded(self, handler: Handler, role: Role) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                caller = caller_of(request, self._tokens)
                # A dry run changes nothing, so whoever may read may ask for one.
                need(caller, Role.READ if request.url.path == "/v1/plans" else role)
                elsewhere = None if self._passing is None else await self._passing.on(request)
                return elsewhere if elsewhere is not None else await handler(request, caller)
            except Unauthorised as error:
                return _error(401, error)
            except Forbidden as error:
                return _error(403, error)
            except UsageError as error:
                return _error(400, error)
            except PlanRefused as error:
                return _error(409, error)
            except OpsConsoleError as error:
                return _error(503, error)

        return endpoint

    async def _snapshot(self, request: Request, caller: Caller) -> Response:
        if not self._loop.feed.text:
            raise OpsConsoleError("This agent has made no tick yet: ask again in a moment.")
        return Response(self._loop.feed.text, media_type=JSON_TYPE)

    async def _stream(self, request: Request, caller: Caller) -> Response:
        telling = Telling(self._topics(), request.query_params.get("with", "").split(","))

        async def events() -> AsyncIterator[str]:
            try:
                async for text in self._loop.feed.follow():
                    newest = self._loop.feed.newest
                    yield await telling.before(newest.at if newest is not None else 0.0) + event("", text)
            finally:
                await telling.close()

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    def _topics(self) -> dict[str, Topic]:
        """What a stream tells beside its ticks; the journal from where this reader was told it last."""
        last: int | None = None

        async def journal() -> Sequence[JournalEntry]:
            nonlocal last
            found = await self._read(lambda reader: reader.journal(after=last, limit=JOURNAL_KEPT))
            last = found[-1].seq if found else last
            return cast("Sequence[JournalEntry]", found)

        async def prefixes() -> Sequence[PrefixView]:
            return () if self._prefixes_of is None else await self._prefixes_of()

        return {
            "alerts": _at_once(lambda: self._loop.alerts.views()),
            "journal": Topic(journal, adds=True),
            "decisions": _at_once(lambda: self._loop.feed.decisions),
            "holds": _at_once(self._orders.holds),
            "forecasts": _at_once(self._forecasts, FORECASTS_S),
            "prefixes": Topic(prefixes, SELDOM_S),
            "findings": Topic(lambda: asyncio.to_thread(self._findings), SELDOM_S),
            "budgets": Topic(self._long_budgets, BUDGETS_S),
        }

    async def _history(self, request: Request, caller: Caller) -> Response:
        at, since, until, step = (_number(request, name) for name in ("at", "since", "until", "step"))
        limit = min(LONGEST_HISTORY, int(_number(request, "limit") or 600))
        newest = self._loop.feed.newest
        last = newest.at if newest is not None else 0.0
        totals = request.query_params.get("pools") == "1"
        if at is not None:
            found = await self._read(lambda reader: reader.at(at))
            return _items([] if found is None else [found])
        begin, end = (last - 600.0 if since is None else since), (last if until is None else until)
        if totals is False and step is None and self._loop.ring.covers(begin):
            held = [s for s in self._loop.ring.since(begin) if s.at <= end]
            return _items(held[-limit:])
        return _items(await self._read(lambda r: r.range(begin, end, step=step, pools_only=totals, limit=limit)))

    async def _decisions(self, request: Request, caller: Caller) -> Response:
        at = _number(request, "at")
        if at is None:
            return _items(self._loop.feed.decisions)
        return _items([past.decision for past in await self._read(lambda reader: reader.decisions_at(at))])

    async def _forecast(self, request: Request, caller: Caller) -> Response:
        pool, at = request.query_params.get("pool"), _number(request, "at")
        found = self._forecasts() if at is None else await self._read(lambda r: forecasts_then(r.decisions_at(at)))
        return _items([f for f in found if pool in (None, f.pool)])

    async def _journal(self, request: Request, caller: Caller) -> Response:
        after, since, until, limit = (_number(request, name) for name in ("after", "since", "until", "limit"))
        ask = request.query_params
        return _items(
            await self._read(
                lambda reader: reader.journal(
                    after=None if after is None else int(after),
                    since=since,
                    until=until,
                    kind=ask.get("kind"),
                    pool=ask.get("pool"),
                    limit=min(LONGEST_HISTORY, int(200 if limit is None else limit)),
                )
            )
        )

    async def _alerts(self, request: Request, caller: Caller) -> Response:
        return _items(self._loop.alerts.views())

    async def _found(self, request: Request, caller: Caller) -> Response:
        return _items(await asyncio.to_thread(self._findings))  # it may read and judge megabytes

    async def _holds(self, request: Request, caller: Caller) -> Response:
        return _items(self._orders.holds())

    async def _budgets(self, request: Request, caller: Caller) -> Response:
        return _items(await self._long_budgets())

    async def _long_budgets(self) -> Sequence[BudgetView]:
        newest = self._loop.feed.newest
        if newest is None:
            return ()
        async with self._counting:  # a day at a time, so that a first question of a month does not hold up others
            while not await self._read(lambda reader: self._budget.catch_up(reader, newest.at)):
                pass
        return self._budget.views(newest)

    async def _prefixes(self, request: Request, caller: Caller) -> Response:
        return _items(await self._prefixes_of() if self._prefixes_of is not None else ())

    async def _log(self, request: Request, caller: Caller) -> Response:
        if self._log_of is None:
            words = "This agent cannot reach the logs of its replicas: look where they run"
            raise UsageError(f"{words} (a pod's: kubectl logs {request.query_params.get('replica', 'POD')}).")
        lines = max(1, min(LONGEST_LOG, int(_number(request, "lines") or 200)))
        name = request.query_params.get("replica", "")
        return JSONResponse({"lines": list(await asyncio.to_thread(self._log_of, name, lines))})

    async def _metrics(self, request: Request, caller: Caller) -> Response:
        return Response(self._loop.meter.text(), headers={"content-type": CONTENT_TYPE})

    async def _plan(self, request: Request, caller: Caller) -> Response:
        return JSONResponse(to_json(await self._orders.plan(await _body(request))))

    async def _intent(self, request: Request, caller: Caller) -> Response:
        return JSONResponse(to_json(await self._orders.intent(await _body(request), caller.name)))

    async def _silence(self, request: Request, caller: Caller) -> Response:
        alert = self._orders.silence(await _body(request), caller.name)
        return JSONResponse({"alert": None if alert is None else to_json(alert)})

    async def _hold(self, request: Request, caller: Caller) -> Response:
        return _items(self._orders.hold(await _body(request), caller.name))

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        age = self._orders.tick_age()
        longest = max(5.0, STALE_TICKS * self._loop.settings.interval_s)
        if age is not None and age <= longest:
            return JSONResponse({"status": "ready", "age": age})
        return JSONResponse({"status": "no tick yet" if age is None else f"no tick for {age:.0f} s"}, 503)

    async def _read(self, ask: Callable[[Reader], Any]) -> Any:
        def work() -> Any:
            if self._reader is None:
                self._reader = Reader(self._loop.settings.database)
            return ask(self._reader)

        return await asyncio.to_thread(work)


def _at_once(read: Callable[[], Sequence[Any]], every_s: float = 0.0) -> Topic:
    """A topic that nobody has to wait for."""

    async def ask() -> Sequence[Any]:
        return read()

    return Topic(ask, every_s)


def _items(records: Sequence[Any]) -> Response:
    return JSONResponse({"items": [to_json(record) for record in records]})


def _error(status: int, error: Exception) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": str(error)}, status, headers)


def _number(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{name}={text} is not a number.") from error


async def _body(request: Request) -> dict[str, Any]:
    received = b""
    async for part in request.stream():
        received += part
        if len(received) > BODY_LIMIT:
            raise UsageError(f"The body is longer than {BODY_LIMIT} bytes.")
    try:
        data = json.loads(received)
    except ValueError as error:
        raise UsageError(f"The body is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise UsageError("The body must be a JSON object.")
    return data
