"""Direct scraping: every target asked once a tick, all at once, each with a deadline and back-off of its own.

It must not know where targets come from. A target that fails is an observation with an error; a target that is slow is
reported as such in this tick and its page is delivered in the next, so nobody waits for it. The trap: a back-off that
grows for ever hides a recovery; it is capped, and one lone failure is tried again at once.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from opsconsole.clock import Clock
from opsconsole.domain.records import Sample, SourceView
from opsconsole.errors import SourceError, SourceErrorKind
from opsconsole.observe.continuity import Continuity, follow
from opsconsole.observe.dialects import DIALECTS
from opsconsole.observe.dialects.normalise import new_memo, normalise
from opsconsole.observe.exposition import SeriesMemo
from opsconsole.observe.fetch import Body, Fetcher, FetchFailed, FetchOptions
from opsconsole.observe.layout import Layouts, PageReader
from opsconsole.observe.page import open_page
from opsconsole.observe.source import Observation, Target, TargetProvider

FREEZE_S = {dialect.engine: dialect.freeze_s for dialect in DIALECTS}
CHANGE_SHOWN_S = 60.0  # an engine that changed under its address is an event worth a minute
SKEW_S = 5.0  # a Date header this far off means that one of the clocks is wrong
NOTICES = frozenset({SourceErrorKind.ENGINE_CHANGED, SourceErrorKind.CLOCK_SKEW})  # said beside a good sample
SPREAD_FROM = 32  # targets; fewer make no burst worth spreading
LARGE_BYTES = 2**20  # such a page is read in a thread: its seconds must not be everybody's
TOGETHER = 25  # of a spread tick's requests: pages that come together find code and tables in the CPU's caches


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """How a tick's scrapes are paced, seconds."""

    fetch: FetchOptions = field(default_factory=FetchOptions)
    budget_s: float = 0.8  # how long one `observe` waits for answers
    spread_s: float = 0.3  # requests of one tick are spread over this
    backoff_s: float = 1.0  # after the second failure in a row, doubling
    backoff_max_s: float = 15.0


@dataclass(slots=True)
class _State:
    """What is remembered of one target."""

    target: Target
    phase: float  # 0..1, its place in the spread; stable, so that its samples are evenly spaced
    reader: PageReader
    task: asyncio.Task[Observation] | None = None
    continuity: Continuity = field(default_factory=Continuity)
    error: SourceError | None = None
    failures: int = 0
    next_try: float = 0.0  # monotonic
    answered_at: float | None = None


