"""The agent's own /metrics: what a tick costs, how late it is, what was decided and done.

It knows numbers and no rules. Its own registry, so that tests and several agents in one process do not share counts.
The trap: gauges by replica would grow with every replica that ever lived; everything here is by pool or by source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from opsconsole.domain.records import AlertView, DecisionView, FleetSnapshot, Outcome

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Meter:
    """Counts and gauges of one agent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        where: Any = {"registry": self.registry, "namespace": "opsconsole"}
        self._step = Histogram("tick_step_seconds", "Time one step of a tick took", ["step"], buckets=_BOUNDS, **where)
        self._tick = Histogram("tick_seconds", "Time a whole tick took", buckets=_BOUNDS, **where)
        self._cpu = Counter("tick_cpu_seconds", "CPU time spent in ticks", **where)
        self._late = Histogram("tick_lateness_seconds", "How late a tick began", buckets=_BOUNDS, **where)
        self._skipped = Counter("ticks_skipped", "Ticks that were due while another was running", **where)
        self._failed = Counter("tick_failures", "Ticks that ended in an error", **where)
        self._last = Gauge("last_tick_timestamp_seconds", "When the newest tick was made", **where)
        self._replicas = Gauge("replicas", "Replicas by pool and state", ["pool", "state"], **where)
        self._want = Gauge("pool_wanted_replicas", "Replicas asked for", ["pool"], **where)
        self._target = Gauge("pool_target_replicas", "Replicas the newest decision wants", ["pool"], **where)
        self._desired = Gauge(
            "desired_replicas", "Published for an HPA or KEDA; absent while unknown", ["pool"], **where
        )
        self._source = Gauge("source_ok", "1 while the source can be trusted", ["source"], **where)
        self._decisions = Counter("decisions", "Decisions by direction", ["pool", "direction"], **where)
        self._outcomes = Counter("acts", "Acts by how they ended", ["status"], **where)
        self._cut = Counter("streams_cut", "Streams cut by acts", **where)
        self._alerts = Gauge("alerts_firing", "Alerts firing", ["severity"], **where)

    def step(self, name: str, seconds: float) -> None:
        self._step.labels(name).observe(seconds)

    def tick(self, seconds: float, cpu_seconds: float, late_seconds: float) -> None:
        self._tick.observe(seconds)
        self._cpu.inc(max(0.0, cpu_seconds))
        self._late.observe(max(0.0, late_seconds))

    def skipped(self, ticks: int) -> None:
        self._skipped.inc(ticks)

    def failed(self) -> None:
        self._failed.inc()

    def see(self, snapshot: FleetSnapshot, decisions: Sequence[DecisionView], alerts: Sequence[AlertView]) -> None:
        self._last.set(snapshot.at)
        self._replicas.clear()
        for replica in snapshot.replicas:
            self._replicas.labels(replica.pool, replica.state.value).inc()
        for pool in snapshot.pools:
            if pool.want is not None:
                self._want.labels(pool.pool).set(pool.want)
        for source in snapshot.sources:
            self._source.labels(source.name).set(int(source.ok))
        for decision in decisions:
            self._target.labels(decision.pool).set(decision.target)
            move = decision.target - decision.current
            self._decisions.labels(decision.pool, "up" if move > 0 else "down" if move < 0 else "stay").inc()
        for severity in ("info", "warning", "critical"):
            firing = sum(a.state == "firing" and a.severity == severity for a in alerts)
            self._alerts.labels(severity).set(firing)

    def publish(self, desired: Mapping[str, int]) -> None:
        """What others are to bring about. A count that is unknown is absent: a metric that stayed would be believed."""
        self._desired.clear()
        for pool, count in desired.items():
            self._desired.labels(pool).set(count)

    def outcome(self, outcome: Outcome) -> None:
        self._outcomes.labels(outcome.status).inc()
        self._cut.inc(outcome.streams_cut)

    def text(self) -> bytes:
        return generate_latest(self.registry)
