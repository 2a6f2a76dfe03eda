"""Reads a load history for `opsconsole forecast` from a Prometheus server: one range query, one series.

It knows queries and points and nothing of forecasters. The traps: a point at t is the rate over the step that *ends* at
t; and several series are not a load until somebody says how they add up, so they are refused and not summed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from forecaster.series import Series
    from opsconsole.observe.promql import Answer, PrometheusOptions

# vLLM's names, which this engine shares. First tokens are the nearest to arrivals that are counted. {0} is the step.
QUERIES: Mapping[str, str] = {
    "requests": "sum(rate(vllm:time_to_first_token_seconds_count[{0}]))",
    "prompt_tokens": "sum(rate(vllm:prompt_tokens_total[{0}]))",
    "output_tokens": "sum(rate(vllm:generation_tokens_total[{0}]))",
}
DEFAULT_SPAN_S = 7 * 86400.0
SHOWN_SERIES = 3


class Question(NamedTuple):
    """What to ask of a server: the query, and the steps it is asked for."""

    url: str
    query: str
    until: float  # Unix s
    span: float  # s
    step: float  # s, whole
    token: str = ""


def default_query(column: str, step: float) -> str:
    """Of a fleet of vLLM or of ours, all of it together."""
    return QUERIES[column].format(f"{max(1, round(step))}s")


def read_prometheus(asked: Question) -> tuple[Series, tuple[str, ...]]:
    """The history, and the server's warnings that it is partial."""
    from opsconsole.observe.fetch import FetchFailed
    from opsconsole.observe.promql import PrometheusOptions

    if asked.step < 1 or asked.step != round(asked.step):
        raise UsageError(f"--step {asked.step:g}s: Prometheus is asked in whole seconds.")
    headers = (("Authorization", f"Bearer {asked.token}"),) if asked.token else ()
    last = math.floor(asked.until / asked.step) * asked.step
    first = last - max(0, math.ceil(asked.span / asked.step) - 1) * asked.step
    try:
        answer = asyncio.run(_ask(PrometheusOptions(asked.url, headers), asked.query, first, last, asked.step))
    except FetchFailed as error:
        raise UsageError(f"{asked.url}: {error}.") from None
    return _series(answer, asked, first, last), answer.warnings


async def _ask(options: PrometheusOptions, query: str, first: float, last: float, step: float) -> Answer:
    from opsconsole.observe.promql import PrometheusClient

    client = PrometheusClient(options)
    try:
        return await client.range(query, first, last, step)
    finally:
        await client.close()


def _series(answer: Answer, asked: Question, first: float, last: float) -> Series:
    from forecaster.series import SeriesError, from_pairs

    if len(answer.series) > 1:
        some = "; ".join(_labels(labels) for labels, _ in answer.series[:SHOWN_SERIES])
        raise UsageError(
            f"{asked.query} gives {len(answer.series)} series ({some}): a load is one, so sum() them or choose one."
        )
    points = answer.series[0][1] if answer.series else ()
    inside = [point for point in points if first <= point[0] <= last]  # whatever else a server sends
    known = [(at - asked.step, value) for at, value in inside if math.isfinite(value)]
    if not known:
        raise UsageError(f"{asked.url} has nothing for {asked.query} in that time: see the query in its own console.")
    negative = next((value for _, value in known if value < 0), None)
    if negative is not None:
        raise UsageError(f"{asked.query} gives {negative:g}: a load is never negative; is it a rate of a counter?")
    ends = [] if known[-1][0] >= last - asked.step else [(last - asked.step, None)]  # silence at the end is a gap
    try:
        return from_pairs([*known, *ends], asked.step)
    except SeriesError as error:
        raise UsageError(f"{asked.url} answers {asked.query} out of order: {error}.") from None


def _labels(labels: Mapping[str, str]) -> str:
    told = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    return "{" + told + "}"
