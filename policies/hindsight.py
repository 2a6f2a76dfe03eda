"""What each quantile of the forecast would have bought, against the load that came: a backtest that runs along.

A pure fold, kept in Memory. Every fifth of a lead it notes how many replicas each of a few levels wants, and plays the
law for each of them: what is wanted is there one lead later, what was wanted within the down-window is kept, nothing
goes that the load still packs. What came is then held against it. It must not know the forecaster. The traps: a minute
that nobody read is not judged; and what is remembered must not grow, so levels are few and sums fade.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from policies import headroom
from policies.capacity import INSIDE
from policies.limits import bounds
from policies.memory import Memory, Row
from policies.picture import Picture
from policies.quantile import Choice, Trial, choose, prior
from policies.wording import fine_percent, number

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.9925, 0.995)
EVERY = 0.2  # leads between two readings: within a lead two decisions share most of their future
HALF_LIFE = 1000.0  # leads: 3.5 days at 300 s
PRIOR = 100.0  # leads of evidence that weigh as much as the prior
PRIOR_MISS = 0.8  # of what lies above a level is missed, before there is evidence; as on two LLM traces
SPARE = 0.9  # of the misses the target allows, what a cheaper level may use before it is taken
WANTED, TALLY, LEVEL, LOAD, LIVED = "level-wanted", "level-tally", "level", "level-load", "level-lived"
MOST_OFF = 2.0  # times more or fewer misses than reckoned that what was measured may say

# Of a level: how many must be started now, and how many are needed within the leads in which none is given back.
Wants = Callable[[float], tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Tally:
    """How one level has fared. Sums fade; demand in replicas' worth times seconds."""

    level: float
    span_s: float = 0.0
    offered: float = 0.0
    met: float = 0.0
    held: float = 0.0  # replica-seconds
    backlog: float = 0.0  # replica-seconds of load that wait now

    def after(self, worth: float, held: float, passed_s: float, keep: float) -> Tally:
        """One more stretch of even load on `held` replicas; whoever waits, or is served beyond the limit, misses."""
        limit = held / INSIDE
        backlog = max(0.0, self.backlog + (worth - limit) * passed_s)
        met = 0.0
        if self.backlog <= 0.0 and backlog <= 0.0:
            met = 1.0 if worth <= held else (limit - worth) / (limit - held)
        return Tally(
            self.level,
            self.span_s * keep + passed_s,
            self.offered * keep + worth * passed_s,
            self.met * keep + met * worth * passed_s,
            self.held * keep + held * passed_s,
            backlog,
        )

    @property
    def missed(self) -> float:
        """Share of what was offered."""
        return 1.0 - self.met / self.offered if self.offered > 0 else PRIOR_MISS * (1.0 - self.level)

    def trial(self, prior_s: float, times: float = 1.0) -> Trial:
        """As a backtest's result, with `times` the misses reckoned, blended with the prior."""
        missed = min(1.0, times * self.missed)
        attained = 1.0 - (self.span_s * missed + prior_s * PRIOR_MISS * (1.0 - self.level)) / (self.span_s + prior_s)
        return Trial(self.level, attained, self.held / self.span_s if self.span_s > 0 else 0.0)


def in_force(memory: Memory, target: float) -> Choice:
    """The level that was chosen last for this target, and why; the prior where none was."""
    told = memory.series(LEVEL)
    if not told or told[0][1] != target:
        return prior(target, LEVELS)
    _, _, level, attained, held, span = told[0]
    if span <= 0:
        return prior(target, LEVELS)
    return Choice(
        level,
        f"{fine_percent(level)} as the cheapest for a target of {fine_percent(target)}: in {number(span / 60)} min of "
        f"backtest {fine_percent(attained)} with {number(held)} replicas",
    )


def learn(picture: Picture, memory: Memory, wants: Wants, target: float) -> Memory:
    """Fold one decision in. If a reading is due: judge every level by what came, note what each wants, choose."""
    situation, now = picture.situation, picture.situation.now
    mean, memory = _load(picture, memory)
    rows = memory.series(WANTED)
    every = max(situation.interval_s, EVERY * picture.lead_s)
    if mean is None or (rows and now - rows[-1][0] < every - 1e-6):
        return memory
    memory = memory.with_rows(LOAD, ())
    tallies = _tallies(memory)
    passed = now - rows[-1][0] if rows else math.inf
    if passed > 3 * every:
        rows = ()
    elif rows[0][0] <= now - picture.lead_s + 1e-6:
        keep = 0.5 ** (passed / (HALF_LIFE * picture.lead_s))
        held = [_held(rows, now, picture, place) for place in range(len(LEVELS))]
        place = LEVELS.index(in_force(memory, target).level)
        before = tallies[place]
        tallies = tuple(t.after(mean, h, passed, keep) for t, h in zip(tallies, held, strict=True))
        memory = memory.with_rows(TALLY, tuple(_row(now, t) for t in tallies))
        memory = _lived(picture, memory, before, tallies[place], keep)
        usual = tallies[place].offered / tallies[place].span_s
        weight = mean / usual if usual > 0 else 1.0
        spent = place == len(LEVELS) - 1 or times(memory, target, PRIOR * picture.lead_s) >= MOST_OFF
        memory = headroom.learn(picture, memory, passed / picture.lead_s, weight, spent)
    fresh = tuple(_wanted(rows, picture, place, wants(level), mean) for place, level in enumerate(LEVELS))
    kept = picture.lead_s + situation.limits.stabilise_down_s + every
    rows = (*(row for row in rows if row[0] >= now - kept), (now, *fresh))
    return _choose(memory.with_rows(WANTED, rows), tallies, target, picture)


