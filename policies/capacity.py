"""What one replica serves inside the SLO, learned from the fleet itself, by pool, model and node type.

A pure fold over situations. Two kinds of tick teach: a served one (the SLO held and nothing queued) says that at least
this much is possible; a full one (queue, KV or preemption over their limits) says that no more is. Between them the
estimate moves; before either, the configured or benched value holds, and neither is ever invented. The trap: requests
differ in length, so request rate alone misleads when the mix shifts; token rates are kept beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from policies.memory import Memory, Row
from policies.picture import Picture
from policies.situation import CapacityFacts, Situation
from policies.worth import Rates, prompt_share, worth

KEEP_S = 7 * 86400.0
MOST = 40
SETTLE_S = 60.0  # a limit must hold this long, or rates counted over a window still speak of the time before
RUN = "full-run"
INSIDE = 0.85  # of what a replica does at its limit, how much it does with latency still in hand


def key(pool: str, model: str | None, kind: str | None, sort: str) -> str:
    return f"capacity-{sort}:{pool}|{model or ''}|{kind or ''}"


def is_full(picture: Picture) -> bool:
    """Whether the live replicas are at their limit: then what they serve is what they can."""
    limits, live = picture.situation.thresholds, len(picture.live)
    if not live or picture.silent:
        return False
    queue = picture.waiting is not None and picture.waiting > limits.queue * live
    kv = picture.kv is not None and picture.kv > limits.kv * live and (picture.waiting or 0.0) > 0
    preempt = picture.preempting is not None and picture.preempting > limits.preempt * live
    return queue or kv or preempt


def is_served(situation: Situation, picture: Picture) -> bool:
    """Whether all that arrives is served inside the SLO, as far as anybody can tell."""
    low, target = situation.slo.attainment_low, situation.slo.target
    if low is None or target is None or low < target:
        return False
    return picture.waiting is not None and picture.waiting <= 0.1 * situation.thresholds.queue * len(picture.live)


def learn(picture: Picture, memory: Memory) -> tuple[float, Memory]:
    """Fold one tick in. Served is what left the queue: arrivals less the queue's growth.

    Also says for how many seconds the same replicas have been at their limit.
    """
    situation = picture.situation
    live, demand = len(picture.live), situation.demand
    full = is_full(picture)
    held, memory = _held(memory, situation.now, live, full)
    if not live or not situation.covered or demand.request_rate is None:
        return held, memory
    growth = demand.waiting_growth
    if full:
        if held < max(SETTLE_S, demand.window_s) or growth is None:
            return held, memory
        return held, _remember(picture, memory, "full", max(0.0, demand.request_rate - growth))
    if is_served(situation, picture):
        memory = _remember(picture, memory, "served", max(0.0, demand.request_rate - (growth or 0.0)))
    return held, memory


def _held(memory: Memory, now: float, live: int, full: bool) -> tuple[float, Memory]:
    """For how long the same number of replicas has been at its limit."""
    run = memory.series(RUN)
    if not full:
        return 0.0, memory.with_rows(RUN, ()) if run else memory
    if run and int(run[0][1]) == live:
        return now - run[0][0], memory
    return 0.0, memory.with_rows(RUN, ((now, float(live)),))


def _remember(picture: Picture, memory: Memory, sort: str, served: float) -> Memory:
    situation, live = picture.situation, len(picture.live)
    demand = situation.demand
    row = (situation.now, served / live, (demand.prompt_rate or 0.0) / live, (demand.output_rate or 0.0) / live)
    name = key(situation.pool, situation.model, situation.kind, sort)
    rows = memory.series(name)
    if sort == "served" and rows and not _is_new_high(rows, row):
        return memory
    if sort == "full" and rows and situation.now - rows[-1][0] < situation.interval_s:
        return memory
    return memory.push(name, row, keep_s=KEEP_S, most=MOST)


def facts(situation: Situation, memory: Memory) -> CapacityFacts | None:
    """The capacity that holds now: learned at the limit where seen, else the given one raised by what was served."""
    full = memory.series(key(situation.pool, situation.model, situation.kind, "full"))
    served = memory.series(key(situation.pool, situation.model, situation.kind, "served"))
    given = situation.capacity
    if given is not None and given.prompt_share is not None and (full or served):
        return _rescaled(given, full, served)
    if full:
        at = [INSIDE * _median([row[i] for row in full]) for i in (1, 2, 3)]
        top = [max((row[i] for row in served), default=0.0) for i in (1, 2, 3)]
        rates = [max(a, b) if a > 0 else None for a, b in zip(at, top, strict=True)]
        spread = sorted(INSIDE * row[1] for row in full)
        middle = at[0] or 1.0
        limits = [Rates(*(INSIDE * rate for rate in row[1:])) for row in full]
        learned = CapacityFacts(
            request_rate=rates[0],
            prompt_rate=rates[1],
            output_rate=rates[2],
            low=min(1.0, max(0.5, spread[len(spread) // 4] / middle)),
            high=min(2.0, max(1.0, spread[(3 * len(spread)) // 4] / middle)),
            source="learned",
            samples=len(full),
            prompt_share=prompt_share(rates[1] or 0.0, rates[2] or 0.0, limits),
        )
        if given is None:
            return learned
        return replace(learned, idle_ttft=given.idle_ttft, idle_tpot=given.idle_tpot)
    if given is None or given.request_rate is None or not served:
        return given
    best = max(row[1] for row in served)
    if best <= given.request_rate:
        return given
    return replace(given, request_rate=best, source="learned", samples=len(served))


@lru_cache(maxsize=16)  # asked at every tick, and what was seen changes seldom
def _rescaled(given: CapacityFacts, full: tuple[Row, ...], served: tuple[Row, ...]) -> CapacityFacts:
    """The given capacity, its mix kept, by the one factor that what was seen says it is off by.

    Rates by themselves mislead while the mix moves: a minute of long answers at its limit has few requests a second.
    """
    at = [found for row in full if (found := worth(Rates(*row[1:]), given)) is not None]
    top = [found for row in served if (found := worth(Rates(*row[1:]), given)) is not None]
    if not at and max(top, default=0.0) <= 1.0:
        return given
    factor = max([INSIDE * _median(at) if at else 1.0, *top])
    return replace(
        given,
        request_rate=None if given.request_rate is None else given.request_rate * factor,
        prompt_rate=None if given.prompt_rate is None else given.prompt_rate * factor,
        output_rate=None if given.output_rate is None else given.output_rate * factor,
        source="learned",
        samples=len(at) or len(top),
    )


def _is_new_high(rows: tuple[Row, ...], row: Row) -> bool:
    return all(row[1] > old[1] * 1.02 for old in rows)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