class ScrapeSource:
    """A `Source` over the targets of a provider. The fetcher and the memo may be shared between sources."""

    def __init__(
        self,
        targets: TargetProvider,
        clock: Clock,
        options: ScrapeOptions | None = None,
        fetcher: Fetcher | None = None,
        memo: SeriesMemo | None = None,
        name: str = "scrape",
    ) -> None:
        self.name = name
        self._provider = targets
        self._clock = clock
        self._options = options or ScrapeOptions()
        self._fetcher = fetcher or Fetcher(self._options.fetch)
        self._owns_fetcher = fetcher is None
        self._layouts = Layouts(memo or new_memo())
        self._states: dict[tuple[str, str], _State] = {}
        self._provider_error: str | None = None

    async def observe(self, now: float) -> tuple[Observation, ...]:
        """Ask every target that is due; answers that are late come with the next call."""
        targets = await self._targets(now)
        duplicates = self._follow_targets(targets)
        spread = self._options.spread_s if len(targets) >= SPREAD_FROM else 0.0
        groups = max(1, len(targets) // TOGETHER)
        for state in self._states.values():
            if state.task is None and state.target.url and self._clock.monotonic() >= state.next_try:
                state.task = asyncio.create_task(self._scrape(state, spread * int(state.phase * groups) / groups))
        running = [state.task for state in self._states.values() if state.task is not None]
        if running:
            await asyncio.wait(running, timeout=self._options.budget_s)
        found = [self._collect(state, now) for state in self._states.values()]
        return tuple(found + [self._duplicate(target, now) for target in duplicates])

    def status(self) -> SourceView:
        provider = self._provider.status()
        states = [s for s in self._states.values() if s.target.url]
        failing = [s for s in states if s.error is not None and s.error.kind not in NOTICES]
        answered = [s.answered_at for s in states if s.answered_at is not None]
        age = self._clock.now() - max(answered) if answered else None
        if self._provider_error is not None:
            return SourceView(self.name, "scrape", False, age, self._provider_error, SourceErrorKind.INTERNAL.value)
        if not provider.ok:
            return SourceView(self.name, "scrape", False, age, provider.error, provider.error_kind, provider.retry_at)
        if not failing:
            return SourceView(self.name, "scrape", True, age)
        kinds = Counter(s.error.kind.value for s in failing if s.error is not None)
        words = f"{len(failing)} of {len(states)} targets fail: " + ", ".join(f"{k} ({n})" for k, n in kinds.items())
        return SourceView(self.name, "scrape", len(failing) < len(states), age, words, kinds.most_common(1)[0][0])

    async def close(self) -> None:
        tasks = [state.task for state in self._states.values() if state.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._states.clear()
        await self._provider.close()
        if self._owns_fetcher:
            await self._fetcher.close()

    async def _targets(self, now: float) -> Sequence[Target]:
        """A provider must not raise; one that does costs nobody the tick, and the targets known stay."""
        try:
            targets = await self._provider.targets(now)
        except Exception as error:
            self._provider_error = f"{type(error).__name__}: {error}"
            return [state.target for state in self._states.values()]
        self._provider_error = None
        return targets

    def _follow_targets(self, targets: Sequence[Target]) -> list[Target]:
        """Take over new facts about targets, forget those that are gone, and find the ones named twice."""
        urls: set[str] = set()
        kept: dict[tuple[str, str], _State] = {}
        duplicates: list[Target] = []
        for target in targets:
            key = (target.replica.pool, target.replica.name)
            address = canonical_url(target.url) if target.url else None
            if key in kept or (address is not None and address in urls):
                duplicates.append(target)
                continue
            if address is not None:
                urls.add(address)
            state = self._states.pop(key, None)
            if state is not None and state.target.url == target.url:
                state.target = target
            else:
                _cancel(state)
                state = _State(target, zlib.crc32("/".join(key).encode()) / 2**32, PageReader(self._layouts))
            kept[key] = state
        for gone in self._states.values():
            _cancel(gone)
        self._states = kept
        return duplicates

    async def _scrape(self, state: _State, delay: float) -> Observation:
        """One target, whatever happens to it: the result is a value."""
        if delay > 0:
            await self._clock.sleep(delay)
        try:
            body = await self._fetcher.fetch(state.target.url or "", state.target.headers)
            large = len(body.data) > LARGE_BYTES
            sample = await asyncio.to_thread(self._read, state, body) if large else self._read(state, body)
        except FetchFailed as failed:
            return self._failed(state, failed.kind, failed.detail)
        except Exception as error:  # the loop must not die of one replica, whatever its page does to us
            return self._failed(state, SourceErrorKind.INTERNAL, f"{type(error).__name__}: {error}")
        return self._answered(state, sample, body)

    def _read(self, state: _State, body: Body) -> Sample:
        page = open_page(body.data, state.reader, complete=body.complete)
        at = self._clock.now()
        state.continuity, sample = follow(state.continuity, normalise(page, at, state.target.replica.name), FREEZE_S)
        return sample

    def _answered(self, state: _State, sample: Sample, body: Body) -> Observation:
        state.failures, state.next_try, state.answered_at = 0, 0.0, sample.at
        memory = state.continuity
        state.error = None
        if memory.changed_at is not None and sample.at - memory.changed_at < CHANGE_SHOWN_S:
            words = f"was {memory.changed_from}, now answers as {sample.engine}"
            state.error = SourceError(SourceErrorKind.ENGINE_CHANGED, words, memory.changed_at)
        elif body.server_time is not None and abs(body.server_time - sample.at) > SKEW_S:
            words = f"its clock is {body.server_time - sample.at:+.0f} s from ours"
            state.error = SourceError(SourceErrorKind.CLOCK_SKEW, words, sample.at)
        return _observation(state, sample)

    def _failed(self, state: _State, kind: SourceErrorKind, detail: str) -> Observation:
        state.failures += 1
        options, now = self._options, self._clock.now()
        # the first failure is tried again at the next tick; then 1, 2, 4 s and so on, a little apart for each target
        wait = 0.0 if state.failures < 2 else min(options.backoff_max_s, options.backoff_s * 2 ** (state.failures - 2))
        wait *= 0.9 + 0.2 * state.phase
        state.next_try = self._clock.monotonic() + wait
        since = state.error.since if state.error and state.error.kind is kind and state.failures > 1 else now
        state.error = SourceError(kind, detail, since, now + wait if wait else None, state.failures)
        return _observation(state, None)

    def _collect(self, state: _State, now: float) -> Observation:
        task = state.task
        if task is None:
            return _observation(state, None)  # backing off, or nothing to ask yet
        if not task.done():
            if state.error is not None:
                return _observation(state, None)
            error = SourceError(SourceErrorKind.TIMEOUT, f"no answer within {self._options.budget_s:g} s yet", now)
            return _observation(state, None, error)
        state.task = None
        if task.cancelled():
            return _observation(state, None)
        return task.result()

    def _duplicate(self, target: Target, now: float) -> Observation:
        words = f"{target.url or target.replica.name} is named more than once; it is counted once"
        # a name of its own, and no GPUs: it must not stand for the one that counts
        again = replace(target.replica, name=f"{target.replica.name} (again)", gpus=None)
        return Observation(again, error=SourceError(SourceErrorKind.DUPLICATE, words, now))


def _cancel(state: _State | None) -> None:
    if state is not None and state.task is not None:
        state.task.cancel()


def _observation(state: _State, sample: Sample | None, error: SourceError | None = None) -> Observation:
    """Joins what the page says with what the discovery knows; the page knows better."""
    target = state.target
    ready = sample.ready if sample is not None and sample.ready is not None else target.ready
    draining = sample.draining if sample is not None and sample.draining is not None else target.draining
    return Observation(
        target.replica,
        sample,
        error or state.error,
        ready=ready,
        draining=draining,
        phase=target.phase,
        expected_ready_at=target.expected_ready_at,
        waits_for=target.waits_for,
    )


@lru_cache(maxsize=8192)  # the same addresses come with every tick
def canonical_url(url: str) -> str:
    """Two spellings of one address compare equal: case of the host, the default port, a trailing slash."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return urlunsplit((parts.scheme, f"{host}:{port}", parts.path.rstrip("/") or "/", parts.query, ""))
