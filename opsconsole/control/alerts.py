"""Alerts: rules over the snapshot, each held for a while before it fires, told once, muted or silenced by people.

Pure: a snapshot and the book so far give the next book and what changed. It knows nothing of channels. The trap: a
subject that vanishes (a removed replica) resolves its alerts; a snapshot whose sources failed must not, so while any
source is failing nothing resolves for want of its subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from opsconsole.control.settings import AlertSettings
from opsconsole.domain.records import AlertView, FleetSnapshot, ReplicaState

EVERY = "*"
REST_S = 600.0  # after a drain was last seen, what fires about that replica is the maintenance itself


class Finding(NamedTuple):
    """One subject a rule holds for, and the sentence."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and how long it must hold, in seconds, before anybody is told."""

    name: str
    severity: str  # info | warning | critical
    hold_s: float
    find: Callable[[FleetSnapshot], Iterator[Finding]]


class Change(NamedTuple):
    """An alert that began to fire or ceased to."""

    alert: AlertView
    fired: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """One rule kept quiet, for one subject or for all (""), until a time."""

    rule: str
    subject: str
    until: float
    by: str
    note: str = ""

    def covers(self, alert: AlertView, now: float) -> bool:
        """A silence of `*` is maintenance: every rule, of a pool with all that is in it, or of one replica."""
        if self.until <= now or self.rule not in (alert.rule, EVERY):
            return False
        return self.subject in ("", alert.subject) or alert.subject.startswith(f"{self.subject}/")


