"""Asking a Prometheus server: instant and range queries in a thread, with what the client library leaves out put back.

It must not know engines. The library has no time-out by default, retries for seconds, drops the server's warnings,
reads any length of answer for any length of time and sends any range as it is; here time and bytes are bounded, nothing
is retried, warnings are kept, and a range is split below the server's limit of points. The trap: an answer with
warnings is partial, and partial is not zero.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from opsconsole.clock import SystemClock
from opsconsole.errors import SourceErrorKind
from opsconsole.observe.fetch import FetchFailed

if TYPE_CHECKING:
    from prometheus_api_client import PrometheusConnect

POINTS_MAX = 11_000  # the server's limit for one series of a range query
POINTS_ASKED = 10_000
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """Where the server is and how to introduce oneself."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    verify: bool | str = True  # or a file of certificates
    client_cert: tuple[str, str] | None = None
    connect_timeout_s: float = 2.0
    timeout_s: float = 10.0
    max_bytes: int = 256 * 2**20  # a thousand replicas of 500 series are a third of it
    points: int = POINTS_ASKED


@dataclass(frozen=True, slots=True)
class Answer:
    """Series as (labels, points); a point is (time, value). `warnings` say that some are missing."""

    series: tuple[tuple[Mapping[str, str], tuple[tuple[float, float], ...]], ...]
    warnings: tuple[str, ...] = ()


class PrometheusClient:
    """One server. One question at a time: the session underneath is not for several threads."""

    def __init__(self, options: PrometheusOptions, now: Callable[[], float] | None = None) -> None:
        self._options = options
        self._now = now or SystemClock().monotonic
        # of its own: a server that never ends an answer must not hold a thread that others wait for
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus")
        self._asked: Future[Answer] | None = None
        self._warnings: list[str] = []
        self._connect: PrometheusConnect | None = None
        self._lock = asyncio.Lock()

    async def instant(self, query: str, at: float | None = None) -> Answer:
        """Values now, or at a time. Staleness is the server's: at most five minutes back."""
        params = {} if at is None else {"time": f"{at:.3f}"}
        return await self._ask(lambda prom: prom.custom_query(query, params=params), "value")

    async def range(self, query: str, start: float, end: float, step: float) -> Answer:
        """Values from start to end, both included, in steps of whole seconds; asked in parts below the limit."""
        step_s = max(1, round(step))
        merged: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        warnings: list[str] = []
        for first, last in spans(start, end, step_s, self._options.points):
            answer = await self._ask(_ranged(query, first, last, step_s), "values")
            warnings += [w for w in answer.warnings if w not in warnings]
            for labels, points in answer.series:
                merged.setdefault(tuple(sorted(labels.items())), []).extend(points)
        return Answer(tuple((dict(key), tuple(points)) for key, points in merged.items()), tuple(warnings))

    async def close(self) -> None:
        connect, self._connect = self._connect, None
        self._thread.shutdown(wait=False, cancel_futures=True)
        if connect is not None:
            connect.close()

    async def _ask(self, question: Callable[[PrometheusConnect], Any], kind: str) -> Answer:
        limit = self._options.connect_timeout_s + self._options.timeout_s + 1.0
        async with self._lock:
            if self._asked is not None and not self._asked.done():
                raise FetchFailed(SourceErrorKind.TOO_SLOW, "has not ended its last answer yet")
            self._asked = self._thread.submit(self._in_thread, question, kind)
            try:
                return await asyncio.wait_for(asyncio.wrap_future(self._asked), limit)
            except TimeoutError:
                self._connect = None  # its thread may still hold the session; it gets a new one
                raise FetchFailed(SourceErrorKind.TIMEOUT, f"no answer within {limit:g} s") from None

    def _in_thread(self, question: Callable[[PrometheusConnect], Any], kind: str) -> Answer:
        import requests
        import urllib3
        from prometheus_api_client.exceptions import PrometheusApiClientException

        if self._connect is None:
            self._connect = self._new()
        self._warnings.clear()
        try:
            found = question(self._connect)
            return Answer(tuple(_series(found, kind)), tuple(self._warnings))
        except PrometheusApiClientException as error:
            raise _refused(str(error)) from None
        except requests.exceptions.SSLError as error:
            raise FetchFailed(SourceErrorKind.TLS, f"TLS failed: {error}") from None
        except (requests.exceptions.Timeout, urllib3.exceptions.ReadTimeoutError):
            raise FetchFailed(SourceErrorKind.TIMEOUT, f"no answer within {self._options.timeout_s:g} s") from None
        except urllib3.exceptions.HTTPError as error:
            raise FetchFailed(SourceErrorKind.TRUNCATED, f"the connection ended within the answer ({error})") from None
        except requests.exceptions.TooManyRedirects:
            raise FetchFailed(SourceErrorKind.REDIRECT, "redirects without end") from None
        except requests.exceptions.ConnectionError as error:
            kind_ = SourceErrorKind.DNS if "resolve" in str(error).lower() else SourceErrorKind.REFUSED
            raise FetchFailed(kind_, "nothing answers there") from None
        except (ValueError, KeyError, TypeError, requests.exceptions.RequestException) as error:
            raise FetchFailed(SourceErrorKind.NOT_METRICS, f"is no Prometheus server: {error}") from None

    def _new(self) -> PrometheusConnect:
        import requests
        from prometheus_api_client import PrometheusConnect
        from urllib3.util.retry import Retry

        options = self._options
        session = requests.Session()
        session.verify = options.verify
        session.cert = options.client_cert
        session.trust_env = False
        session.hooks["response"].append(self._take)
        return PrometheusConnect(
            options.url.rstrip("/"),
            headers=dict(options.headers),
            auth=options.basic_auth,
            session=session,
            retry=Retry(total=0),
            timeout=(options.connect_timeout_s, options.timeout_s),
            method="POST",
        )

    def _take(self, response: Any, *_: Any, **__: Any) -> None:
        """Read the answer here, within bounds; and what the server says beside the data, which the library drops."""
        until, room, parts = self._now() + self._options.timeout_s, self._options.max_bytes, []
        while data := response.raw.read1(READ_BYTES, decode_content=True):
            parts.append(data)
            room -= len(data)
            if room < 0:
                raise self._given_up(
                    response, SourceErrorKind.TOO_LARGE, f"larger than {self._options.max_bytes} bytes"
                )
            if self._now() > until:
                words = f"began to answer and was not done after {self._options.timeout_s:g} s"
                raise self._given_up(response, SourceErrorKind.TOO_SLOW, words)
        response._content, response._content_consumed = b"".join(parts), True
        if b'"warnings"' in response.content:
            try:
                self._warnings += [str(w) for w in response.json().get("warnings") or ()]
            except (ValueError, AttributeError):
                return

    def _given_up(self, response: Any, kind: SourceErrorKind, words: str) -> FetchFailed:
        response.close()
        return FetchFailed(kind, words)


