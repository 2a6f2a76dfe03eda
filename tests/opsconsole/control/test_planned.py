"""Forecasts asked for by name: made elsewhere from whole intervals, and read by the law that needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forecaster.worker import Worker
from opsconsole.control.foresight import foresight_options
from opsconsole.control.planned import Planned
from opsconsole.control.settings import AgentSettings, PoolSettings
from opsconsole.domain.fleet import PoolSpec


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(lambda: 0.0)
    yield made
    made.close()


def fed(planned: Planned, intervals: int, start: float = 0.0) -> None:
    for second in range(0, intervals * 180 + 5, 5):
        planned.add(start + second, 2.0 + (start + second) // 180)


def test_the_next_interval_is_said_by_each_that_is_asked_for(worker: Worker) -> None:
    planned = Planned("chat", ("kalman", "arima", "nobody"), worker)
    fed(planned, 8)
    assert planned.outlooks() == {}, "nothing waits for them"
    worker.finish()
    planned.add(8 * 180.0 + 10, 9.0)
    assert set(planned.outlooks()) == {"kalman:requests/s", "arima:requests/s"}
    said = planned.outlooks()["kalman:requests/s"]
    assert said.leads == (180.0,) and said.quantiles[0][0] == pytest.approx(10.0, abs=0.5), "the trend goes on"


def test_half_an_interval_is_no_observation_and_no_need_asks_nobody(worker: Worker) -> None:
    planned = Planned("chat", ("kalman",), worker)
    fed(planned, 1, start=120.0)  # a minute of the first interval, two of the second
    assert not worker.is_asked("plan/chat/kalman")
    quiet = Planned("chat", (), worker)
    fed(quiet, 8)
    worker.finish()
    assert quiet.outlooks() == {}


def test_what_the_laws_in_force_and_beside_them_need_is_made(tmp_path: Path) -> None:
    pools = (PoolSettings(PoolSpec("a"), policy="dynamo-kalman"), PoolSettings(PoolSpec("b"), policy="mine"))
    options = foresight_options(AgentSettings(tmp_path, pools=pools, baselines=("dynamo-arima", "reactive")))
    assert options.needs == ("arima", "kalman")
