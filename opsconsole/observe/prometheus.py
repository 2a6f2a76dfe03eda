"""Replicas as a Prometheus server knows them: its series become pages, read by the same tables as a scraped page.

It must not parse text. One question for the series, one for `up` and when it was scraped. The traps: series of deleted
pods live on for five minutes, so only targets that `up` still knows count; the time of an answer is the time of the
question, so the age of a sample comes from `timestamp(up)`; labels of the target collide with those of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from opsconsole.clock import Clock
from opsconsole.domain.records import Sample, SourceView
from opsconsole.errors import SourceError, SourceErrorKind
from opsconsole.observe.continuity import Continuity, follow
from opsconsole.observe.dialects import DIALECTS
from opsconsole.observe.dialects.normalise import new_memo, normalise
from opsconsole.observe.dialects.vllm import EMBEDDED
from opsconsole.observe.exposition import Page, SeriesMemo
from opsconsole.observe.fetch import FetchFailed
from opsconsole.observe.promql import Answer, PrometheusClient, PrometheusOptions
from opsconsole.observe.source import Observation, ReplicaRef

# labels a server adds to every series of a target; the page's own of that name come back as exported_*
TARGET_LABELS = frozenset({
    "__name__", "job", "instance", "namespace", "pod", "container", "endpoint", "service", "node", "cluster",
    "prometheus", "prometheus_replica", "region", "environment",
})  # fmt: skip
_FREEZE_S = {dialect.engine: dialect.freeze_s for dialect in DIALECTS}
_BARE = ("process_start_time_seconds",)
LOOK_BACK = "1h"  # how long ago an engine may have answered whose targets are all silent now
LOOK_BACK_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class PrometheusSourceOptions:
    """What is asked, how often (seconds), and which labels name replica and pool."""

    matchers: str = ""  # PromQL matchers, such as job="vllm"
    every_s: float = 5.0
    replica_labels: tuple[str, ...] = ("pod", "instance")
    pool_labels: tuple[str, ...] = ("pool", "llm_isvc_name", "job")


Known = Callable[[], Collection[str] | None]
"""Names of pods that a discovery says exist; None where there is no discovery. Targets that are no pods stay."""


class PrometheusSource:
    """A `Source` over one Prometheus server."""

    def __init__(
        self,
        server: PrometheusOptions,
        clock: Clock,
        options: PrometheusSourceOptions | None = None,
        known: Known | None = None,
        memo: SeriesMemo | None = None,
        name: str = "prometheus",
    ) -> None:
        self.name = name
        self.client = PrometheusClient(server, clock.monotonic)
        self._clock, self._options = clock, options or PrometheusSourceOptions()
        self._known = known or (lambda: None)
        self._memo = memo or new_memo()
        self._continuity: dict[str, Continuity] = {}
        self._last: tuple[Observation, ...] = ()
        self._past_jobs: frozenset[str] = frozenset()  # under which an engine answered lately
        self._past_due = float("-inf")
        self._good_at: float | None = None
        self._error: SourceError | None = None
        self._due = float("-inf")

    async def observe(self, now: float) -> tuple[Observation, ...]:
        """The replicas the server scrapes. When it does not answer: those last known, each with the error."""
        if self._clock.monotonic() < self._due:
            return self._last
        self._due = self._clock.monotonic() + self._options.every_s
        try:
            series, up, scraped = await self._ask()
        except FetchFailed as failed:
            self._fail(failed, now)
            return self._last
        warnings = (*series.warnings, *up.warnings, *scraped.warnings)
        self._error = SourceError(SourceErrorKind.PARTIAL, "; ".join(warnings)[:300], now) if warnings else None
        self._good_at = self._clock.now()
        self._last = tuple(self._observations(series, up, scraped, now))
        return self._last

    def status(self) -> SourceView:
        age = None if self._good_at is None else self._clock.now() - self._good_at
        if self._error is None:
            return SourceView(self.name, "prometheus", self._good_at is not None, age)
        kind = self._error.kind.value
        return SourceView(self.name, "prometheus", False, age, self._error.detail, kind, self._error.retry_at)

    async def close(self) -> None:
        await self.client.close()

    async def _ask(self) -> tuple[Answer, Answer, Answer]:
        matchers = self._options.matchers.strip().strip("{}").strip(",")
        comma = "," if matchers else ""
        wanted = f'__name__=~"{names_pattern()}",__name__!~".+_created"{comma}{matchers}'
        series = await self.client.instant(f"{{{wanted}}}")
        up = await self.client.instant(f"up{{{matchers}}}")
        if not matchers and any(points[-1][1] == 0 for _, points in up.series):
            await self._look_back()
        return series, up, await self.client.instant(f"timestamp(up{{{matchers}}})")

    async def _look_back(self) -> None:
        """Which jobs had an engine: where every replica of one is down, nothing of now tells that it is one."""
        if self._clock.monotonic() < self._past_due:
            return
        self._past_due = self._clock.monotonic() + LOOK_BACK_EVERY_S
        try:
            asked = f'count by (job) (last_over_time({{__name__=~"{engine_names_pattern()}"}}[{LOOK_BACK}]))'
            past = await self.client.instant(asked)
        except FetchFailed:
            return  # a server that limits what it reads: what is known stays
        self._past_jobs = frozenset(labels.get("job", "") for labels, _ in past.series)

    def _fail(self, failed: FetchFailed, now: float) -> None:
        attempts = self._error.attempts + 1 if self._error is not None else 1
        since = self._error.since if self._error is not None and self._error.kind is failed.kind else now
        retry_at = self._clock.now() + self._options.every_s
        self._error = SourceError(failed.kind, failed.detail, since, retry_at, attempts)
        self._last = tuple(Observation(o.replica, error=self._error) for o in self._last)

    def _observations(self, series: Answer, up: Answer, scraped: Answer, now: float) -> list[Observation]:
        pages: dict[tuple[str, str], Page] = {}
        for labels, points in series.series:
            self._add(pages.setdefault(_target(labels), Page()), labels, points[-1][1])
        times = {_target(labels): points[-1][1] for labels, points in scraped.series}
        known = self._known()
        self._past_jobs |= self._jobs(pages)  # remembered at once: the server is asked for its past only now and then
        before = {o.replica: o.sample for o in self._last if o.sample is not None}
        found = []
        for labels, points in sorted(up.series, key=lambda entry: _target(entry[0])):
            ref = self._ref(labels)
            if known is not None and labels.get("pod") and ref.name not in known:
                continue  # a ghost: the server has not noticed yet that it is gone
            page, at = pages.get(_target(labels)), times.get(_target(labels), now)
            if points[-1][1] == 0:
                if not (self._options.matchers or labels.get("job") in self._past_jobs or self._was_engine(ref)):
                    continue  # somebody else's target
                words = "the Prometheus server cannot scrape it (up is 0)"
                found.append(Observation(ref, error=SourceError(SourceErrorKind.REFUSED, words, at)))
            elif page is not None:
                found += self._observation(ref, page, at, before.get(ref))
        if self._error is None:  # of an answer in part nobody may conclude who is gone
            listed = {_key(self._ref(labels)) for labels, _ in up.series}
            self._continuity = {key: memory for key, memory in self._continuity.items() if key in listed}
        return found

    def _jobs(self, pages: Mapping[tuple[str, str], Page]) -> set[str]:
        """Jobs under which an engine answers: a silent target of such a job is an engine too."""
        return {job for (job, _), page in pages.items() if normalise(page, 0.0, "").engine is not None}

    def _was_engine(self, ref: ReplicaRef) -> bool:
        return _key(ref) in self._continuity

    def _observation(self, ref: ReplicaRef, page: Page, at: float, before: Sample | None) -> list[Observation]:
        memory, sample = self._follow(ref, normalise(page, at, ref.name), before)
        if sample.engine is None:
            return []  # somebody else's target
        self._continuity[_key(ref)] = memory
        if self._error is not None:
            return [Observation(ref, error=self._error)]  # partial: what is missing would read as zero
        return [Observation(ref, sample, ready=sample.ready, draining=sample.draining)]

    def _follow(self, ref: ReplicaRef, sample: Sample, before: Sample | None) -> tuple[Continuity, Sample]:
        """The same scrape seen twice is not a page that did not move."""
        memory = self._continuity.get(_key(ref), Continuity())
        if before is not None and before.at == sample.at:
            return memory, before
        return follow(memory, sample, _FREEZE_S)

    def _add(self, page: Page, labels: Mapping[str, str], value: float) -> None:
        name = labels.get("__name__", "")
        slot = self._memo.resolve(name)
        if slot is None:
            return
        page.series.append(self._memo.series(name, own_labels(labels), slot))
        page.values.append(value)
        page.lines += 1

    def _ref(self, labels: Mapping[str, str]) -> ReplicaRef:
        name = next((labels[label] for label in self._options.replica_labels if labels.get(label)), "unnamed")
        pool = next((labels[label] for label in self._options.pool_labels if labels.get(label)), "default")
        return ReplicaRef(name, pool, labels.get("instance"), labels.get("node"))


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels the page itself gave: the target's off, `exported_x` back to `x`."""
    own = {name: value for name, value in labels.items() if name not in TARGET_LABELS}
    return {name.removeprefix("exported_"): value for name, value in own.items()}


