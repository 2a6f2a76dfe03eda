"""What a set of cells says of our law against the others: GPU-hours at equal attainment, and what was promised.

Pure arithmetic on finished cells. The trap: a comparison with the best law in hindsight lets the rival choose its knob
after the fact and its law after that; ours gives its knob the same freedom and its law none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opsconsole.simulate.pareto import cost_at
from opsconsole.simulate.report import Table
from opsconsole.simulate.sweep import HINDSIGHT

OURS, REACTIVE = "predictive", "reactive"
NOT_RUN = "not run yet"


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of one load; None: nothing. Gains are shares of the rival's hours."""

    least_published: float | None = 0.15
    least_swept: float | None = 0.05
    most_times_oracle: float | None = 1.8  # at a start of 300 s
    most_reactive: float | None = None  # where the forecast must win nothing

    @property
    def is_of_rivals(self) -> bool:
        return self.least_published is not None or self.least_swept is not None


LLM = Promise()
SEASONAL = Promise(least_swept=0.15, most_times_oracle=None)  # what repeats can be known, however steep it is
CONTROL = Promise(None, None, None, 0.05)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One trace at one start. Hours are GPU-hours at the target; gains are shares of the rival's hours."""

    trace: str
    cold_s: float
    target: float
    ours: float | None  # None where no value of its knob reached the target, or none was run yet
    was_run: bool  # ours
    published_law: str | None  # the cheapest that meets the target as published
    published: float | None
    published_attained: float | None
    swept_law: str | None  # the cheapest at the target with its own knob turned in hindsight
    swept: float | None
    reactive: float | None
    oracle: float | None
    oracle_attained: float | None
    promise: Promise = LLM
    ran: tuple[str, ...] = ()  # laws, ours among them
    pending: tuple[str, ...] = ()  # laws still to be run

    @property
    def has_rivals(self) -> bool:
        return bool(set(self.ran) - HINDSIGHT - {OURS, REACTIVE})

    @property
    def is_whole(self) -> bool:
        """Everything that the promise speaks of was run, so that keeping it means something."""
        promise, at_300 = self.promise, self.cold_s == 300.0
        return (
            self.was_run
            and not self.pending
            and (self.has_rivals or not promise.is_of_rivals)
            and ("oracle" in self.ran or promise.most_times_oracle is None or not at_300)
            and (REACTIVE in self.ran or promise.most_reactive is None)
        )

    @property
    def gain_published(self) -> float | None:
        return _gain(self.ours, self.published)

    @property
    def gain_swept(self) -> float | None:
        return _gain(self.ours, self.swept)

    @property
    def gain_reactive(self) -> float | None:
        """What the forecast itself is worth: against the same law without it."""
        return _gain(self.ours, self.reactive)

    @property
    def times_oracle(self) -> float | None:
        return self.ours / self.oracle if self.ours is not None and self.oracle else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "gain_published": self.gain_published,
            "gain_swept": self.gain_swept,
            "gain_reactive": self.gain_reactive,
            "times_oracle": self.times_oracle,
        }


def judge(table: Table, promise: Promise = LLM) -> Verdict:
    target = table.slo.target
    rivals = [c for c in table.cells if c.policy not in HINDSIGHT | {OURS, REACTIVE}]
    met = [c for c in rivals if c.knob is None and c.point.attainment >= target]
    best = min(met, key=lambda c: c.point.gpu_hours, default=None)
    costs = {
        name: cost_at([c.point for c in rivals if c.policy == name], target).gpu_hours
        for name in dict.fromkeys(c.policy for c in rivals)
    }
    known = {name: hours for name, hours in costs.items() if hours is not None}
    swept = min(known, key=lambda name: known[name], default=None)
    oracle = next((c.point for c in table.cells if c.policy == "oracle"), None)
    return Verdict(
        trace=table.trace,
        cold_s=table.cold_s,
        target=target,
        ours=_cost(table, OURS),
        was_run=any(c.policy == OURS for c in table.cells),
        published_law=None if best is None else best.policy,
        published=None if best is None else best.point.gpu_hours,
        published_attained=None if best is None else best.point.attainment,
        swept_law=swept,
        swept=None if swept is None else known[swept],
        reactive=_cost(table, REACTIVE),
        oracle=None if oracle is None else oracle.gpu_hours,
        oracle_attained=None if oracle is None else oracle.attainment,
        promise=promise,
        ran=tuple(dict.fromkeys(c.policy for c in table.cells)),
        pending=table.pending,
    )


def _cost(table: Table, name: str) -> float | None:
    return cost_at([c.point for c in table.cells if c.policy == name], table.slo.target).gpu_hours


def _gain(ours: float | None, theirs: float | None) -> float | None:
    return 1.0 - ours / theirs if ours is not None and theirs else None


COLUMNS = (
    "trace", "start", "ours GPU-h", "x oracle", "best published", "gain", "best swept", "gain", "reactive", "gain",
)  # fmt: skip


def rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """The summary, a line a trace and start."""
    return [
        (
            v.trace,
            f"{v.cold_s:g} s",
            _hours(v.ours) if v.was_run else NOT_RUN,
            "-" if v.times_oracle is None else f"{v.times_oracle:.2f}",
            _named(v, v.published_law, v.published),
            _percent(v.gain_published),
            _named(v, v.swept_law, v.swept),
            _percent(v.gain_swept),
            _hours(v.reactive) if REACTIVE in v.ran else NOT_RUN,
            _percent(v.gain_reactive),
        )
        for v in verdicts
    ]


def missed(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Where a promise is not kept, in words; empty when all are."""
    found = []
    for v in verdicts:
        where = f"{v.trace} at {v.cold_s:g} s"
        if not v.was_run:
            continue
        if v.ours is None:
            found.append(f"{where}: our law reached {100 * v.target:g} % at no value of its knob")
            continue
        found += [f"{where}: {words}" for words in _broken(v)]
    return tuple(found)


def _broken(v: Verdict) -> Iterator[str]:
    promise = v.promise
    for gain, least, law, how in (
        (v.gain_published, promise.least_published, v.published_law, "as published"),
        (v.gain_swept, promise.least_swept, v.swept_law, "swept"),
    ):
        if gain is not None and least is not None and gain < least:
            yield f"{_percent(gain)} against {law} {how}, {100 * least:g} % promised"
    most = promise.most_times_oracle
    if most is not None and v.cold_s == 300.0 and v.times_oracle is not None and v.times_oracle > most:
        yield f"{v.times_oracle:.2f} times the clairvoyant schedule, {most:g} promised"
    most = promise.most_reactive
    if most is not None and v.gain_reactive is not None and v.gain_reactive > most:
        yield f"the forecast wins {_percent(v.gain_reactive)} where nothing can be known"


def _hours(hours: float | None) -> str:
    return "never" if hours is None else f"{hours:,.0f}"


def _named(v: Verdict, law: str | None, hours: float | None) -> str:
    if law is not None:
        return f"{law} {_hours(hours)}"
    if v.has_rivals:
        return "none meets it"
    return NOT_RUN if v.promise.is_of_rivals else "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.1f} %"
