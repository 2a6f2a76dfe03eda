"""What the engine counts, under the names of vLLM's current metrics, and the exact joint counter of SLO outcomes.

Fed from the event loop by finished deltas, never from the step's thread; the gauges are read when somebody scrapes.
It must not know HTTP or torch. Written by hand since a registry with locks has no use here. The trap: prefix-cache
and prompt figures are in tokens, and `vllm:iteration_tokens_total` is a histogram in spite of its name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.core import EngineStats
from engine.request import FinishReason, Request

_LONG = (20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, *_LONG)
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_SECONDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
_PHASE = (*_SECONDS, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)
_ITERATION = (1.0, 8.0, *(float(2**power) for power in range(4, 15)))
_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)


class Histogram:
    """Counts per bucket; cumulative only when it is printed."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(frozen=True, slots=True)
class Condition:
    """What only the server knows at the moment of a scrape."""

    ready: bool
    draining: bool
    streams: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence that is over, as the server saw it: times are those of the reports that carried its tokens."""

    request: Request
    reason: FinishReason
    at: float
    tokens: int  # that count: those after a stop string do not
    first_at: float | None
    last_at: float | None
    n: int  # sequences the call asked for per prompt

    @property
    def tpot_s(self) -> float | None:
        if self.first_at is None or self.last_at is None or self.tokens < 2:
            return None
        return (self.last_at - self.first_at) / (self.tokens - 1)


class EngineMetrics:
    """All families of one engine."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        tokens = _one_two_five(config.max_model_len)
        self.histograms = {
            "vllm:time_to_first_token_seconds": Histogram(_TTFT),
            "vllm:inter_token_latency_seconds": Histogram(_TPOT),
            "vllm:request_time_per_output_token_seconds": Histogram(_TPOT),
            "vllm:e2e_request_latency_seconds": Histogram(_PHASE),
            "vllm:request_queue_time_seconds": Histogram(_PHASE),
            "vllm:request_prefill_time_seconds": Histogram(_PHASE),
            "vllm:request_decode_time_seconds": Histogram(_PHASE),
            "vllm:request_inference_time_seconds": Histogram(_PHASE),
            "vllm:request_prompt_tokens": Histogram(tokens),
            "vllm:request_generation_tokens": Histogram(tokens),
            "vllm:request_params_max_tokens": Histogram(tokens),
            "vllm:request_params_n": Histogram((1.0, 2.0, 5.0, 10.0, 20.0)),
            "vllm:request_num_preemptions": Histogram(_PREEMPTIONS),
            "vllm:iteration_tokens_total": Histogram(_ITERATION),
        }
        self.prompt_tokens = self.generation_tokens = 0
        self.finished: dict[str, int] = {reason.value: 0 for reason in FinishReason}
        self.rejections: dict[str, int] = {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0, "draining": 0}
        self.outcomes: dict[tuple[str, bool], int] = {
            (name, met): 0 for name in config.slo_classes for met in (True, False)
        }
        self.streams_cut = 0  # ended by the deadline of a drain
        self.warm_up = False  # while set, nothing is counted
        self._before = EngineStats(0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0.0)

    def begin(self, stats: EngineStats) -> None:
        """The warm-up is over; what the engine's totals say now is not traffic."""
        self._before = stats

    def stepped(self, tokens: int) -> None:
        if not self.warm_up:
            self.histograms["vllm:iteration_tokens_total"].observe(tokens)

    def token(self, request: Request, at: float, previous: float | None) -> None:
        """One generated token; `previous` is when the sequence got the one before."""
        if self.warm_up:
            return
        self.generation_tokens += 1
        if previous is None:
            self.prompt_tokens += len(request.prompt)
            self.histograms["vllm:time_to_first_token_seconds"].observe(at - request.arrival)
        else:
            self.histograms["vllm:inter_token_latency_seconds"].observe(at - previous)

    def ended(self, sequence: Ended) -> None:
        """One sequence is over."""
        if self.warm_up:
            return
        request, seen = sequence.request, self.histograms
        self.finished[sequence.reason.value] += 1
        seen["vllm:request_prompt_tokens"].observe(len(request.prompt))
        seen["vllm:request_generation_tokens"].observe(sequence.tokens)
        seen["vllm:request_params_max_tokens"].observe(request.params.max_tokens)
        seen["vllm:request_params_n"].observe(sequence.n)
        seen["vllm:request_num_preemptions"].observe(request.preemptions)
        seen["vllm:e2e_request_latency_seconds"].observe(sequence.at - request.arrival)
        if request.scheduled_at is not None:
            seen["vllm:request_queue_time_seconds"].observe(request.scheduled_at - request.arrival)
        if request.scheduled_at is None or sequence.first_at is None or sequence.last_at is None:
            return
        seen["vllm:request_prefill_time_seconds"].observe(sequence.first_at - request.scheduled_at)
        seen["vllm:request_decode_time_seconds"].observe(sequence.last_at - sequence.first_at)
        seen["vllm:request_inference_time_seconds"].observe(sequence.last_at - request.scheduled_at)
        if sequence.tpot_s is not None:
            seen["vllm:request_time_per_output_token_seconds"].observe(sequence.tpot_s)

    def outcome(self, slo_class: str, met: bool) -> None:
        """One call met all its bounds, or did not."""
        if not self.warm_up:
            self.outcomes[slo_class, met] += 1

    def reject(self, reason: str, slo_class: str) -> None:
        """One call was turned away: offered, and not met."""
        self.rejections[reason] += 1
        self.outcome(slo_class, False)

    def expose(self, stats: EngineStats, condition: Condition, process: Iterable[str] = ()) -> str:
        """The page, in the text format 0.0.4."""
        page = _Page({"model_name": self._config.model_name, "engine": "0"})
        self._gauges(page, stats, condition)
        self._counters(page, stats)
        for name, histogram in self.histograms.items():
            page.histogram(name, histogram)
        return page.text() + "".join(f"{line}\n" for line in process)

    def _gauges(self, page: _Page, stats: EngineStats, condition: Condition) -> None:
        config = self._config
        page.single("vllm:num_requests_running", "gauge", stats.running)
        page.single("vllm:num_requests_waiting", "gauge", stats.waiting)
        page.family(
            "vllm:num_requests_waiting_by_reason", "gauge", "reason", {"capacity": stats.waiting, "deferred": 0}
        )
        page.single("vllm:kv_cache_usage_perc", "gauge", stats.kv_usage)
        page.info(
            "vllm:cache_config_info",
            {
                "block_size": str(config.block_size),
                "num_gpu_blocks": str(config.kv_blocks),
                "kv_cache_size_tokens": str(config.kv_tokens),
                "enable_prefix_caching": str(config.prefix_cache),
                "engine": "0",
            },
        )
        page.single("opsconsole:engine_ready", "gauge", int(condition.ready))
        page.single("opsconsole:engine_draining", "gauge", int(condition.draining))
        page.single("opsconsole:streams_running", "gauge", condition.streams)

    def _counters(self, page: _Page, stats: EngineStats) -> None:
        stats = stats.since(self._before)
        by_source = {"local_compute": stats.computed_prompt_tokens, "local_cache_hit": stats.cache_hits}
        page.single("vllm:num_preemptions_total", "counter", stats.preemptions)
        page.single("vllm:prefix_cache_queries_total", "counter", stats.cache_queries)
        page.single("vllm:prefix_cache_hits_total", "counter", stats.cache_hits)
        page.single("vllm:prompt_tokens_total", "counter", self.prompt_tokens)
        page.single("vllm:prompt_tokens_cached_total", "counter", stats.cache_hits)
        page.family("vllm:prompt_tokens_by_source_total", "counter", "source", by_source)
        page.single("vllm:generation_tokens_total", "counter", self.generation_tokens)
        page.family("vllm:request_success_total", "counter", "finished_reason", self.finished)
        page.family("vllm:admission_rejections_total", "counter", "reason", self.rejections)
        page.head("opsconsole:slo_requests_total", "counter")
        for (slo_class, met), count in self.outcomes.items():
            page.sample(
                "opsconsole:slo_requests_total", count, {"slo_class": slo_class, "outcome": "met" if met else "missed"}
            )
        page.single("opsconsole:streams_cut_total", "counter", self.streams_cut)
        page.single("opsconsole:engine_steps_total", "counter", stats.steps)
        page.single("opsconsole:engine_busy_seconds_total", "counter", stats.busy_s)


