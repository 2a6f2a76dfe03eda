"""How long pods take from created to ready, by phase, learned from the pods themselves: each bears its own stamps.

A pure fold, so a restart learns it again from the pods that stand. Kept apart by what they run (image and model), node
type and warmth: a node that ran the image before has it. The traps: a pod counts once however often it is looked at;
and a node that is being bought belongs to `schedule`, so a p90 of the whole is not the sum of p90s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opsconsole.cluster.pods import PodFacts

MOST = 50  # starts kept of each kind
PHASES = ("schedule", "pull", "load")


@dataclass(frozen=True, slots=True)
class Start:
    """One start, in seconds: until a node took it, until its container ran, until it was ready."""

    schedule: float
    pull: float
    load: float

    @property
    def total(self) -> float:
        return self.schedule + self.pull + self.load


@dataclass(frozen=True, slots=True)
class Span:
    """Quantiles of one phase, seconds."""

    p50: float
    p90: float
    count: int


class Kind(NamedTuple):
    """What starts are kept apart by."""

    runs: str  # image and model
    node_type: str | None  # None where nodes may not be read
    warm: bool  # the node had run the image before


class Like(NamedTuple):
    """Which kinds are meant; None means any."""

    runs: str
    node_type: str | None = None
    warm: bool | None = None

    def fits(self, kind: Kind) -> bool:
        return (
            kind.runs == self.runs
            and self.node_type in (None, kind.node_type)
            and (self.warm is None or self.warm == kind.warm)
        )


@dataclass(frozen=True, slots=True)
class StartTimes:
    """What was seen, by kind; pods already counted; nodes that have run an image."""

    starts: Mapping[Kind, tuple[Start, ...]] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    warm: frozenset[tuple[str, str]] = frozenset()  # (node, image)

    def learn(self, pods: Sequence[PodFacts]) -> StartTimes:
        """Take in every pod that became ready since the last look."""
        begun = [(p, start) for p in pods if p.uid not in self.counted and (start := _start(p)) is not None]
        if not begun:
            return self
        starts, warm = dict(self.starts), set(self.warm)
        for pod, start in sorted(begun, key=lambda pair: pair[0].running_at or 0.0):
            place = (pod.node or "", pod.image or "")
            kind = Kind(pod.runs, pod.node_type, place in warm)
            starts[kind] = (*starts.get(kind, ()), start)[-MOST:]
            warm.add(place)
        alive = {p.uid for p in pods}
        counted = frozenset(uid for uid in self.counted if uid in alive) | {p.uid for p, _ in begun}
        return StartTimes(starts, counted, frozenset(warm))

    def span(self, phase: str, like: Like) -> Span | None:
        """p50 and p90 of one phase, or of the `total`, over all starts of these kinds; None where none was seen."""
        kinds = [starts for kind, starts in self.starts.items() if like.fits(kind)]
        seen = [getattr(start, phase) for starts in kinds for start in starts]
        return _span(seen) if seen else None

    def by_node_type(self, runs: str) -> dict[str | None, Span]:
        """The total by node type, None being that of nodes whose type is not known."""
        totals: dict[str | None, list[float]] = {}
        for kind, starts in self.starts.items():
            if kind.runs == runs:
                totals.setdefault(kind.node_type, []).extend(start.total for start in starts)
        named = sorted(totals.items(), key=lambda item: (item[0] is None, item[0] or ""))
        return {node_type: _span(seen) for node_type, seen in named}

    def expected_ready_at(self, pod: PodFacts) -> float | None:
        """Unix seconds by which nine of ten pods as far as this one were ready; None where none was seen."""
        begun = pod.running_at or pod.scheduled_at or pod.created_at
        rest = PHASES[2:] if pod.running_at else PHASES[1:] if pod.scheduled_at else PHASES
        spans = [self._closest(phase, pod) for phase in rest]
        if begun is None or any(span is None for span in spans):
            return None
        return begun + sum(span.p90 for span in spans if span is not None)

    def _closest(self, phase: str, pod: PodFacts) -> Span | None:
        """The phase of starts most like this one: of its node type and warmth, else of what tells more about it.

        Whether the image is there tells most about pulling it; the machine tells most about loading weights.
        """
        warm = None if pod.node is None else (pod.node, pod.image or "") in self.warm
        by_machine, by_warmth = Like(pod.runs, pod.node_type), Like(pod.runs, warm=warm)
        closer = (by_warmth, by_machine) if phase == "pull" else (by_machine, by_warmth)
        tried = (Like(pod.runs, pod.node_type, warm), *closer, Like(pod.runs))
        return next((span for like in tried if (span := self.span(phase, like)) is not None), None)


def words(times: StartTimes, runs: str, unknown: str | None = None) -> str | None:
    """How long such starts took, by node type and phase, and pulling by warmth; None where none was seen.

    `62 s on p5.48xlarge (p90 of 5; schedule 1 to 2 s, pull 20 to 31 s, 3 s where the image was, load 25 to 29 s)`, from
    p50 to p90. `unknown` says why node types are not known, where that is so.
    """
    told = []
    for node_type, span in times.by_node_type(runs).items():
        where = f" on {node_type}" if node_type else f" on nodes of unknown type, as {unknown}" if unknown else ""
        phases = ", ".join(f"{phase} {_phase_words(times, phase, runs, node_type)}" for phase in PHASES)
        told.append(f"{span.p90:.0f} s{where} (p90 of {span.count}; {phases})")
    return ", ".join(told) or None


def _phase_words(times: StartTimes, phase: str, runs: str, node_type: str | None) -> str:
    """One phase on nodes of exactly this type."""
    kinds = [kind for kind in times.starts if (kind.runs, kind.node_type) == (runs, node_type)]
    seen = {
        warm: [getattr(start, phase) for kind in kinds if kind.warm == warm for start in times.starts[kind]]
        for warm in (False, True)
    }
    if phase == "pull" and all(seen.values()):
        return f"{_range_words(_span(seen[False]))}, {_range_words(_span(seen[True]))} where the image was"
    return _range_words(_span([*seen[False], *seen[True]]))


def _range_words(span: Span) -> str:
    low, high = f"{span.p50:.0f}", f"{span.p90:.0f}"
    return f"{high} s" if low == high else f"{low} to {high} s"


def _span(seen: Sequence[float]) -> Span:
    ordered = sorted(seen)
    return Span(_quantile(ordered, 0.5), _quantile(ordered, 0.9), len(ordered))


def _start(pod: PodFacts) -> Start | None:
    stamps = (pod.created_at, pod.scheduled_at, pod.running_at, pod.ready_at)
    if not pod.ready or any(at is None for at in stamps):
        return None
    created, scheduled, running, ready = (at or 0.0 for at in stamps)
    # A pod that fell and came back bears the stamps of its newest life only: no cold start can be read from it.
    if pod.restarts or not created <= scheduled <= running <= ready:
        return None
    return Start(scheduled - created, running - scheduled, ready - running)


def _quantile(ordered: Sequence[float], level: float) -> float:
    return ordered[min(len(ordered) - 1, max(0, math.ceil(level * len(ordered)) - 1))]