def _load(picture: Picture, memory: Memory) -> tuple[float | None, Memory]:
    """Mean demand since the last reading, in replicas' worth: a reading's own noise is not what replicas are for."""
    worth = picture.worth()
    before = memory.series(LOAD)
    total, count = before[0][1:] if before else (0.0, 0.0)
    if worth is not None:
        total, count = total + worth, count + 1.0
        memory = memory.with_rows(LOAD, ((picture.situation.now, total, count),))
    return (total / count if count else None), memory


def _wanted(rows: tuple[Row, ...], picture: Picture, place: int, told: tuple[int, float], worth: float) -> float:
    """What the law would have wanted at this level: to start, to keep of what it has, and to serve what is here."""
    start, soon = told
    limit = bounds(picture.situation)
    window = picture.situation.limits.stabilise_down_s
    before = max((row[1 + place] for row in rows if row[0] >= picture.situation.now - window), default=0.0)
    packed = worth / picture.situation.thresholds.packed
    keep = min(before, math.ceil(max(soon, packed) - 1e-9))
    found = max(start, keep, math.ceil(worth - 1e-9))
    return float(max(limit.minimum, min(limit.maximum, found)))


def _held(rows: tuple[Row, ...], now: float, picture: Picture, place: int) -> float:
    """Replicas that serve at this level: the fewest the law stood by since one lead ago, for the rest still start."""
    window = picture.situation.limits.stabilise_down_s
    since = now - picture.lead_s
    first = max(row[0] for row in rows if row[0] <= since + 1e-6)
    stood = (
        max(before[1 + place] for before in rows if row[0] - window <= before[0] <= row[0])
        for row in rows
        if row[0] >= first
    )
    return min(stood)


def _lived(picture: Picture, memory: Memory, before: Tally, after: Tally, keep: float) -> Memory:
    """What the level in force is reckoned to have missed, and what the fleet was measured to have missed meanwhile."""
    slo = picture.situation.slo
    if slo.attainment_low is None or slo.attainment_high is None:
        return memory
    rows = memory.series(LIVED)
    span, total, reckoned, measured = rows[0][1:] if rows else (0.0, 0.0, 0.0, 0.0)
    offered, met = after.offered - keep * before.offered, after.met - keep * before.met
    missed = offered * (1.0 - (slo.attainment_low + slo.attainment_high) / 2)
    passed = after.span_s - keep * before.span_s
    sums = (span * keep + passed, total * keep + offered, reckoned * keep + offered - met, measured * keep + missed)
    return memory.with_rows(LIVED, ((picture.situation.now, *(round(value, 3) for value in sums)),))


def times(memory: Memory, target: float, prior_s: float) -> float:
    """How many times the reckoned misses were measured; 1 without evidence, and within bounds with it."""
    rows = memory.series(LIVED)
    if not rows or rows[0][2] <= 0:
        return 1.0
    _, span, total, reckoned, measured = rows[0]
    prior = prior_s / (span + prior_s) * (1.0 - target)
    share = span / (span + prior_s) / total
    return min(MOST_OFF, max(1.0 / MOST_OFF, (measured * share + prior) / (reckoned * share + prior)))


def _choose(memory: Memory, tallies: tuple[Tally, ...], target: float, picture: Picture) -> Memory:
    """The cheapest level that holds the target; a cheaper one than is in force must hold it with something to spare."""
    prior_s = PRIOR * picture.lead_s
    factor = times(memory, target, prior_s)
    trials = [tally.trial(prior_s, factor) for tally in tallies]
    now_at = in_force(memory, target).level
    level = choose(trials, target).level
    if level < now_at:
        level = min(now_at, choose(trials, 1.0 - SPARE * (1.0 - target)).level)
    trial = next(t for t in trials if t.level == level)
    span = tallies[0].span_s
    row = (picture.situation.now, target, level, round(trial.attainment, 5), round(trial.replica_hours, 3), round(span))
    return memory.with_rows(LEVEL, (row,))


def _tallies(memory: Memory) -> tuple[Tally, ...]:
    """As remembered, one a level; fresh where the levels are no longer those."""
    found = tuple(Tally(*row[1:]) for row in memory.series(TALLY))
    return found if tuple(t.level for t in found) == LEVELS else tuple(Tally(level) for level in LEVELS)


def _row(now: float, tally: Tally) -> Row:
    sums = (tally.span_s, tally.offered, tally.met, tally.held, tally.backlog)
    return (now, tally.level, *(round(value, 3) for value in sums))
