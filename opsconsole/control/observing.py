"""From sources to one snapshot: ask all at once with a deadline, fold, and let no single replica or source stop it.

It knows sources and the fold and nothing of decisions. The trap: a source that raises or hangs is a failing source
with a name, and an observation the fold cannot take is dropped by name; an empty fleet is only ever told by a source
that is well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opsconsole.control.settings import AgentSettings
from opsconsole.domain.fleet import FleetState, fold
from opsconsole.domain.records import FleetSnapshot, SourceView
from opsconsole.domain.replica import Observation
from opsconsole.observe.recorded import as_observed
from opsconsole.observe.source import Source

log = logging.getLogger(__name__)
Queue = Callable[[], Awaitable[float | None]]  # requests waiting in front of a pool; None where that is not known now


class Gathered(NamedTuple):
    """What the sources said in one tick."""

    observations: tuple[Observation, ...]
    sources: tuple[SourceView, ...]


@dataclass(frozen=True, slots=True)
class FoldInput:
    """What a fold needs besides observations and state."""

    tick: int
    at: float
    settings: AgentSettings
    want: Mapping[str, int]
    sources: tuple[SourceView, ...] = ()
    notes: tuple[str, ...] = ()


async def gather(sources: Sequence[Source], now: float, deadline_s: float) -> Gathered:
    """Ask every source at once; those that raise or take too long are told as failing."""
    answers = await asyncio.gather(*(_ask(source, now, deadline_s) for source in sources))
    return Gathered(tuple(o for found, _ in answers for o in found), tuple(view for _, view in answers))


async def waiting_in_front(queues: Mapping[str, Queue], deadline_s: float) -> dict[str, float]:
    """What each pool's router holds back now; a router that does not tell is left out, and nothing waits for it."""
    told = await asyncio.gather(*(_length(pool, queue, deadline_s) for pool, queue in queues.items()))
    return {pool: length for pool, length in zip(queues, told, strict=True) if length is not None}


async def _length(pool: str, queue: Queue, deadline_s: float) -> float | None:
    try:
        return await asyncio.wait_for(queue(), deadline_s)
    except TimeoutError:
        return None
    except Exception:
        log.exception("the queue in front of %s cannot be read", pool)
        return None


async def _ask(source: Source, now: float, deadline_s: float) -> tuple[tuple[Observation, ...], SourceView]:
    try:
        found = await asyncio.wait_for(source.observe(now), deadline_s)
        return found, source.status()
    except TimeoutError:
        problem, kind = f"no answer within {deadline_s:g} s", "timeout"
    except Exception as error:
        log.exception("source %s raised", source.name)
        problem, kind = f"{type(error).__name__}: {error}", "internal"
    return (), SourceView(source.name, type(source).__name__, False, error=problem, error_kind=kind)


def safe_fold(
    given: FoldInput, observations: Sequence[Observation], state: FleetState
) -> tuple[FleetSnapshot, FleetState]:
    """Fold; when that fails, without the observations that make it fail, named in the notes."""
    try:
        return _fold(given, observations, state)
    except Exception:
        log.exception("the fold failed; looking for the replica that makes it fail")
    good = [o for o in observations if _foldable(given, o, state)]
    names = ", ".join(o.replica.name for o in observations if o not in good)
    told = replace(given, notes=(*given.notes, f"left out, their pages break the fold: {names or 'none by itself'}"))
    try:
        return _fold(told, good, state)
    except Exception:
        log.exception("the fold failed without them too; starting its memory afresh")
    try:
        return _fold(told, good, FleetState())
    except Exception as error:
        log.exception("the fold failed from nothing")
        broken = SourceView("fold", "internal", False, error=f"{type(error).__name__}: {error}", error_kind="internal")
        told = replace(told, sources=(*told.sources, broken))
        return _fold(told, (), FleetState())


def _foldable(given: FoldInput, observation: Observation, state: FleetState) -> bool:
    try:
        _fold(given, [observation], state)
    except Exception:
        return False
    return True


def _fold(given: FoldInput, observations: Sequence[Observation], state: FleetState) -> tuple[FleetSnapshot, FleetState]:
    settings = given.settings
    return fold(
        given.tick,
        given.at,
        observations,
        [replace(pool.spec, role=pool.role) for pool in settings.pools],
        state,
        want=given.want,
        sources=given.sources,
        fleet=settings.fleet,
        mode=settings.mode.value,
        can_act=settings.allow_intents,
        interval=settings.interval_s,
        notes=given.notes,
        options=settings.options,
    )


def remembered(snapshots: Sequence[FleetSnapshot], settings: AgentSettings) -> FleetState:
    """The fold's memory rebuilt from past snapshots, oldest first, so that rates and burn survive a restart."""
    state = FleetState()
    for past in snapshots:
        observations = tuple(as_observed(view, past) for view in past.replicas)
        try:
            _, state = _fold(FoldInput(past.tick, past.at, settings, {}, past.sources), observations, state)
        except Exception:
            log.exception("tick %d of the history cannot be folded", past.tick)
    return state
