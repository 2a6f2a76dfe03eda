"""How much of a trace teaches the forecasts before scoring begins, and how much each law needs.

Pure arithmetic. The trap: a law without its forecast raises nothing, it decides as it would without one, and its row
would be read as what the forecast is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

from forecaster.conformal import COLD_MIN
from forecaster.planners import INTERVAL_S
from opsconsole.errors import UsageError
from opsconsole.simulate.backtest import WARM_SHARE
from opsconsole.simulate.traces import FEWEST_S, Trace
from policies.registry import REGISTRY

READER = "predictive"
LEAST_S = 600.0  # for the forecaster
LEAST_PLANNED_S = 5 * INTERVAL_S  # for the planners, which see one value an interval


def check_taught(trace: Trace, laws: Sequence[str]) -> None:
    """Refuse laws whose forecast would have next to nothing to learn from; a trace too short for any law is refused
    elsewhere."""
    if trace.seconds < FEWEST_S:
        return
    span = WARM_SHARE * trace.seconds
    for law in laws:
        needed = max(LEAST_S if law == READER else 0.0, LEAST_PLANNED_S if REGISTRY[law].needs else 0.0)
        if span < needed:
            raise UsageError(
                f"{law} learns from the first {100 * WARM_SHARE:.0f} % of a trace, which of {trace.name} is "
                f"{span / 60:.1f} min and has to be {needed / 60:g}: give {needed / WARM_SHARE / 60:g} min of trace or "
                f"more, or leave {law} out of --policy."
            )


def short_history(trace: str, span: float, laws: Sequence[str]) -> str | None:
    """A warning where one of the laws reads a forecast that does not know the load's own growth yet."""
    if READER not in laws or span / 60.0 >= COLD_MIN:
        return None
    return (
        f"short history: {READER} learnt from {span / 3600:.1f} h of {trace}; below {COLD_MIN / 60:g} h shipped growth "
        f"ratios widen its forecast, which costs GPU-hours that a longer trace may not"
    )
