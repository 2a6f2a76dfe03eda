"""What is remembered of one replica between ticks: its counters and histograms made monotone, over one window.

It must not judge or show anything. Restarts are folded in on arrival, so that a rate is one subtraction and not a walk;
of pages that come every second one in five is kept, which makes a window a twelfth shorter at most. The trap: a
histogram whose layout changes (an upgrade, a flag) starts a new era; points of the old era are not comparable and are
never mixed in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, lt
from typing import NamedTuple

from opsconsole.domain.counters import Counter, Point, advanced, alternates, increase, is_same, restarted
from opsconsole.domain.histogram import add, discard_reason, observed_between
from opsconsole.domain.ranks import Standing, stood
from opsconsole.domain.records import Buckets, Sample

COUNTERS = (
    "preemptions",
    "prompt_tokens",
    "prompt_tokens_computed",
    "output_tokens",
    "requests_started",
    "requests_finished",
    "requests_failed",
    "requests_rejected",
    "prefix_hits",
    "prefix_queries",
)
ARRIVING = frozenset({"requests_started", "requests_rejected"})  # counted in front of an engine that hangs, too
OUTCOME = "slo:"
HISTOGRAMS = ("ttft", "tpot", "itl", "e2e", "queue_time")
GRAIN = 12  # marks to a window, beside the newest


class Mark(NamedTuple):
    """One page, reduced: monotone totals by name, gauges that demand needs, and histograms as read."""

    at: float
    totals: Mapping[str, float]
    queue: float | None  # waiting
    inside: float | None  # waiting + running
    histograms: Mapping[str, tuple[int, Buckets]]  # (era, monotone buckets)
    tells_outcomes: bool = False  # the joint counters were on the page, even if none had counted yet


@dataclass(frozen=True, slots=True)
class Track:
    """One replica's history over the window, oldest first."""

    marks: tuple[Mark, ...] = ()
    sample: Sample | None = None  # newest good page
    counters: Mapping[str, Counter] = field(default_factory=dict)
    bases: Mapping[str, tuple[int, Buckets | None]] = field(default_factory=dict)  # era, what earlier processes counted
    starts: tuple[float, ...] = ()  # process starts seen, newest last
    still_since: float | None = None
    still_pages: int = 0
    ranks: Mapping[str, Standing] = field(default_factory=dict)  # only where a page tells several
    # what `window` has worked out: a tick asks three times for the same
    windows: dict[tuple[str, float], Buckets | None] = field(default_factory=dict, compare=False, repr=False)

    def extend(self, sample: Sample, keep_s: float) -> Track:
        """Fold one page in. A page no newer than the last one is the same page seen twice and changes nothing."""
        last = self.sample
        if last is not None and sample.at <= last.at:
            return self
        again = last is not None and restarted(last.process_start, sample.process_start)
        same = last is not None and is_same(last.process_start, sample.process_start)
        counters = dict(self.counters)
        told = last is not None and last.slo_outcomes is not None
        totals: dict[str, float] = {}
        for name, value in _told(sample):
            # An outcome that first appears while others were already told has counted from zero: its rise is real.
            known = counters.get(name) or (Counter(0.0, 0.0) if told and name.startswith(OUTCOME) else None)
            folded = counters[name] = advanced(known, value, restart=again, same=same)
            totals[name] = folded.total
        bases, histograms = self._histograms(sample, again)
        mark = Mark(sample.at, totals, sample.waiting, _inside(sample), histograms, sample.slo_outcomes is not None)
        since, pages = self._stillness(sample, totals)
        ranks = stood(self.ranks, sample) if sample.ranks else _NO_RANKS
        return Track(self._marks(mark, keep_s), sample, counters, bases, self._starts(sample), since, pages, ranks)

    @property
    def conflict(self) -> str | None:
        """Why this replica's counters cannot be believed."""
        if alternates(self.starts):
            return "two processes answer behind one address (process start alternates): counters are unusable"
        return None

    def amount(self, name: str, since: float) -> tuple[float, float] | None:
        """(increase, seconds) of one counter since an instant."""
        if name not in self.counters:
            return None  # never told: no need to walk
        first = self._oldest(since)
        if first is None:
            return None
        last = self.marks[-1]
        begun, ended = first.totals.get(name), last.totals.get(name)
        if begun is None or ended is None:
            return increase(self._ends(since, lambda m: m.totals.get(name)))
        return (ended - begun, last.at - first.at) if last.at > first.at else None

    def spanned(self, since: float) -> float:
        """Seconds between the oldest and the newest page since an instant; 0 with fewer than two."""
        first = self._oldest(since)
        return 0.0 if first is None else self.marks[-1].at - first.at

    def rate(self, name: str, since: float) -> float | None:
        found = self.amount(name, since)
        return None if found is None else found[0] / found[1]

    def window(self, name: str, since: float) -> Buckets | None:
        """What a histogram observed since an instant; None with fewer than two comparable pages, or when unsound."""
        key = (name, since)
        if key not in self.windows:
            if len(self.windows) >= _WORKED_OUT:
                self.windows.clear()
            self.windows[key] = self._window(name, since)
        return self.windows[key]

    def _window(self, name: str, since: float) -> Buckets | None:
        newest = next((m.histograms[name] for m in reversed(self.marks) if name in m.histograms), None)
        if newest is None:
            return None
        for mark in self._from(since):
            oldest = mark.histograms.get(name)
            if oldest is not None and oldest[0] == newest[0]:
                return None if oldest is newest else observed_between(oldest[1], newest[1])
        return None

    def outcomes(self, since: float) -> dict[str, float] | None:
        """Requests by "class/met" and "class/missed" since an instant; None where the joint counters are not told."""
        told = [m for m in self._from(since) if m.tells_outcomes]
        if len(told) < 2:
            return None
        first, last = told[0].totals, told[-1].totals
        names = (name for name in last if name.startswith(OUTCOME))
        return {name.removeprefix(OUTCOME): last[name] - first.get(name, 0.0) for name in names}

    def growth(self, since: float) -> float | None:
        """Requests a second by which the queue grew."""
        return _slope(self._ends(since, lambda m: m.queue))

    def _marks(self, newest: Mark, keep_s: float) -> tuple[Mark, ...]:
        """The marks with one more, without those too old: the first of every grain of time, so that a replay which
        begins in the middle keeps the same ones, and the last two, of which is asked what happened since a page."""
        kept = self.marks[bisect_left(self.marks, newest.at - keep_s, key=_time) :]
        if len(kept) > 2 and (grain := keep_s / GRAIN) and kept[-2].at // grain == kept[-3].at // grain:
            kept = (*kept[:-2], kept[-1])
        return (*kept, newest)

    def _oldest(self, since: float) -> Mark | None:
        """The oldest mark not older than an instant."""
        marks = self.marks
        if marks and marks[0].at >= since:
            return marks[0]  # nearly always: older ones are not kept
        return next(self._from(since), None)

    def _from(self, since: float) -> Iterator[Mark]:
        """The marks not older than an instant."""
        return islice(self.marks, bisect_left(self.marks, since, key=_time), None)

    def _ends(self, since: float, value: Callable[[Mark], float | None]) -> tuple[Point, Point] | None:
        """The oldest and the newest known value inside the window: a subtraction needs no more."""
        for first in self._from(since):
            begun = value(first)
            if begun is not None:
                break
        else:
            return None
        for last in reversed(self.marks):
            ended = value(last)
            if ended is not None:
                break
        return Point(first.at, begun), Point(last.at, ended or 0.0)

    def arrivals(self, since: float) -> float | None:
        """Requests arriving a second: started + change of waiting + rejected, never completions alone."""
        started = self.rate("requests_started", since)
        if started is not None:
            change = self.growth(since)
        else:
            started = self.rate("requests_finished", since)
            change = _slope(self._ends(since, lambda m: m.inside))
        if started is None:
            return None
        return max(0.0, started + (change or 0.0) + (self.rate("requests_rejected", since) or 0.0))

    def _histograms(
        self, sample: Sample, again: bool
    ) -> tuple[dict[str, tuple[int, Buckets | None]], dict[str, tuple[int, Buckets]]]:
        bases, seen = dict(self.bases), {}
        previous = self.sample
        for name in HISTOGRAMS:
            now: Buckets | None = getattr(sample, name)
            if now is None or discard_reason(now):
                continue
            era, base = bases.get(name, (0, None))
            old: Buckets | None = None if previous is None else getattr(previous, name)
            if old is not None and old.bounds != now.bounds:
                era, base = era + 1, None
            elif old is not None and (again or any(map(lt, now.counts, old.counts))):
                base = old if base is None else add(base, old)
            bases[name] = (era, base)
            seen[name] = (era, now if base is None else add(base, now))
        return bases, seen

    def _starts(self, sample: Sample) -> tuple[float, ...]:
        start = sample.process_start
        if start is None or (self.starts and not restarted(self.starts[-1], start)):
            return self.starts
        return (*self.starts, start)[-8:]

    def _stillness(self, sample: Sample, totals: Mapping[str, float]) -> tuple[float | None, int]:
        """Since when load gauges are above zero while no counter moves that takes a step of the engine."""
        if not self.marks or not ((sample.waiting or 0) > 0 or (sample.running or 0) > 0):
            return None, 0
        before, counted = self.marks[-1].totals, False
        for name, value in totals.items():
            if name in ARRIVING:
                continue
            if before.get(name) != value:
                return None, 0
            counted = True
        if not counted:
            return None, 0
        return (self.marks[-1].at if self.still_since is None else self.still_since), self.still_pages + 1


_time = attrgetter("at")
_NO_RANKS: Mapping[str, Standing] = {}
_WORKED_OUT = 64  # a replica that is silent has no new track for days, and every tick asks for another window


def _slope(ends: tuple[Point, Point] | None) -> float | None:
    if ends is None or ends[1].at <= ends[0].at:
        return None
    return (ends[1].total - ends[0].total) / (ends[1].at - ends[0].at)


def outcome(name: str) -> str:
    """The counter's name of one joint SLO outcome, such as "chat/met"."""
    return OUTCOME + name


def _told(sample: Sample) -> Iterator[tuple[str, float]]:
    """The counters on a page, by name."""
    for name, value in zip(COUNTERS, _counters(sample), strict=True):
        if value is not None:
            yield name, value
    for name, value in (sample.slo_outcomes or {}).items():
        yield outcome(name), value


_counters = attrgetter(*COUNTERS)


def _inside(sample: Sample) -> float | None:
    return None if sample.waiting is None or sample.running is None else sample.waiting + sample.running
