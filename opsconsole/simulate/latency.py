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
from opsconsole.simulate.traces import BIN_S, Floats, Lengths, Load
from policies.situation import CapacityFacts

LIMIT = 0.94  # utilisation from which a bin is too short for steady waits
GRID = np.linspace(0.0, LIMIT, 48)  # utilisations that are tabulated
# A router that counts tokens in flight makes many replicas wait like this few behind one queue: idle, and at the limit.
# It sees long queues better than which chunk is free. From steady loads at request level.
GOOD_AS = (2.0, 5.0)
SCALES = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2, 3.0)  # of the mean prompt, since the mix moves from bin to bin
QUANTILES = 400
MANY = 16  # replicas beyond which tables are made for rounded counts
LEFT = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 160)])  # seconds at which shares of TTFT are tabulated
FEW = 20  # of them make one where a percentile is all that is asked


@dataclass(frozen=True, slots=True)
class Served:
    """One steady operating point."""

    attained: float  # share inside the bounds
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
        # Mean seconds from arrival to a token.
        self.lag = lengths.output * (1 + lengths.output_cv**2) / 2 * self.busy_step
        self.decodes = min(float(replica.max_seqs), self.rate * lengths.output * self.busy_step)
        self.mean_context = mean_context
        share = lengths.prompt * self.token_s / self.work(lengths.prompt, lengths.output)
        # Root mean square of a request's work over its mean: how much more than its count a burst of requests weighs.
        self.work_spread = math.sqrt(1 + (share * lengths.prompt_cv) ** 2 + ((1 - share) * lengths.output_cv) ** 2)
        points = [self._steady(float(u)) for u in np.linspace(0.0, 1.0, 101)]
        self._steps, self._running, self._residual = ([point[i] for point in points] for i in range(3))
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
        return np.where(load.rate > 0, first, 0.0) + lagged(
            np.where(load.rate > 0, later, 0.0), self.lag, load.trace.step
        )

    def _busy_step(self, mean_context: float) -> float:
        """Seconds of a full step with the decodes of a saturated replica."""
        step = self.full_step
        for _ in range(20):
            decodes = min(float(self.replica.max_seqs), self.rate * self.lengths.output * step)
            step = self.full_step + self.context_s * decodes * mean_context
        return step

    def step(self, utilisation: float) -> float:
        """Mean seconds between a sequence's tokens."""
        return self._between(self._steps, utilisation)

    def running(self, utilisation: float) -> float:
        """Sequences that run on one replica: those that decode, and those whose prompt is in the chunk."""
        return self._between(self._running, utilisation)

    def stay(self, utilisation: float) -> float:
        """Mean seconds from a request's first chunk to its last token."""
        return self._between(self._running, utilisation) / (self.rate * max(0.01, utilisation))

    def residual(self, utilisation: float) -> float:
        """Mean seconds until the step under way ends, while there is one."""
        return self._between(self._residual, utilisation)

    def _between(self, table: list[float], utilisation: float) -> float:
        place = min(1.0, max(0.0, utilisation)) * (len(table) - 1)
        left = min(len(table) - 2, int(place))
        return table[left] + (place - left) * (table[left + 1] - table[left])

    def _steady(self, utilisation: float) -> tuple[float, float, float]:
        """Mean step, sequences that run, and mean rest of a step, of a replica at a steady load.

        Three kinds of steps follow each other: full of prompts, the last of a row of prompts, which is half full, and
        those that only decode. A row begins whenever a prompt finds none before it. How many there are of each a second
        follows from the prompt tokens that arrive and from the second being full.
        """
        rate = max(1e-6, utilisation) * self.rate
        step, busy = self.full_step, utilisation
        for _ in range(40):
            decodes = min(float(self.replica.max_seqs), rate * self.lengths.output * step)
            room = max(1.0, self.replica.chunk - decodes)
            read = self.context_s * decodes * self.mean_context
            batches = (self.replica.chunk, round(decodes + room / 2), max(1, round(decodes)))
            full_s, last_s, alone_s = (self.replica.step.batch_s(tokens) + read for tokens in batches)
            last = rate * (1.0 - busy)
            full = max(0.0, rate * self.lengths.prompt / room - last / 2)
            busy = min(1.0, full * full_s + last * last_s)
            kinds = ((full, full_s), (last, last_s), ((1.0 - busy) / alone_s, alone_s))
            seconds = sum(count * each for count, each in kinds)
            step = 0.5 * (step + seconds / sum(count for count, _ in kinds))
        running = rate * self.lengths.output * step + rate * self.lengths.prompt / room * full_s
        return step, running, sum(count * each * each for count, each in kinds) / seconds / 2

    def at(self, replicas: int, utilisation: float, scale: int = 3) -> Served:
        """The nearest tabulated operating point; beyond the table the last one holds."""
        key = (replicas, min(GRID.size - 1, int(utilisation * 50.0 + 0.5)), scale)
        found = self._points.get(key)
        if found is None:
            found = self._points[key] = self._served(*key)
        return found

    def late(self, replicas: int, utilisation: float, delays: tuple[float, float], scale: int = 3) -> float:
        """Share inside the bound of requests that a backlog holds up, on average, from one delay to the other (s).

        Replicas are not equally far behind: by as much as a queue gains by chance within a bin, some not at all, the
        others exponentially more.
        """
        place = min(GRID.size - 1, int(utilisation * 50.0 + 0.5))
        own = self._tail(replicas, place, scale)[0][FEW // 2 :: FEW]
        delay = np.array(_spread(delays))[:, None]
        widest = math.sqrt(math.pi / 8.0 * jitter(self, replicas, scale) * BIN_S)
        chance = np.maximum(1e-9, np.minimum(delay, widest))
        left = np.maximum(self.slo.ttft - own - (delay - chance), 0.0)
        return float((1.0 - np.exp(-left / chance)).mean())

    def share_under(self, replicas: int, place: int, scale: int, delays: tuple[float, float], bounds: Floats) -> Floats:
        """Share of requests whose TTFT is at most each of `bounds`, held up by between the two delays."""
        table = self._reached(max(1, replicas), min(GRID.size - 1, place), scale)
        found: Floats = sum(
            (np.interp(bounds - delay, LEFT, table) for delay in _spread(delays)), np.zeros(bounds.size)
        )
        return found / len(_spread(delays))

    def reached(
        self, replicas: int, utilisation: float, scale: int, delays: tuple[float, float] = (0.0, 0.0)
    ) -> Floats:
        """Share of requests with a first token after each of `LEFT` seconds, held up by between the two delays."""
        place = min(GRID.size - 1, int(utilisation * 50.0 + 0.5))
        if delays == (0.0, 0.0):
            return self._reached(replicas, place, scale)
        return self.share_under(replicas, place, scale, delays, LEFT)

    def _reached(self, replicas: int, place: int, scale: int) -> Floats:
        """Where no backlog is."""
        key = (replicas, place, scale)
        if key not in self._shares:
            own, waits, decay = self._tail(*key)
            left = LEFT[:, None] - own[None, FEW // 2 :: FEW]
            self._shares[key] = np.where(left > 0, 1.0 - waits * np.exp(-decay * np.maximum(left, 0.0)), 0.0).mean(
                axis=1
            )
        return self._shares[key]

    def tail(self, replicas: int, utilisation: float, scale: int = 3) -> tuple[float, float]:
        """Chance to wait at all, and decay of the wait's tail a second."""
        return self._tail(replicas, min(GRID.size - 1, int(utilisation * 50.0 + 0.5)), scale)[1:]

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
        servers = pooled(replicas, utilisation)
        waits = _erlang_between(servers, busy)
        decay = 2.0 * servers * (1.0 - busy) / ((1.0 + self.lengths.prompt_cv**2) * max(service, 1e-6))
        return own, waits, decay

    def _served(self, replicas: int, place: int, scale: int) -> Served:
        own, waits, decay = self._tail(replicas, place, scale)
        left = self.slo.ttft - own
        attained = np.where(left > 0, 1.0 - waits * np.exp(-decay * np.maximum(left, 0.0)), 0.0).mean()
        return Served(float(attained) * self._in_step(float(GRID[place])), waits / decay)

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


def jitter(latency: Latency, replicas: int, scale: int) -> float:
    """Variance a second, in s^2, of how far a fleet at its limit is behind: whose steady waits decay as here."""
    return 2.0 * (1.0 - LIMIT) / latency.tail(replicas, LIMIT, scale)[1]


def _spread(delays: tuple[float, float]) -> tuple[float, ...]:
    """Five delays evenly between the two, or the one that they are."""
    first, last = delays
    return (first,) if first == last else tuple(first + (last - first) * share for share in (0.1, 0.3, 0.5, 0.7, 0.9))


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


def pooled(replicas: float, utilisation: float) -> float:
    """Behind one queue of how many replicas requests wait as long as behind these with a router in front."""
    low, high = GOOD_AS
    return min(float(replicas), low + (high - low) * utilisation * utilisation)


def _erlang_between(servers: float, utilisation: float) -> float:
    """For a number of servers that is not whole, between its neighbours, linear in the logarithm."""
    whole = math.floor(servers)
    low = erlang_c(whole, utilisation)
    share = servers - whole
    if share <= 0.0 or low <= 0.0:
        return low
    return float(low ** (1.0 - share) * erlang_c(whole + 1, utilisation) ** share)


def erlang_c(servers: int, utilisation: float) -> float:
    """Chance that an arrival at M/M/c waits, from the Erlang B recursion."""
    if utilisation <= 0:
        return 0.0
    offered = servers * utilisation
    blocked = 1.0
    for i in range(1, servers + 1):
        blocked = offered * blocked / (i + offered * blocked)
    return blocked / (1.0 - utilisation * (1.0 - blocked))


def _log_normal_points(cv: float) -> Floats:
    """Equally likely values of a log-normal with mean 1, finer at the top, where the bound cuts."""
    from statistics import NormalDist

    if cv <= 0:
        return np.ones(QUANTILES)
    variance = math.log1p(cv * cv)
    normal = NormalDist(-variance / 2, math.sqrt(variance))
    return np.array([math.exp(normal.inv_cdf((i + 0.5) / QUANTILES)) for i in range(QUANTILES)])
