"""The live forecast: from ticks to outlooks and views, with the history of the database, and nothing without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forecaster.worker import Worker
from opsconsole.clock import ManualClock, SystemClock
from opsconsole.control.demand import SeriesOptions
from opsconsole.control.foresight import Foresight, ForesightOptions, foresight_options
from opsconsole.control.settings import AgentSettings, PoolSettings
from opsconsole.control.warming import UNITS, warm
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import FleetSnapshot, PoolView
from opsconsole.history.store import Store
from policies.outlook import is_sound

START = 1_700_000_000.0 // 60 * 60
MINUTES = SeriesOptions(interval_s=5.0)


def tick(number: int, at: float, rate: float | None = 4.0, *, covered: bool = True) -> FleetSnapshot:
    tokens = None if rate is None else rate * 100
    view = PoolView("chat", request_rate=rate, prompt_rate=tokens, output_rate=tokens, covered=covered)
    return FleetSnapshot(number, at, "f", "advise", pools=(view,), interval=5.0)


def recorded(path: Path, minutes: int, rate: float = 4.0) -> Path:
    store = Store(path)
    for minute in range(minutes):
        store.write_tick(tick(minute + 1, START + minute * 60.0 + 0.5, rate))
    store.close()
    return path


@pytest.fixture
def foresight() -> Iterator[Foresight]:
    made = Foresight(ForesightOptions(MINUTES), ManualClock())
    yield made
    made.close()


def test_each_demand_has_its_outlook_with_leads_from_now(foresight: Foresight) -> None:
    for second in range(0, 306, 5):
        foresight.observe(tick(second, START + second))
    outlooks = foresight.outlooks("chat", START + 320.0)
    assert set(outlooks) == set(UNITS)
    assert all(is_sound(o) and o.unit == unit for unit, o in outlooks.items())
    assert outlooks["requests/s"].leads[0] == 40.0, "made at 300 s for 360 s"
    assert outlooks["prompt tokens/s"].quantiles[0][3] == pytest.approx(400.0)
    assert foresight.outlooks("other", START) == {}


def test_screens_see_levels_members_and_how_it_went_so_far(foresight: Foresight) -> None:
    for minute in range(15):
        foresight.observe(tick(minute, START + 60.0 * minute + 59.0, 4.0 + minute % 2))
    view = next(v for v in foresight.views() if v.unit == "requests/s")
    assert (view.pool, view.step, view.made_at) == ("chat", 60.0, START + 14 * 60.0)
    assert [record.scored for record in view.record] == [14 - minute for minute in range(1, 13)]
    assert all(len(record.coverage) == len(view.levels) for record in view.record)
    assert view.record[0].skill is not None and view.record[0].skill > 0, "a mean beats last value on a zigzag"
    assert sum(view.weights.values()) > 0.9


def test_a_pool_of_which_a_replica_is_silent_is_a_gap(foresight: Foresight) -> None:
    for second in range(0, 300, 5):
        foresight.observe(tick(second, START + second, 4.0, covered=second < 200))
    foresight.observe(tick(300, START + 300, 4.0))
    view = foresight.views()[0]
    assert any("20 % of the history is missing" in warning for warning in view.warnings)


def test_a_pool_that_is_gone_is_forgotten(foresight: Foresight) -> None:
    for second in range(0, 306, 5):
        foresight.observe(tick(second, START + second))
    foresight.observe(FleetSnapshot(400, START + 310, "f", "advise"))
    assert foresight.views() == () and foresight.outlooks("chat", START + 310) == {}


def test_history_is_read_beside_the_ticks_and_taken_when_it_is_there(tmp_path: Path) -> None:
    path = recorded(tmp_path / "opsconsole.db", 120)
    worker = Worker(SystemClock().monotonic)
    made = Foresight(ForesightOptions(MINUTES, path, fits=False), SystemClock(), worker)
    now = START + 120 * 60.0
    try:
        made.observe(tick(1000, now))
        assert made.outlooks("chat", now) == {}, "nothing waits for it"
        worker.finish()
        made.observe(tick(1001, now + 5.0))
        view = next(v for v in made.views() if v.unit == "requests/s")
        assert "short history (121 min" in view.warnings[0]
        assert view.record[0].scored > 100, "its record comes with it"
    finally:
        made.close()


def test_a_history_that_cannot_be_read_is_begun_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "opsconsole.db"
    path.write_text("no database")
    worker = Worker(SystemClock().monotonic)
    made = Foresight(ForesightOptions(MINUTES, path, fits=False), SystemClock(), worker)
    try:
        made.observe(tick(0, START))
        worker.finish()
        for second in range(5, 300, 5):
            made.observe(tick(second, START + second))
        assert made.views() and "begin without history" in caplog.text
    finally:
        made.close()


def test_a_single_decision_waits_for_the_history(tmp_path: Path) -> None:
    path = recorded(tmp_path / "opsconsole.db", 30)
    made = Foresight(ForesightOptions(MINUTES, path, START + 600.0, fits=False, waits=True), ManualClock())
    made.observe(tick(1000, START + 1800.0))
    assert "short history (21 min" in made.views()[0].warnings[0], "nothing older than asked for is read"
    made.close()


def test_a_compressed_history_is_read_by_tick(tmp_path: Path) -> None:
    store = Store(tmp_path / "opsconsole.db")
    for second in range(40):
        store.write_tick(tick(second + 1, START + second + 0.3, 2.0))
    store.close()
    options = SeriesOptions(time_scale=360.0, interval_s=1.0, window_s=10.0)
    made = warm(str(tmp_path / "opsconsole.db"), "chat", options, START + 10.0, START + 40.0)
    assert set(made) == set(UNITS) and made["requests/s"].end == START + 40.0
    assert warm(str(tmp_path / "opsconsole.db"), "nobody", options, START, START + 40.0) == {}


def test_leads_reach_three_cold_starts(tmp_path: Path) -> None:
    pools = (PoolSettings(PoolSpec("a"), lead_s=30.0), PoolSettings(PoolSpec("b"), lead_s=900.0))
    options = foresight_options(AgentSettings(tmp_path, interval_s=5.0, pools=pools))
    assert options.series.reach_s == 2705.0 and options.series.leads[-1] >= 2705.0
    assert options.database == tmp_path / "opsconsole.db"
