"""What a fleet of equal replicas does to a steady stream, in closed form: the fluid fidelity's idea of latency.

Work is counted in replica-seconds at the step's full token budget. Below saturation the prompts of n replicas behind a
good router wait as in M/G/c (Erlang C, exponential tail with the spread of the lengths; c as measured); a prompt's own
time is its chunks. It must not know of backlogs; `fluid` adds their delay. The trap: work is not rate; a bin of long
prompts is more of a replica at the same request rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opsconsole.simulate.settings import ReplicaModel, SloBounds
from opsconsole.simulate.traces import Floats, Lengths, Load
from policies.situation import CapacityFacts

GRID = np.linspace(0.0, 0.94, 48)  # utilisations that are tabulated; a bin is too short for the waits of more
GOOD_AS = 5  # a router that counts tokens in flight makes many replicas wait like this many behind one queue
SCALES = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2, 3.0)  # of the mean prompt, since the mix moves from bin to bin
QUANTILES = 400
MANY = 16  # replicas beyond which tables are made for rounded counts
LEFT = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 160)])  # seconds at which shares of TTFT are tabulated
FEW = 20  # of them make one where a percentile is all that is asked


@dataclass(frozen=True, slots=True)
class Served:
    """One steady operating point."""

    attained: float  # share inside the bounds
    ttft_p95: float  # s
    wait: float  # mean s before the first chunk


class Latency:
    """Tables of `Served` by replicas, utilisation and prompt scale, filled as they are asked for."""

    def __init__(self, replica: ReplicaModel, lengths: Lengths, slo: SloBounds) -> None:
        self.replica, self.lengths, self.slo = replica, lengths, slo
        self.full_step = replica.step.batch_s(replica.chunk)
        self.token_s = self.full_step / replica.chunk + replica.step.per_prefill_s
        self.context_s = replica.step.per_context_s
        self.rate = 1.0 / self.work(lengths.prompt, lengths.output)  # requests/s of a saturated replica
        mean_context = lengths.prompt + lengths.output * (1 + lengths.output_cv**2) / 2
        self.busy_step = self._busy_step(mean_context)
        self.decodes = min(float(replica.max_seqs), self.rate * lengths.output * self.busy_step)
        self.mean_context = mean_context
        self._units = _log_normal_points(lengths.prompt_cv)
        self._points: dict[tuple[int, int, int], Served] = {}
        self._tails: dict[tuple[int, int, int], tuple[Floats, float, float]] = {}
        self._shares: dict[tuple[int, int, int], Floats] = {}

    def work(self, prompt: float, output: float) -> float:
        """Replica-seconds of one request with these mean lengths."""
        spread = 1 + self.lengths.output_cv**2
        read = output * prompt + output * output * spread / 2
        return (
            (prompt + output) * (self.full_step / self.replica.chunk)
            + prompt * self.replica.step.per_prefill_s
            + output * self.replica.step.per_decode_s
            + read * self.context_s
        )

    def work_rate(self, load: Load) -> Floats:
        """Replica-seconds of work that fall due a second, by bin: prompts at once, answers as their tokens are made."""
        rate = np.maximum(load.rate, 1e-12)
        prompt, output = load.prompt / rate, load.output / rate
        spread = 1 + self.lengths.output_cv**2
        read = output * prompt + output * output * spread / 2
        token_s = self.full_step / self.replica.chunk
        first = load.prompt * (token_s + self.replica.step.per_prefill_s)
        later = load.output * (token_s + self.replica.step.per_decode_s) + load.rate * read * self.context_s
        lag = self.lengths.output * spread / 2 * self.busy_step  # mean seconds from arrival to a token
        return np.where(load.rate > 0, first, 0.0) + lagged(np.where(load.rate > 0, later, 0.0), lag, load.trace.step)

    def _busy_step(self, mean_context: float) -> float:
        """Seconds of a full step with the decodes of a saturated replica."""
        step = self.full_step
        for _ in range(20):
            decodes = min(float(self.replica.max_seqs), self.rate * self.lengths.output * step)
            step = self.full_step + self.context_s * decodes * mean_context
        return step

    def step(self, utilisation: float) -> float:
        """Mean seconds between a sequence's tokens: full steps while prompts are there, short ones between.

        Chunks that are not quite full make it about 8 % less than the mean of the two, as the request level shows.
        """
        alone = self._alone(utilisation)
        mixed = 1.0 / ((1.0 - utilisation) / alone + utilisation / max(alone, self.busy_step))
        return mixed * (0.92 + 0.08 * max(0.0, 10.0 * utilisation - 9.0))

    def _alone(self, utilisation: float) -> float:
        """Seconds of a step that only decodes."""
        decodes: float = self.decodes * utilisation**1.6
        return self.replica.step.batch_s(max(1, round(decodes))) + self.context_s * decodes * self.mean_context

    def running(self, utilisation: float) -> float:
        """Sequences that run on one replica: those that decode, and those whose prompt is in the chunk."""
        prompts = min(1.0, utilisation) * self.lengths.prompt / self.replica.chunk
        return utilisation * self.rate * self.lengths.output * self.step(utilisation) + prompts

    def at(self, replicas: int, utilisation: float, scale: int = 3) -> Served:
        """The nearest tabulated operating point; beyond the table the last one holds."""
        key = (replicas, min(GRID.size - 1, int(utilisation * 50.0 + 0.5)), scale)
        found = self._points.get(key)
        if found is None:
            found = self._points[key] = self._served(*key)
        return found

    def late(self, replicas: int, utilisation: float, delay: float, scale: int = 3) -> float:
        """Share inside the bound of requests that a backlog holds up for `delay` seconds first."""
        room = self.slo.ttft - delay
        if room <= 0:
            return 0.0
        place = min(GRID.size - 1, int(utilisation * 50.0 + 0.5))
        # The backlog is the wait; chance comes on top only where there is none.
        return float((self._tail(replicas, place, scale)[0] <= room).mean())

    def share_under(self, replicas: int, place: int, scale: int, delays: tuple[float, float], bounds: Floats) -> Floats:
        """Share of requests whose TTFT is at most each of `bounds`, held up by between the two delays."""
        table = self._reached(max(1, replicas), min(GRID.size - 1, place), scale)
        middles = (0.1, 0.3, 0.5, 0.7, 0.9) if delays[1] != delays[0] else (0.5,)
        held = [delays[0] + (delays[1] - delays[0]) * share for share in middles]
        found: Floats = sum((np.interp(bounds - delay, LEFT, table) for delay in held), np.zeros(bounds.size))
        return found / len(middles)

    def _reached(self, replicas: int, place: int, scale: int) -> Floats:
        """Share of requests with a first token after each of `LEFT` seconds, where no backlog is."""
        key = (replicas, place, scale)
        if key not in self._shares:
            own, waits, decay = self._tail(*key)
            left = LEFT[:, None] - own[None, FEW // 2 :: FEW]
            self._shares[key] = np.where(left > 0, 1.0 - waits * np.exp(-decay * np.maximum(left, 0.0)), 0.0).mean(
                axis=1
            )
        return self._shares[key]

    def _tail(self, replicas: int, place: int, scale: int) -> tuple[Floats, float, float]:
        """Own seconds of each length, chance to wait at all, and decay of the wait's tail a second."""
        key = (replicas, place, scale)
        if key not in self._tails:
            self._tails[key] = self._tail_of(replicas, float(GRID[place]), SCALES[scale])
        return self._tails[key]

    def _tail_of(self, replicas: int, utilisation: float, scale: float) -> tuple[Floats, float, float]:
        decodes = self.decodes * utilisation
        step = self.full_step + self.context_s * decodes * self.mean_context
        room = max(1.0, self.replica.chunk - decodes)
        prompt = self.lengths.prompt * scale
        own = self._units * prompt / room * step + 1.2 * self.step(utilisation)
        service = prompt / room * step  # mean seconds a prompt holds the chunk
        share = self.decodes * utilisation / self.replica.chunk
        busy = min(0.999, max(0.0, (utilisation - share) / max(1e-9, 1.0 - share)))  # of the room prompts have
        servers = min(replicas, GOOD_AS)
        waits = erlang_c(servers, busy)
        decay = 2.0 * servers * (1.0 - busy) / ((1.0 + self.lengths.prompt_cv**2) * max(service, 1e-6))
        return own, waits, decay

    def _served(self, replicas: int, place: int, scale: int) -> Served:
        own, waits, decay = self._tail(replicas, place, scale)
        left = self.slo.ttft - own
        attained = np.where(left > 0, 1.0 - waits * np.exp(-decay * np.maximum(left, 0.0)), 0.0).mean()
        return Served(
            float(attained) * self._in_step(float(GRID[place])), _p95(own[FEW // 2 :: FEW], waits, decay), waits / decay
        )

    def _in_step(self, utilisation: float) -> float:
        """1 while a token's mean time is inside its bound, else 0."""
        return 1.0 if self.step(utilisation) <= self.slo.tpot else 0.0

    def capacity(self, replicas: int) -> CapacityFacts:
        """What one of `replicas` serves inside the SLO: the highest utilisation that still meets the target.

        Where even an idle replica misses the target, the reference is what the idle one attains.
        """
        idle = self.at(replicas, 0.0)
        wanted = self.slo.target * min(1.0, idle.attained / self.slo.target)
        found = [u for u in GRID if self.at(replicas, float(u)).attained >= wanted - 1e-6]
        rate = self.rate * max(0.1, float(found[-1]) if found else 0.1)
        return CapacityFacts(
            request_rate=rate,
            prompt_rate=rate * self.lengths.prompt,
            output_rate=rate * self.lengths.output,
            source="bench",
            idle_ttft=float(np.median(self._tail(1, 0, 3)[0])),
            idle_tpot=self.step(0.0),
            prompt_share=self.lengths.prompt * self.token_s / self.work(self.lengths.prompt, self.lengths.output),
        )


def lagged(values: Floats, lag: float, step: float) -> Floats:
    """Bin means of what an exponential delay of mean `lag` seconds makes of an even flow in each bin."""
    if lag <= 0 or not values.size:
        return values
    keep = math.exp(-step / lag)
    share = lag / step * (1.0 - keep)
    out = np.empty(values.size)
    level = float(values[0])
    for i, value in enumerate(values.tolist()):
        out[i] = value - (value - level) * share
        level = value - (value - level) * keep
    return out


def rounded(replicas: int) -> int:
    """To a sixteenth, so that few tables serve many counts."""
    grain = max(1, 2 ** (replicas.bit_length() - 5)) if replicas > MANY else 1
    return replicas // grain * grain


def erlang_c(servers: int, utilisation: float) -> float:
    """Chance that an arrival at M/M/c waits, from the Erlang B recursion."""
    if utilisation <= 0:
        return 0.0
    offered = servers * utilisation
    blocked = 1.0
    for i in range(1, servers + 1):
        blocked = offered * blocked / (i + offered * blocked)
    return blocked / (1.0 - utilisation * (1.0 - blocked))


def _p95(own: Floats, waits: float, decay: float) -> float:
    """The 95th percentile of own time plus wait, by bisection."""
    low, high = float(own.min()), float(own.max()) + 20.0 / max(decay, 1e-6)
    for _ in range(14):
        middle = (low + high) / 2
        left = middle - own
        under = np.where(left > 0, 1.0 - waits * np.exp(-decay * np.maximum(left, 0.0)), 0.0).mean()
        low, high = (low, middle) if under >= 0.95 else (middle, high)
    return high


def _log_normal_points(cv: float) -> Floats:
    """Equally likely values of a log-normal with mean 1, finer at the top, where the bound cuts."""
    from statistics import NormalDist

    if cv <= 0:
        return np.ones(QUANTILES)
    variance = math.log1p(cv * cv)
    normal = NormalDist(-variance / 2, math.sqrt(variance))
    return np.array([math.exp(normal.inv_cdf((i + 0.5) / QUANTILES)) for i in range(QUANTILES)])