def _target(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _key(ref: ReplicaRef) -> str:
    return f"{ref.pool}/{ref.name}"


def engine_names_pattern() -> str:
    """A regular expression over names that nobody but an engine gives; an agent of ours gives its own by our name."""
    engines = [d for d in DIALECTS if not d.auxiliary and d is not EMBEDDED]  # which gives vLLM's as well
    prefixes = sorted({prefix.rstrip("_") for d in engines for prefix in d.prefixes})
    return f"(ray_|kserve_)?({'|'.join(prefixes)})[:_].+"


def names_pattern() -> str:
    """A regular expression over every name a table wants, in every rewriting."""
    rewritten = {"vllm", "sglang", "trtllm", "lmdeploy", "llamacpp", "lmcache", "opsconsole"}
    prefixes = {prefix.rstrip("_") for d in DIALECTS for prefix in d.prefixes}
    plain = sorted(prefixes - rewritten)
    bare = sorted({family for d in DIALECTS if not d.prefixes for row in d.fields for family in row.families()})
    parts = [f"(ray_|kserve_)?({'|'.join(sorted(rewritten))})[:_].+", f"({'|'.join(map(re.escape, plain))})_.+"]
    parts += [f"({'|'.join(bare)})(_total|_bucket|_sum|_count)?", *_BARE]
    return "|".join(parts).replace("\\", "\\\\")
