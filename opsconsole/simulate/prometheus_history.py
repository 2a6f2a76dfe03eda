"""A load out of a Prometheus server's memory: one range query, in bins of the query's own step.

The client is the one that observes, and the token is the environment's, as for a forecast. The trap: a query over
`rate(...[1m])` is a mean of the last minute, so asking it every ten seconds would only smear; it is asked once a minute
and spread evenly.
"""

from __future__ import annotations

import asyncio
import math
import os

import numpy as np

from opsconsole.clock import SystemClock
from opsconsole.errors import UsageError
from opsconsole.observe.fetch import FetchFailed
from opsconsole.observe.promql import Answer, PrometheusClient, PrometheusOptions
from opsconsole.simulate.importers import with_missing
from opsconsole.simulate.servegen import MOST_BINS, MOST_COUNT
from opsconsole.simulate.traces import BIN_S, Floats, Kind, Trace

STEP_S = 60.0
TOKEN = "OPSCONSOLE_PROMETHEUS_TOKEN"
EXAMPLE = "sum(rate(vllm:request_success_total[1m]))"


def read_prometheus(url: str, query: str, span: float, now: float | None = None, token: str | None = None) -> Trace:
    """Requests/s by `query` over the last `span` seconds; the environment's token is sent where none is given."""
    if not query:
        raise UsageError(f"prometheus:{url} needs --query with the PromQL of requests/s, such as '{EXAMPLE}'.")
    if "://" not in url:
        raise UsageError(f"prometheus:{url} is no address: write prometheus:http://HOST:9090.")
    if not 0 < span <= MOST_BINS * BIN_S:
        raise UsageError(f"{span:g} s of prometheus:{url} cannot be read: ask for {MOST_BINS * BIN_S:g} s or less.")
    token = os.environ.get(TOKEN, "") if token is None else token
    options = PrometheusOptions(url, (("Authorization", f"Bearer {token}"),) if token else ())
    end = math.floor((SystemClock().now() if now is None else now) / STEP_S) * STEP_S
    try:
        answer = asyncio.run(_ask(options, query, end - span, end))
    except FetchFailed as failed:
        raise UsageError(f"{url} did not answer {query!r}: {failed}.") from failed
    return trace_of(answer, query, end - span, end)


async def _ask(options: PrometheusOptions, query: str, start: float, end: float) -> Answer:
    client = PrometheusClient(options)
    try:
        return await client.range(query, start, end, STEP_S)
    finally:
        await client.close()


def trace_of(answer: Answer, query: str, start: float, end: float) -> Trace:
    """Counts a minute; minutes the server does not know before the first and after the last are cut off, those between
    are taken as silence, and the name says how many."""
    if len(answer.series) != 1:
        raise UsageError(
            f"{query!r} has {len(answer.series)} series and one is needed: "
            f"{'is the name right?' if not answer.series else 'put sum(...) around it.'}"
        )
    rates: Floats = np.full(round((end - start) / STEP_S) + 1, np.nan)
    for at, value in answer.series[0][1]:
        slot = round((at - start) / STEP_S)
        if value < 0:
            raise UsageError(f"{query!r} gives {value:g}: a load is never negative; is it a rate of a counter?")
        if MOST_COUNT < value < math.inf:
            raise UsageError(f"{query!r} gives {value:g} requests/s: a load of more than {MOST_COUNT:g} is none.")
        if 0 <= slot < rates.size and math.isfinite(value):
            rates[slot] = value
    known = np.nonzero(np.isfinite(rates))[0]
    if known.size < 10:
        raise UsageError(f"{query!r} has {known.size} minutes of values: a backtest needs 10 or more.")
    cut = rates[known[0] : known[-1] + 1]
    name = with_missing("prometheus", cut.size - known.size, cut.size, "minutes")
    return Trace(name, Kind.REAL, STEP_S, np.nan_to_num(cut) * STEP_S)