class _Page:
    """Lines of the exposition, with the labels that every sample carries."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self._lines: list[str] = []

    def head(self, name: str, kind: str) -> None:
        self._lines.append(f"# HELP {name} {_HELP.get(name, name.partition(':')[2].replace('_', ' '))}")
        self._lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, labels: dict[str, str] | None = None) -> None:
        self._lines.append(f"{name}{_braces({**self._labels, **(labels or {})})} {value}")

    def single(self, name: str, kind: str, value: float) -> None:
        self.head(name, kind)
        self.sample(name, value)

    def family(self, name: str, kind: str, label: str, values: dict[str, int]) -> None:
        self.head(name, kind)
        for key, value in values.items():
            self.sample(name, value, {label: key})

    def info(self, name: str, labels: dict[str, str]) -> None:
        self.head(name, "gauge")
        self._lines.append(f"{name}{_braces(labels)} 1")

    def histogram(self, name: str, histogram: Histogram) -> None:
        self.head(name, "histogram")
        cumulative = 0
        for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
            cumulative += count
            self.sample(f"{name}_bucket", cumulative, {"le": "+Inf" if bound == float("inf") else str(bound)})
        self.sample(f"{name}_sum", histogram.total)
        self.sample(f"{name}_count", cumulative)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


_HELP = {
    "vllm:kv_cache_usage_perc": "Fraction of the KV blocks that running requests hold, 0 to 1.",
    "vllm:prefix_cache_queries_total": "Prompt tokens looked up in the prefix cache.",
    "vllm:prefix_cache_hits_total": "Prompt tokens found in the prefix cache.",
    "opsconsole:slo_requests_total": "Requests by class and by whether every bound of it was met.",
    "opsconsole:streams_cut_total": "Streams ended by the deadline of a drain.",
}


def _braces(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _one_two_five(largest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, ... up to the largest that does not exceed the context."""
    series = (float(factor * 10**power) for power in range(10) for factor in (1, 2, 5))
    return tuple(value for value in series if value <= largest) or (1.0,)
