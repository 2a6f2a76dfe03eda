"""An engine's own prefix statistics: what it says it reused, and how fast it prefills.

Reads the few counters it needs from a metrics page. The trap: zero hits are also what a prefix shorter than one block
looks like, so the finding says both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opsconsole.errors import UsageError
from opsconsole.lint.model import FamilyReport, Finding, Severity
from opsconsole.lint.rules.table import RULES

_SAMPLE = re.compile(rb"^(?P<name>[A-Za-z_:][\w:]*)(?:\{[^}]*\})? (?P<value>[-+0-9.eE]+|NaN)", re.M)
_NAMES = {
    "queries": ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries"),
    "hits": ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits"),
    "prompt": ("vllm:prompt_tokens_total",),
    "prefill_s": ("vllm:request_prefill_time_seconds_sum",),
    "requests": ("vllm:request_prefill_time_seconds_count",),
}


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters of an engine since its start; None where it does not tell."""

    url: str
    queries: float | None
    hits: float | None
    prompt: float | None
    prefill_s: float | None
    requests: float | None

    @property
    def tokens_per_second(self) -> float | None:
        """Prompt tokens computed per second of prefill."""
        if not self.prompt or not self.prefill_s or self.hits is None:
            return None
        return (self.prompt - self.hits) / self.prefill_s if self.prompt > self.hits else None


def read(url: str, page: bytes) -> EngineStats:
    """Statistics of a metrics page; values of several labels are added up."""
    sums: dict[str, float] = {}
    for match in _SAMPLE.finditer(page):
        if match["value"] != b"NaN":
            name = match["name"].decode()
            sums[name] = sums.get(name, 0.0) + float(match["value"])
    found = {key: next((sums[name] for name in names if name in sums), None) for key, names in _NAMES.items()}
    if found["queries"] is None:
        raise UsageError(f"{url}: no prefix-cache counters on this page; give the /metrics of an engine that has them.")
    return EngineStats(url, **found)


def fetch(url: str) -> EngineStats:
    """Ask an engine."""
    import httpx

    address = url if url.endswith("/metrics") else url.rstrip("/") + "/metrics"
    try:
        answer = httpx.get(address, timeout=10.0)
    except httpx.HTTPError as error:
        raise UsageError(f"{address}: no answer ({error}).") from error
    if answer.status_code != 200:
        raise UsageError(f"{address} answered {answer.status_code}; give the /metrics of an engine.")
    return read(address, answer.content)


def report(stats: EngineStats, block: int) -> tuple[FamilyReport, list[Finding]]:
    """The engine as one family, and a finding where nothing at all is reused."""
    queries, hits = int(stats.queries or 0), int(stats.hits or 0)
    family = FamilyReport("all traffic", int(stats.requests or 0), queries, hits, hits, stats.url)
    if hits or queries < 10_000:
        return family, []
    rule = RULES["PX501"]
    text = (
        f"{queries:,} prompt tokens were looked up and none was found: the shared prefix is shorter than one block "
        f"({block} tokens, or several hundred for hybrid models), or it is broken; lint a request log to tell which"
    )
    found = Finding("PX501", Severity.INFO, text, stats.url, 1, path=stats.url, family=family.name, advice=rule.how)
    return family, [found]