def spans(start: float, end: float, step: int, points: int) -> Iterator[tuple[int, int]]:
    """Parts of a range on the grid of its steps, none of more than `points` points, none overlapping."""
    first, last = math.floor(start), math.floor(end)
    if last < first:
        return
    reach = step * (max(1, min(points, POINTS_MAX)) - 1)
    while first <= last:
        upto = min(last, first + reach)
        yield first, upto
        first = first + ((upto - first) // step + 1) * step


def _ranged(query: str, first: int, last: int, step: int) -> Callable[[PrometheusConnect], Any]:
    begin, end = datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC)
    return lambda prom: prom.custom_query_range(query, begin, end, str(step))


def _series(found: Any, kind: str) -> Iterator[tuple[Mapping[str, str], tuple[tuple[float, float], ...]]]:
    """Values are strings, "NaN" and "+Inf" among them; a scalar answer has no labels at all."""
    for entry in found:
        if not isinstance(entry, dict):
            raise ValueError("the query gives a scalar, not series")
        points = [entry["value"]] if kind == "value" else entry["values"]
        yield entry["metric"], tuple((float(at), float(value)) for at, value in points)


def _refused(text: str) -> FetchFailed:
    """The library has one exception for every status; the status is in its text."""
    status = next((int(word) for word in text.split() if word.isdigit()), 0)
    if status in (401, 403):
        return FetchFailed(SourceErrorKind.AUTH, f"answered {status}: give a token or user and password")
    kind = SourceErrorKind.TIMEOUT if status == 503 and "timed out" in text else SourceErrorKind.HTTP_STATUS
    return FetchFailed(kind, text[:300])
