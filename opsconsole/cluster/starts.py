"""How long pods take from created to ready, by phase, learned from the pods themselves: each bears its own stamps.

A pure fold, so a restart learns it again from the pods that stand. Kept apart by image, node kind and warmth: a node
that ran the image before has it. The traps: a pod counts once however often it is looked at; and a node that is being
bought belongs to `schedule`, so a p90 of the whole is not the sum of p90s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


Kind = tuple[str, bool]  # image, and whether the node had run it before


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
            kind = (pod.image or "", place in warm)
            starts[kind] = (*starts.get(kind, ()), start)[-MOST:]
            warm.add(place)
        alive = {p.uid for p in pods}
        counted = frozenset(uid for uid in self.counted if uid in alive) | {p.uid for p, _ in begun}
        return StartTimes(starts, counted, frozenset(warm))

    def span(self, phase: str, image: str, warm: bool | None = None) -> Span | None:
        """p50 and p90 of one phase, or of the `total`; `warm` None takes both kinds together."""
        kinds = [(image, w) for w in (True, False) if warm is None or w == warm]
        seen = sorted(getattr(start, phase) for kind in kinds for start in self.starts.get(kind, ()))
        return None if not seen else Span(_quantile(seen, 0.5), _quantile(seen, 0.9), len(seen))

    def expected_ready_at(self, pod: PodFacts) -> float | None:
        """Unix seconds by which nine of ten pods as far as this one were ready; None where none was seen."""
        image = pod.image or ""
        warm = None if pod.node is None else (pod.node, image) in self.warm
        begun = pod.running_at or pod.scheduled_at or pod.created_at
        rest = PHASES[2:] if pod.running_at else PHASES[1:] if pod.scheduled_at else PHASES
        spans = [self.span(phase, image, warm) or self.span(phase, image) for phase in rest]
        if begun is None or any(span is None for span in spans):
            return None
        return begun + sum(span.p90 for span in spans if span is not None)


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
