"""What the forecasts had to learn from."""

from __future__ import annotations

import numpy as np
import pytest

from opsconsole.errors import UsageError
from opsconsole.simulate.taught import check_taught, short_history
from opsconsole.simulate.traces import Kind, Trace

SHORTEST = {"predictive": 1500.0, "dynamo-arima": 2250.0, "dynamo-kalman": 2250.0}


def trace(seconds: float) -> Trace:
    return Trace("m", Kind.SYNTHETIC, 10.0, np.ones(round(seconds / 10.0)))


@pytest.mark.parametrize("law", SHORTEST)
def test_forty_percent_of_a_trace_has_to_be_enough_to_learn_from(law: str) -> None:
    check_taught(trace(SHORTEST[law]), ["static", law])
    with pytest.raises(UsageError, match=f"^{law} learns from the first 40 % of a trace, which of m is"):
        check_taught(trace(SHORTEST[law] - 10.0), ["static", law])


def test_laws_that_read_no_forecast_need_none() -> None:
    check_taught(trace(600.0), ["static", "reactive", "dynamo-constant", "oracle"])


def test_a_history_is_short_below_fifteen_hours_for_the_law_that_reads_it() -> None:
    note = short_history("m", 3600.0, ["static", "predictive"])
    assert note is not None and note.startswith("short history: predictive learnt from 1.0 h of m; below 15 h")
    assert short_history("m", 15 * 3600.0, ["predictive"]) is None
    assert short_history("m", 3600.0, ["static", "dynamo-arima"]) is None