def _slo_missed(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for pool in snapshot.pools:
        for slo in pool.slos:
            if slo.attainment is not None and slo.attainment.high < slo.target:
                share = f"{slo.attainment.high:.1%}" if slo.attainment.exact else f"at most {slo.attainment.high:.1%}"
                yield Finding(
                    f"{pool.pool}/{slo.name}", f"{share} of requests meet SLO {slo.name}, target {slo.target:.0%}"
                )


def _slo_burn(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for pool in snapshot.pools:
        for slo in pool.slos:
            if min(slo.burn_short or 0.0, slo.burn_long or 0.0) > 2.0:
                text = f"error budget of SLO {slo.name} burns {slo.burn_short:.3g}x as fast as it may"
                yield Finding(f"{pool.pool}/{slo.name}", text)


def _replica_down(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for replica in snapshot.replicas:
        if replica.state is ReplicaState.DOWN:
            yield Finding(f"{replica.pool}/{replica.replica}", f"{replica.replica} is down: {replica.why}")


def _replica_stale(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for replica in snapshot.replicas:
        if replica.state is ReplicaState.STALE:
            yield Finding(f"{replica.pool}/{replica.replica}", f"{replica.replica} cannot be believed: {replica.why}")


def _pool_saturated(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for pool in snapshot.pools:
        live = [r for r in snapshot.replicas if r.pool == pool.pool and r.state in _LIVE]
        if live and all(r.state is ReplicaState.SATURATED for r in live):
            yield Finding(pool.pool, f"all {len(live)} live replicas of {pool.pool} are saturated")


def _pool_empty(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for pool in snapshot.pools:
        if (pool.want or 0) > 0 and pool.ready == 0:
            yield Finding(pool.pool, f"{pool.pool} has no ready replica and {pool.want} wanted")


def _at_maximum(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for pool in snapshot.pools:
        if pool.maximum is not None and pool.want == pool.maximum and (pool.waiting or 0.0) > 8.0 * pool.maximum:
            yield Finding(
                pool.pool, f"{pool.pool} is at its maximum of {pool.maximum} and {pool.waiting:.0f} requests wait"
            )


def _source_failing(snapshot: FleetSnapshot) -> Iterator[Finding]:
    for source in snapshot.sources:
        if not source.ok:
            yield Finding(source.name, f"source {source.name} fails: {source.error or 'no answer'}")


_LIVE = (ReplicaState.OK, ReplicaState.HOT, ReplicaState.SATURATED)

RULES: tuple[Rule, ...] = (
    Rule("slo-missed", "critical", 60.0, _slo_missed),
    Rule("slo-burn", "critical", 60.0, _slo_burn),
    Rule("replica-down", "warning", 15.0, _replica_down),
    Rule("replica-stale", "warning", 30.0, _replica_stale),
    Rule("pool-saturated", "warning", 15.0, _pool_saturated),
    Rule("pool-empty", "critical", 30.0, _pool_empty),
    Rule("at-maximum", "warning", 60.0, _at_maximum),
    Rule("source-failing", "warning", 15.0, _source_failing),
)


@dataclass(frozen=True, slots=True)
class AlertBook:
    """The alerts of now, by rule and subject, and the silences in force."""

    items: Mapping[tuple[str, str], AlertView] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    resting: Mapping[str, float] = field(default_factory=dict)  # pool/replica being drained -> quiet until

    def views(self) -> tuple[AlertView, ...]:
        """Firing first, then silenced, then pending; oldest first within each."""
        order = {"firing": 0, "silenced": 1, "pending": 2}
        return tuple(sorted(self.items.values(), key=lambda a: (order[a.state], a.since, a.rule, a.subject)))

    def silenced(self, silence: Silence) -> AlertBook:
        """With one more silence; one for the same rule and subject is replaced."""
        kept = tuple(s for s in self.silences if (s.rule, s.subject) != (silence.rule, silence.subject))
        return replace(self, silences=(*kept, silence))

    def update(
        self, snapshot: FleetSnapshot, settings: AlertSettings, rules: Sequence[Rule] = RULES
    ) -> tuple[AlertBook, tuple[Change, ...]]:
        """The book after one more tick, and which alerts began or ceased to fire (silenced ones are not told)."""
        now = snapshot.at
        silences = tuple(s for s in self.silences if s.until > now)
        resting = _resting(self.resting, snapshot)
        quiet = (*silences, *(Silence(EVERY, name, until, DRAINED) for name, until in resting.items()))
        items: dict[tuple[str, str], AlertView] = {}
        changes: list[Change] = []
        for rule in rules:
            if rule.name in settings.muted:
                continue
            hold = settings.hold_s.get(rule.name, rule.hold_s)
            for subject, text in rule.find(snapshot):
                key = (rule.name, subject)
                before = self.items.get(key)
                since = before.since if before else now
                alert = _judged(AlertView(rule.name, subject, "pending", since, text, rule.severity), hold, quiet, now)
                items[key] = alert
                if alert.state == "firing" and (before is None or before.state != "firing"):
                    changes.append(Change(alert, True))
        blind = any(not s.ok for s in snapshot.sources)
        for key, before in self.items.items():
            if key in items or before.rule in settings.muted:
                continue
            if blind and not _present(snapshot, before.subject):
                items[key] = before
            elif before.state == "firing":
                changes.append(Change(before, False))
        return AlertBook(items, silences, resting), tuple(changes)


DRAINED = "maintenance (a drain)"


def _resting(before: Mapping[str, float], snapshot: FleetSnapshot) -> dict[str, float]:
    """Replicas that drain, or did a short while ago; one that serves again is as anybody else."""
    serving = {f"{r.pool}/{r.replica}" for r in snapshot.replicas if r.state in _LIVE}
    found = {name: until for name, until in before.items() if until > snapshot.at and name not in serving}
    for replica in snapshot.replicas:
        if replica.state is ReplicaState.DRAINING:
            found[f"{replica.pool}/{replica.replica}"] = snapshot.at + REST_S
    return found


def _judged(alert: AlertView, hold: float, silences: Sequence[Silence], now: float) -> AlertView:
    if now - alert.since < hold:
        return alert
    quiet = next((s for s in silences if s.covers(alert, now)), None)
    if quiet is None:
        return replace(alert, state="firing")
    return replace(alert, state="silenced", silenced_until=quiet.until, silenced_by=quiet.by)


def _present(snapshot: FleetSnapshot, subject: str) -> bool:
    pool, _, name = subject.partition("/")
    if any(s.name == subject for s in snapshot.sources):
        return True
    view = snapshot.pool(pool)
    if view is None:
        return False
    return not name or any(s.name == name for s in view.slos) or snapshot.replica(name) is not None
