"""What a scrape happens to see in the fluid fidelity: queue and batch at an instant, TTFT of the last minute.

A scrape reads counters, which add up, and gauges, which are of one instant; a law that takes the largest of many reads
the gauges' noise. So they are drawn, around the means and with the spread that chance arrivals give them. It must not
know the fleet's past. The trap: these draws change what laws are told and never what is served.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

import numpy as np

from opsconsole.simulate.latency import LEFT, Latency, pooled
from opsconsole.simulate.traces import Floats

NORMAL = NormalDist()
WINDOW_S = 60.0  # over which quantiles of TTFT are counted, as in the live fold


@dataclass(frozen=True, slots=True)
class Seen:
    """`waiting` requests in the whole fleet, `running` sequences a replica."""

    waiting: float
    running: float


class Glimpse:
    """Draws gauges. The same seed gives the same chance to every law."""

    def __init__(self, latency: Latency, seed: int) -> None:
        self._latency = latency
        self._draw = Random(f"{seed}:scrapes")

    def at(self, replicas: int, rate: float, utilisation: float, wait: float, behind: float) -> Seen:
        """`rate` requests/s, `wait` their mean seconds before the first chunk, `behind` requests of a backlog."""
        chance, excess, few = self._draw.gauss(0.0, 1.0), self._draw.random(), self._draw.gauss(0.0, 1.0)
        running = self._latency.running(utilisation)
        if not replicas or behind > 0.0:
            return Seen(behind, running)
        fleet = replicas * running
        bursts = self._stretch(utilisation) * self._latency.work_spread
        spread = math.sqrt(fleet * (1.0 + bursts * bursts / 2.0))  # half: the memory of a burst fades, it does not end
        fleet = max(0.0, fleet + chance * spread)
        joining = (
            rate * self._latency.residual(utilisation) * (1.0 - math.exp(-running))
        )  # arrived during the step that runs
        queued = self._queued(replicas, rate, utilisation, wait, excess)
        waiting = max(0.0, joining + few * math.sqrt(joining)) + queued
        return Seen(float(round(waiting)), fleet / replicas)

    def _stretch(self, utilisation: float) -> float:
        """By what power of the load of a moment a step grows: a burst is more sequences, and each stays longer."""
        low, high = max(0.02, utilisation * 0.95), max(0.03, min(1.0, utilisation * 1.05))
        return math.log(self._latency.step(high) / self._latency.step(low)) / math.log(high / low)

    def _queued(self, replicas: int, rate: float, utilisation: float, wait: float, share: float) -> float:
        """Prompts that wait for room in the chunk: as many groups of replicas as behave like one queue each.

        A group has none with some chance, else an exponential number; the sum is taken as a gamma with its mean and
        spread, read at the quantile `share`.
        """
        mean = rate * wait
        if mean <= 1e-6:
            return 0.0
        waits, _ = self._latency.tail(replicas, utilisation)
        groups = replicas / pooled(replicas, utilisation)
        return _gamma(mean, mean * mean * (2.0 / max(waits, 1e-6) - 1.0) / groups, share)


def _gamma(mean: float, variance: float, share: float) -> float:
    """A quantile of a gamma, by Wilson and Hilferty; by its power law near zero where the shape is small."""
    shape = mean * mean / variance
    if shape < 0.5:  # mostly zero: an atom and an exponential with the same two moments
        waits = 2.0 / (1.0 + 1.0 / shape)
        return 0.0 if share >= waits else -math.log(max(1e-12, share / waits)) * mean / waits
    third = 1.0 / (9.0 * shape)
    normal = NORMAL.inv_cdf(min(1.0 - 1e-12, max(1e-12, share)))
    return mean * max(0.0, 1.0 - third + normal * math.sqrt(third)) ** 3


class Seconds:
    """TTFT of the requests of the last minute, as shares under each of `LEFT` seconds."""

    def __init__(self) -> None:
        self._now: Floats = np.zeros(LEFT.size)
        self._weight = 0.0
        self._rows: deque[tuple[float, float, Floats]] = deque()

    def add(self, requests: float, under: Floats) -> None:
        self._now += requests * under
        self._weight += requests

    def close(self, now: float, share: float = 0.95) -> float | None:
        """The quantile over the last minute, as of a scrape; None where nothing arrived."""
        self._rows.append((now, self._weight, self._now))
        self._now, self._weight = np.zeros(LEFT.size), 0.0
        while self._rows[0][0] <= now - WINDOW_S:
            self._rows.popleft()
        weight = sum(row[1] for row in self._rows)
        if weight <= 0.0:
            return None
        under = sum((row[2] for row in self._rows), np.zeros(LEFT.size)) / weight
        return float(LEFT[min(LEFT.size - 1, int(np.searchsorted(under, share)))])
