"""Forecasts of a past moment: what the laws were given when they decided, as the screens read forecasts.

Pure. It knows how a situation is kept with its decision, and that is all that is left of a forecast. The trap: skill
and coverage were not kept then and what is known of them now is not of then, so a past forecast has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opsconsole.domain.records import ForecastView
from opsconsole.domain.wire import WireError, from_json
from opsconsole.history.reader import PastDecision

UNITS = ("requests/s", "prompt tokens/s", "output tokens/s")  # in the order of the present ones


def forecasts_then(decisions: Iterable[PastDecision]) -> tuple[ForecastView, ...]:
    """One view for each pool and unit a decision was given; none where no forecast was, or it cannot be read."""
    found: list[ForecastView] = []
    for past in decisions:
        kept = past.situation.get("outlooks") if isinstance(past.situation, Mapping) else None
        views = [_view(past, item) for item in kept.values()] if isinstance(kept, Mapping) else []
        found += sorted((view for view in views if view is not None), key=_order)
    return tuple(found)


def _view(past: PastDecision, item: Any) -> ForecastView | None:
    if not isinstance(item, Mapping):
        return None
    names = ("leads", "levels", "quantiles", "unit", "model")
    told = {name: item[name] for name in names if name in item}
    try:
        return from_json(ForecastView, {"pool": past.decision.pool, "unit": "", "made_at": past.at, **told})
    except WireError:
        return None


def _order(view: ForecastView) -> int:
    return UNITS.index(view.unit) if view.unit in UNITS else len(UNITS)
