"""A recorded load: counts of requests and tokens in equal bins, and single requests where the source has them.

It knows no files (`importers` does) and no fleets. What is real, what was re-created from published statistics and what
was made up stays written on it, and every report prints it. The trap: a trace without token counts takes a stated
distribution of lengths, so its tokens are an assumption; `lengths` says so in words. Their sums over a bin are drawn,
always the same way, since some hundred requests do not come to their mean.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from opsconsole.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BIN_S = 10.0
FEWEST_S = 600.0  # of trace, below which a backtest says nothing


class Kind(StrEnum):
    """Where a load comes from; the value is the word printed beside its name."""

    REAL = "real"
    RECON = "RECON"  # re-created from published statistics: large shape real, noise below ten minutes synthetic
    SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal lengths: mean tokens and coefficient of variation, of prompts and of answers."""

    prompt: float = 1000.0
    output: float = 100.0
    prompt_cv: float = 1.0
    output_cv: float = 1.0

    @property
    def words(self) -> str:
        return (
            f"log-normal, mean {self.prompt:g} prompt and {self.output:g} output tokens "
            f"(coefficients of variation {self.prompt_cv:g} and {self.output_cv:g})"
        )


ASSUMED = Lengths()


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Single requests in order of time; `blocks` are ids of 512-token prefix blocks where the source knows them."""

    times: Floats  # s
    prompt: Ints  # tokens
    output: Ints  # tokens
    blocks: tuple[tuple[int, ...], ...] | None = None

    def __len__(self) -> int:
        return int(self.times.size)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Counts per bin of `step` seconds; `prompt` and `output` are tokens per bin, unknown as a whole or not at all."""

    name: str
    kind: Kind
    step: float
    requests: Floats
    prompt: Floats | None = None
    output: Floats | None = None
    single: Requests | None = None
    start: float = 0.0  # s

    @property
    def label(self) -> str:
        """The name with what everybody must know of it."""
        return f"{self.name} [{self.kind.value}]"

    @property
    def seconds(self) -> float:
        return self.requests.size * self.step

    @property
    def has_tokens(self) -> bool:
        return self.prompt is not None and self.output is not None

    def digest(self) -> str:
        """Of everything a simulation reads."""
        found = hashlib.sha256(f"{self.step!r} {self.start!r}".encode())
        parts = [self.requests, self.prompt, self.output]
        if self.single is not None:
            parts += [self.single.times, self.single.prompt.astype(np.float64), self.single.output.astype(np.float64)]
        for part in parts:
            found.update(b"none" if part is None else np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return found.hexdigest()[:16]

    def without_tokens(self) -> Trace:
        """Requests alone, to be given stated lengths."""
        return replace(self, name=f"{self.name} (requests)", prompt=None, output=None)

    def window(self, first: float, last: float) -> Trace:
        """The bins that lie wholly in [first, last) seconds from the start."""
        a, b = math.ceil(first / self.step - 1e-9), math.floor(last / self.step + 1e-9)
        if not 0 <= a < b <= self.requests.size:
            raise UsageError(
                f"{self.name} spans {self.seconds:g} s: there is no window from {first:g} s to {last:g} s."
            )
        single = self.single
        if single is not None:
            low, high = np.searchsorted(single.times, [self.start + a * self.step, self.start + b * self.step])
            blocks = None if single.blocks is None else single.blocks[low:high]
            single = Requests(single.times[low:high], single.prompt[low:high], single.output[low:high], blocks)
        cut = [None if part is None else part[a:b] for part in (self.prompt, self.output)]
        return replace(
            self, requests=self.requests[a:b], prompt=cut[0], output=cut[1], single=single,
            start=self.start + a * self.step,
        )  # fmt: skip

    def in_bins(self, step: float = BIN_S) -> Trace:
        """The same load in bins of `step`: finer ones share a coarse bin's count evenly, coarser ones add up."""
        if abs(self.step - step) < 1e-9:
            return self
        edges = np.arange(0.0, self.seconds + step * 0.5, step)
        if edges.size < 2:
            raise UsageError(f"{self.name} spans {self.seconds:g} s, less than one bin of {step:g} s.")
        own = np.arange(self.requests.size + 1) * self.step

        def spread(counts: Floats | None) -> Floats | None:
            if counts is None:
                return None
            total = np.concatenate([[0.0], np.cumsum(counts)])
            binned: Floats = np.diff(np.interp(edges, own, total))
            return binned

        requests = spread(self.requests)
        assert requests is not None
        return replace(self, step=step, requests=requests, prompt=spread(self.prompt), output=spread(self.output))


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A trace as a fleet meets it: rates per second in bins, every count multiplied by `scale`."""

    trace: Trace
    scale: float
    lengths: Lengths  # assumed where the trace has no tokens; otherwise its means, with the assumed spread
    rate: Floats  # requests/s
    prompt: Floats  # tokens/s
    output: Floats  # tokens/s

    @property
    def words(self) -> str:
        """How long requests are taken to be."""
        if self.trace.has_tokens:
            return f"token counts as recorded, spread within a bin {self.lengths.words}"
        return f"no token counts: {self.lengths.words}"


def load_of(trace: Trace, scale: float = 1.0, lengths: Lengths = ASSUMED) -> Load:
    """Rates of the scaled trace; the relative noise of the recording stays what it was."""
    if not (math.isfinite(scale) and scale > 0):
        raise UsageError(f"--scale {scale:g} must be above 0.")
    requests = trace.requests * scale
    total = float(trace.requests.sum())
    if total <= 0:
        raise UsageError(f"{trace.name} holds no requests: there is nothing to serve.")
    if trace.prompt is not None and trace.output is not None:
        prompt, output = trace.prompt * scale, trace.output * scale
        lengths = replace(
            lengths, prompt=float(trace.prompt.sum()) / total, output=max(1.0, float(trace.output.sum()) / total)
        )
    else:
        chance = np.random.default_rng(1).standard_normal((2, requests.size))
        prompt = requests * lengths.prompt * _sums(requests, lengths.prompt_cv, chance[0])
        output = requests * lengths.output * _sums(requests, lengths.output_cv, chance[1])
    return Load(trace, scale, lengths, requests / trace.step, prompt / trace.step, output / trace.step)


def _sums(counts: Floats, cv: float, chance: Floats) -> Floats:
    """What so many lengths come to, over their expected sum: a log-normal with mean 1 and the spread of a mean."""
    variance = np.log1p(cv * cv / np.maximum(counts, 1e-9))
    found: Floats = np.where(counts > 0, np.exp(np.sqrt(variance) * chance - variance / 2), 1.0)
    return found


def shuffled(trace: Trace, seed: int) -> Trace:
    """The same bins in random order: what a forecast could know of the future is gone, the load is not."""
    order = np.random.default_rng(seed).permutation(trace.requests.size)
    parts = [None if part is None else part[order] for part in (trace.prompt, trace.output)]
    return replace(
        trace, name=f"{trace.name} (bins shuffled)", requests=trace.requests[order], prompt=parts[0], output=parts[1],
        single=None, kind=Kind.SYNTHETIC,
    )  # fmt: skip


def draw_requests(load: Load, seed: int) -> Requests:
    """Single requests for a request-level simulation: recorded ones where there are, else drawn from the bins.

    Recorded requests are repeated `scale` times within half a second of their own time. Drawn ones fall anywhere in
    their bin, with log-normal lengths whose sum is the bin's.
    """
    draw = np.random.default_rng(seed)
    return _repeated(load, draw) if load.trace.single is not None else _drawn(load, draw)


def _repeated(load: Load, draw: np.random.Generator) -> Requests:
    single = load.trace.single
    assert single is not None
    copies = np.floor(load.scale + draw.random(len(single))).astype(np.int64)
    index = np.repeat(np.arange(len(single)), copies)
    first = np.concatenate([[True], index[1:] != index[:-1]]) if index.size else np.zeros(0, dtype=np.bool_)
    shift = np.where(first, 0.0, draw.uniform(-0.5, 0.5, index.size))
    times = np.clip(single.times[index] - load.trace.start + shift, 0.0, load.trace.seconds)
    order = np.argsort(times, kind="stable")
    chosen = index[order]
    blocks = None if single.blocks is None else tuple(single.blocks[i] for i in chosen)
    return Requests(times[order], single.prompt[chosen], single.output[chosen], blocks)


def _drawn(load: Load, draw: np.random.Generator) -> Requests:
    step = load.trace.step
    wanted = load.rate * step
    counts = np.floor(wanted + draw.random(wanted.size)).astype(np.int64)
    bins = np.repeat(np.arange(counts.size), counts)
    times = (bins + draw.random(bins.size)) * step
    order = np.argsort(times, kind="stable")
    bins, times = bins[order], times[order]
    lengths = load.lengths
    prompt = _shared(draw, lengths.prompt_cv, bins, load.prompt * step)
    output = _shared(draw, lengths.output_cv, bins, load.output * step)
    return Requests(times, _whole(prompt), _whole(output))


def _shared(draw: np.random.Generator, cv: float, bins: Ints, totals: Floats) -> Floats:
    """Log-normal shares of each bin's tokens, adding up to them."""
    drawn = _log_normal(draw, cv, bins.size)
    counts = np.bincount(bins, weights=drawn, minlength=totals.size)
    each: Floats = drawn * (totals / np.maximum(counts, 1e-12))[bins]
    return each


def _log_normal(draw: np.random.Generator, cv: float, count: int) -> Floats:
    """Draws with mean 1."""
    variance = math.log1p(cv * cv)
    return np.exp(draw.normal(-variance / 2, math.sqrt(variance), count))


def _whole(values: Floats) -> Ints:
    return np.maximum(1, np.round(values)).astype(np.int64)
