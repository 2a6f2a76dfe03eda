"""A snapshot as `status` prints it: a table for people, a document for programs.

Unknown is `-` in the table and null in the document, never 0. The document adds `totals`, what each engine has counted
since it started, because a load that is over leaves nothing in a window. The trap: names of replicas and engines come
from other people's pages, so nothing here passes a markup parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from opsconsole.domain.histogram import latency
from opsconsole.domain.records import Buckets, FleetSnapshot, LatencyView, ReplicaState, ReplicaView, Sample
from opsconsole.domain.wire import to_json

_COLOURS = {
    ReplicaState.OK: "green",
    ReplicaState.HOT: "yellow",
    ReplicaState.SATURATED: "bold red",
    ReplicaState.DOWN: "bold red",
    ReplicaState.STALE: "magenta",
    ReplicaState.WARMING: "cyan",
    ReplicaState.DRAINING: "blue",
}
_HEADS = ("REPLICA", "STATE", "RUN", "WAIT", "KV%", "REQ/S", "OUT/S", "TTFT P50", "P95", "TPOT P50", "ENGINE", "POOL")
_LEFT = frozenset({"REPLICA", "STATE", "ENGINE", "POOL"})
_SINCE_START = "*"
_NOTHING_FOUND = {
    "prometheus": "the server scrapes no engine; add them to its scrape_configs, or look at one directly with "
    "`opsconsole status http://HOST:8000`.",
    "": "check the selector, the name or the file, or look at an engine directly with "
    "`opsconsole status http://HOST:8000`.",
}


def table(snapshot: FleetSnapshot) -> Table:
    """One row a replica, worst first."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for head in _HEADS:
        made.add_column(head, justify="left" if head in _LEFT else "right", no_wrap=True, overflow="ellipsis")
    for view in sorted(snapshot.replicas, key=lambda r: (r.state.risk, r.pool, r.replica)):
        cells = [Text(cell) for cell in _cells(view)]
        made.add_row(cells[0], Text(view.state.value, style=_COLOURS[view.state]), *cells[1:])
    return made


def _cells(view: ReplicaView) -> list[str]:
    ttft, ttft_mark = _known(view.ttft, view.sample.ttft if view.sample else None)
    tpot, tpot_mark = _known(view.tpot, view.sample.tpot if view.sample else None)
    engine = " ".join(filter(None, (view.engine, view.engine_version)))
    return [
        view.replica,
        _count(view.running),
        _count(view.waiting),
        "-" if view.kv_usage is None else f"{100 * view.kv_usage:.0f}",
        _rate(view.request_rate),
        _rate(view.output_rate),
        _seconds(ttft.p50) + ttft_mark,
        _seconds(ttft.p95) + ttft_mark,
        _seconds(tpot.p50) + tpot_mark,
        engine or "-",
        view.pool,
    ]


def _known(window: LatencyView, since_start: Buckets | None) -> tuple[LatencyView, str]:
    if window.p50 is not None or since_start is None or not since_start.count:
        return window, ""
    return latency(since_start), _SINCE_START


def lines(snapshot: FleetSnapshot) -> Iterator[str]:
    """Below the table: why replicas are not well, pools with their SLO, sources in trouble, notes."""
    for view in sorted(snapshot.replicas, key=lambda r: (r.state.risk, r.pool, r.replica)):
        if view.state is not ReplicaState.OK:
            yield f"{view.replica} is {view.state.value}: {view.why}"
        if view.error and view.error not in view.why:
            yield f"{view.replica}: {view.error}"
    if any(_known(r.ttft, r.sample.ttft if r.sample else None)[1] for r in snapshot.replicas):
        yield f"{_SINCE_START} since the engine's start: nothing finished between the two looks"
    for pool in snapshot.pools:
        states = ((pool.ready, "ready"), (pool.warming, "warming"), (pool.draining, "draining"))
        told = [
            f"{n} {word}" for n, word in (*states, (pool.stale, "stale"), (pool.down, "down")) if n or word == "ready"
        ]
        load = f"{_count(pool.waiting)} waiting, {_rate(pool.request_rate)} requests/s"
        yield f"pool {pool.pool}: {', '.join(told)}, {load}"
        for slo in pool.slos:
            met = slo.attainment
            share = "unknown" if met is None else f"{met.low:.1%}" if met.exact else f"{met.low:.1%} to {met.high:.1%}"
            yield f"  SLO {slo.name}: {share} of requests met it, target {slo.target:.0%}"
    for source in snapshot.sources:
        if not source.ok or source.error:
            yield f"source {source.name}: {source.error or 'no answer'}"
    if not snapshot.replicas and all(source.ok for source in snapshot.sources):
        kinds = {source.kind for source in snapshot.sources}
        yield f"No replica was found: {_NOTHING_FOUND.get(min(kinds, default=''), _NOTHING_FOUND[''])}"
    yield from snapshot.notes


def document(snapshot: FleetSnapshot) -> dict[str, Any]:
    """The snapshot's wire form with every replica's totals since its engine started."""
    made: dict[str, Any] = to_json(snapshot)
    made["replicas"] = [{**to_json(view), "totals": _totals(view.sample)} for view in snapshot.replicas]
    return made


_TOTALS = (
    "requests_started",
    "requests_finished",
    "requests_failed",
    "requests_rejected",
    "prompt_tokens",
    "output_tokens",
    "preemptions",
)


def _totals(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    counted: dict[str, Any] = {name: getattr(sample, name) for name in _TOTALS}
    for name in ("ttft", "tpot", "itl", "e2e"):
        counted[name] = to_json(latency(getattr(sample, name)))
    return counted


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{1000 * value:.0f}ms" if value < 1 else f"{value:.2f}s"
