"""Which of a replica's data-parallel ranks stand still with load while others move.

A pure fold over samples, for the replica's state and for doctor alike. It must not know how ranks are told on a page.
The trap: the replica's own counters are sums, so a rank that hangs hides behind one that works; and a rank without
load, or all of them still, is not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from opsconsole.domain.records import RankLoad, Sample


class Standing(NamedTuple):
    """What is remembered of one rank between pages; times are those of pages."""

    steps: float
    moved_at: float | None = None  # when its steps were last seen to move
    still_since: float | None = None  # the first page that shows these steps with load ever since


def stood(before: Mapping[str, Standing], sample: Sample) -> dict[str, Standing]:
    """One more page. A rank whose steps are unknown is forgotten: it may have moved."""
    return {
        rank.rank: _one(before.get(rank.rank), rank, rank.steps, sample.at)
        for rank in sample.ranks
        if rank.steps is not None
    }


def _one(before: Standing | None, rank: RankLoad, steps: float, at: float) -> Standing:
    is_loaded = (rank.running or 0.0) > 0 or (rank.waiting or 0.0) > 0
    since = at if is_loaded else None
    if before is None:
        return Standing(steps, None, since)
    if steps != before.steps:
        return Standing(steps, at, since)
    known = before.still_since
    return Standing(steps, before.moved_at, known if is_loaded and known is not None else since)


def stalled(standings: Mapping[str, Standing], at: float, patience_s: float) -> dict[str, float]:
    """Seconds that a rank has stood still with load, for each that did so for `patience_s` while another moved."""
    if len(standings) < 2:
        return {}
    moved_at = max((s.moved_at for s in standings.values() if s.moved_at is not None), default=None)
    if moved_at is None:
        return {}
    return {
        rank: at - s.still_since
        for rank, s in standings.items()
        if s.still_since is not None and at - s.still_since >= patience_s and moved_at > s.still_since
    }
