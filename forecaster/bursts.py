"""Bursts that start on a clock: the grid they start on, how likely the next start is, and what follows a start.

Cron jobs, crawls and batch queues start on a grid (each half hour, say) without starting every time. The grid is found
from past starts; the chance of a start comes from the time since the last one and from the time of day; what follows is
taken from earlier bursts that looked like this one. Off the grid a burst need not be provided for, which is what makes
the upper quantiles cheap. Trap: a step that stays up is no burst; it is dropped when it has lasted two hours.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

START_RATIO, END_RATIO = 1.6, 1.25  # to the trailing hour's median
GRIDS_MIN = (10, 15, 20, 30, 60, 90, 120, 180, 240, 360, 480, 720, 1440)
LONGEST_MIN = 120.0
KEPT = 32  # bursts whose course is remembered
STARTS = 400
CALM_POINTS = np.array([0.001, 0.0025, 0.005, 0.01, 0.025, *np.arange(0.05, 0.96, 0.05), 0.975, 0.99, 0.995, 0.9975,
                        0.999])  # fmt: skip
CALM_WEIGHTS = np.gradient(CALM_POINTS) / np.gradient(CALM_POINTS).sum()
LIKE = 0.12  # how near, in log ratio, an earlier burst must have been to count fully


class Bursts:
    """Quantiles of the rate at each lead as a mixture of calm and burst; silent until a grid is found."""

    def __init__(self, leads: NDArray[np.int64], minutes: float) -> None:
        self._leads = leads
        self._minutes = minutes
        self._day = max(2, round(1440 / minutes))
        self._grids = sorted({round(g / minutes) for g in GRIDS_MIN if g / minutes >= 5})
        self._wide = max(1, round(1 / minutes))  # starts this many steps apart are at the same minute
        self._longest = max(3, round(LONGEST_MIN / minutes))
        self._reach = int(leads.max()) + 2
        self._gain = 1 - 0.5 ** (minutes / 3.0)
        self._hour = max(5, round(60 / minutes))
        self._starts: deque[int] = deque(maxlen=STARTS)
        self._courses: deque[Floats] = deque(maxlen=KEPT)
        self._open: list[float] = []  # ratios since the start of the burst that runs
        self._tail: list[tuple[int, list[float]]] = []  # courses still being recorded
        self._calm = 0.0
        self._calm_at = np.zeros(self._reach)
        self._errors = np.full((leads.size, 1440), np.nan)
        self._filled = np.zeros(leads.size, dtype=np.int64)
        self._calm_table = np.zeros((leads.size, CALM_POINTS.size))
        self._n = 0
        self._base = 0.0
        self.grid: int | None = None  # steps
        self._first = 0  # a step at which a cycle of the grid begins
        self._where: Floats = np.zeros(1)  # [grid] share of starts at each position of the cycle
        self._by_gap, self._by_slot = np.zeros((2, 1)), np.zeros((2, 1))

    def observe(self, rate: float | None, base: float | None) -> None:
        """One step on; `base` is the trailing hour's median, unknown while there is none."""
        n = self._n
        self._n += 1
        if rate is None or base is None or base <= 0:
            self._open = []
            return
        self._base = base
        ratio = rate / base
        self._follow(n, ratio)
        if not self._open:
            if self._calm <= 0:
                self._calm = rate
            self._learn_calm(n, rate)
            self._calm += self._gain * (rate - self._calm)
        self._calm_at[n % self._reach] = self._calm
        if n % self._hour == 0:
            self._refresh()

    def _follow(self, n: int, ratio: float) -> None:
        """Track the burst that runs, and keep recording the courses of those that ran."""
        if self._open:
            if ratio < END_RATIO:
                self._open = []
            elif len(self._open) > self._longest:
                self._open = []
                if self._starts:
                    self._starts.pop()
            else:
                self._open.append(ratio)
        elif ratio > START_RATIO:
            self._open = [ratio]
            self._starts.append(n)
            self._tail.append((n, []))
        for _, course in self._tail:
            course.append(ratio)
        while self._tail and len(self._tail[0][1]) >= self._reach + 40:
            begun, course = self._tail.pop(0)
            if begun in self._starts:
                self._courses.append(np.array(course))

    def _learn_calm(self, n: int, rate: float) -> None:
        for i, lead in enumerate(self._leads):
            before = self._calm_at[(n - int(lead)) % self._reach] if n >= lead else 0.0
            if before > 0 and rate > 0:
                self._errors[i, self._filled[i] % 1440] = math.log(rate / before)
                self._filled[i] += 1

    def _refresh(self) -> None:
        """Once an hour: the grid, the tables of chances, and the calm errors' quantiles."""
        self.grid = None
        for i, filled in enumerate(np.minimum(self._filled, 1440)):
            if filled >= 60:
                self._calm_table[i] = np.quantile(self._errors[i, :filled], CALM_POINTS)
        if len(self._starts) < 6 or len(self._courses) < 4:
            return
        found = find_grid(np.array(self._starts), self._grids, self._wide)
        if found is not None:
            self.grid, mode = found
            self._first = mode - self.grid // 2
            self._chances()

    def _chances(self) -> None:
        """Counts of cycles with and without a start, by cycles since the last one and by slot of the day."""
        assert self.grid is not None
        grid = self.grid
        starts = np.array(self._starts)
        cycles, positions = np.divmod(starts - self._first, grid)
        seen = np.bincount(positions, minlength=grid).astype(np.float64) + 0.02
        self._where = seen / seen.sum()
        hits = set(cycles.tolist())
        slots = max(1, round(self._day / grid))
        self._by_gap, self._by_slot = np.zeros((2, 25)), np.zeros((2, slots))
        gap = 24
        first = int(cycles[0]) + 1
        now = int((self._n - 1 - self._first) // grid)
        for cycle in range(max(first, now - 21 * slots), now):
            hit = cycle in hits
            for table, key in ((self._by_gap, min(gap, 24)), (self._by_slot, cycle % slots)):
                table[0, key] += hit
                table[1, key] += 1
            gap = 1 if hit else gap + 1

    def _chance(self, cycle: int, gap: int) -> float:
        """Of a start in a cycle: gap and slot as independent evidence about the usual rate."""
        usual = (self._by_gap[0].sum() + 0.5) / (self._by_gap[1].sum() + 1)
        by_gap = (self._by_gap[0, min(gap, 24)] + 2 * usual) / (self._by_gap[1, min(gap, 24)] + 2)
        slot = cycle % self._by_slot.shape[1]
        by_slot = (self._by_slot[0, slot] + 3 * usual) / (self._by_slot[1, slot] + 3)
        odds = math.log(by_gap / (1 - by_gap + 1e-9)) + math.log(by_slot / (1 - by_slot + 1e-9))
        odds -= math.log(usual / (1 - usual + 1e-9))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))

    def _onsets(self) -> Floats:
        """Chance of a start at each of the next steps (index 0: the next one)."""
        assert self.grid is not None
        out = np.zeros(self._reach - 1)
        cycles, positions = np.divmod(self._n + np.arange(out.size) - self._first, self.grid)
        last = int((self._starts[-1] - self._first) // self.grid)
        for cycle in range(int(cycles[0]), int(cycles[-1]) + 1):
            if cycle <= last:
                continue
            here = cycles == cycle
            chance = self._chance(cycle, cycle - last)
            left = self._where[positions[here][0] :].sum()
            still = chance * left / max(1 - chance + chance * left, 1e-9)
            out[here] = still * self._where[positions[here]] / max(left, 1e-9)
        return out

    def words(self) -> tuple[str, ...]:
        """The grid and the next start, as an event to announce."""
        if self.grid is None or not self._starts:
            return ()
        begun = (self._n - self._first) // self.grid
        last = (self._starts[-1] - self._first) // self.grid
        cycle = max(begun, last + 1)
        first = self._first + int(np.argmax(self._where)) + cycle * self.grid
        if first < self._n:
            cycle, first = cycle + 1, first + self.grid
        chance, size = self._chance(cycle, cycle - last), float(np.median([c.max() for c in self._courses]))
        return (
            f"bursts of about {size:.1f}x start on a grid of {self.grid * self._minutes:g} min; the next may start in "
            f"{(first - self._n) * self._minutes:.0f} min with a chance of {100 * chance:.0f} %",
        )

    def quantiles(self, levels: Floats) -> Floats | None:
        """[leads, levels] rates at `levels` of the same shape, or `None` while there is no grid to speak of."""
        if self.grid is None or self._calm <= 0:
            return None
        courses = np.stack(self._courses)
        out = np.empty(levels.shape)
        onsets = self._onsets() * (0.0 if self._open else 1.0)
        for i, lead in enumerate(self._leads):
            calm = self._calm * np.exp(self._calm_table[i])
            if self._open:
                values, weights = self._running(courses, int(lead))
            else:
                ages = np.arange(int(lead))[::-1]  # a start k steps from now has age lead - 1 - k at the target
                values = np.concatenate([calm, (self._base * courses[:, ages]).ravel()])
                chance = onsets[: int(lead)]
                spread = np.broadcast_to(chance / len(courses), (len(courses), int(lead))).ravel()
                weights = np.concatenate([max(0.0, 1 - chance.sum()) * CALM_WEIGHTS, spread])
            order = np.argsort(values)
            mass = np.cumsum(weights[order])
            place = np.searchsorted(mass / mass[-1], levels[i])
            out[i] = values[order][np.minimum(place, order.size - 1)]
        return out

    def _running(self, courses: Floats, lead: int) -> tuple[Floats, Floats]:
        """What earlier bursts did `lead` steps after looking as this one does now."""
        age = min(len(self._open) - 1, courses.shape[1] - lead - 1)
        like = np.abs(np.log(np.maximum(courses[:, age], 1e-6) / self._open[-1]))
        weights = np.exp(-like / LIKE) + 1e-3
        return self._base * courses[:, age + lead], weights


def find_grid(starts: NDArray[np.int64], grids: list[int], wide: int) -> tuple[int, int] | None:
    """The grid (in steps) that explains most of the starts, with the usual position; `None` if chance explains them."""
    best, found = 8.0, None
    n = starts.size
    for grid in grids:
        counts = np.bincount(starts % grid, minlength=grid)
        around = np.sum([np.roll(counts, k) for k in range(-wide, wide + 1)], axis=0)
        mode = int(np.argmax(around + counts / (n + 1)))  # of equals the one in the middle
        share, expected = float(around[mode]) / n, min(0.95, (2 * wide + 1) / grid)
        if share < 0.5 or share <= expected:
            continue
        gain = share * math.log(share / expected)
        gain += (1 - share) * math.log((1 - share) / (1 - expected)) if share < 1 else 0.0
        score = n * gain - math.log(grid)
        if score > best:
            best, found = score, (grid, mode)
    return found
