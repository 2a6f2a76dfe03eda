"""How requests fared: the verdict over the whole run, and what a law may see of it, over windows.

A request is judged when it ends, and belongs to the minute in which it arrived. It must not know replicas. The trap: a
request that never ended was offered all the same; whatever is still open at the end has failed.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence as Ordered
from math import ceil

from opsconsole.simulate.outcome import RequestRow
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import SloBounds
from policies.situation import SloFacts

BIN_S = 60.0
WINDOW_S, SHORT_S, LONG_S = 60.0, 300.0, 3600.0  # the live loop's windows for attainment and the two burns
SMALLEST_BUDGET = 1e-6


def tpot_of(request: Sequence) -> float | None:
    """Seconds a token after the first; undefined below two tokens."""
    if request.first is None or request.last is None or request.output < 2:
        return None
    return (request.last - request.first) / (request.output - 1)


def percentile(values: Ordered[float], share: float) -> float | None:
    """Inverted CDF: a value that was seen."""
    if len(values) == 0:
        return None
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


class Score:
    """Counts everything that counts."""

    def __init__(self, bounds: SloBounds, since: float, rows: bool) -> None:
        self._bounds, self._since = bounds, since
        self.offered = self.met = self.failed = 0
        self.prompt_tokens = self.output_tokens = self.cached_tokens = 0
        self.ttfts: array[float] = array("d")
        self.tpots: array[float] = array("d")
        self._bins: dict[int, list[int]] = {}  # minute of arrival -> offered, met
        self._recent: deque[list[float]] = deque()  # start of a 10 s bin, ended, met: the last hour
        self._first_tokens: deque[tuple[float, float]] = deque()  # (when, ttft) of the last window
        self.rows: list[RequestRow] | None = [] if rows else None

    def offer(self, request: Sequence) -> None:
        if request.arrived < self._since:
            return
        self.offered += 1
        self.prompt_tokens += request.prompt
        self.output_tokens += request.output
        bin_ = self._bins.get(int(request.arrived // BIN_S))
        if bin_ is None:
            bin_ = self._bins[int(request.arrived // BIN_S)] = [0, 0]
        bin_[0] += 1

    def complete(self, request: Sequence, now: float) -> None:
        """It got its last token."""
        assert request.first is not None
        ttft, tpot = request.first - request.arrived, tpot_of(request)
        met = self._bounds.met(ttft, tpot)
        self._remember(now, met)
        if request.arrived >= self._since:
            self.ttfts.append(ttft)
            if tpot is not None:
                self.tpots.append(tpot)
            self.cached_tokens += request.cached or 0
            if met:
                self.met += 1
                self._bins[int(request.arrived // BIN_S)][1] += 1
        self._row(request, ttft, tpot, met)

    def fail(self, request: Sequence, now: float) -> None:
        """It was cut, refused, or given up."""
        self._remember(now, False)
        ttft = None if request.first is None else request.first - request.arrived
        if request.arrived >= self._since:
            self.failed += 1
            if ttft is not None:
                self.ttfts.append(ttft)
        self._row(request, ttft, None, False)

    def saw_first(self, request: Sequence) -> None:
        """A scrape found a new first token in the histogram."""
        assert request.first is not None
        self._first_tokens.append((request.first, request.first - request.arrived))

    def shortage_s(self, target: float) -> float:
        """Minutes whose arrivals met the bounds less often than the target, in seconds."""
        return BIN_S * sum(1 for offered, met in self._bins.values() if met < target * offered)

    def facts(self, now: float) -> SloFacts:
        """What the pool's counters say at a scrape."""
        bounds = self._bounds
        share = self._share(now, WINDOW_S)
        while self._first_tokens and self._first_tokens[0][0] < now - WINDOW_S:
            self._first_tokens.popleft()
        return SloFacts(
            target=bounds.target,
            attainment_low=share,
            attainment_high=share,
            burn_short=self._burn(now, SHORT_S),
            burn_long=self._burn(now, LONG_S),
            ttft=bounds.ttft,
            tpot=bounds.tpot,
            ttft_p95=percentile([ttft for _, ttft in self._first_tokens], 0.95),
        )

    def _remember(self, now: float, met: bool) -> None:
        start = now - now % 10.0
        if not self._recent or self._recent[-1][0] != start:
            self._recent.append([start, 0.0, 0.0])
            while self._recent[0][0] < now - LONG_S - 10.0:
                self._recent.popleft()
        self._recent[-1][1] += 1.0
        self._recent[-1][2] += met

    def _share(self, now: float, window: float) -> float | None:
        ended = met = 0.0
        for start, count, good in reversed(self._recent):
            if start < now - window:
                break
            ended += count
            met += good
        return met / ended if ended else None

    def _burn(self, now: float, window: float) -> float | None:
        share = self._share(now, window)
        return None if share is None else (1.0 - share) / max(SMALLEST_BUDGET, 1.0 - self._bounds.target)

    def _row(self, request: Sequence, ttft: float | None, tpot: float | None, met: bool) -> None:
        if self.rows is None or request.arrived < self._since:
            return
        e2e = None if request.last is None else request.last - request.arrived
        cached = request.cached or 0
        row = RequestRow(request.arrived, request.prompt, request.output, request.replica, cached, ttft, tpot, e2e, met)
        self.rows.append(row)
