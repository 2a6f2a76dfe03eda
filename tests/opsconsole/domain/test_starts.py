"""Time in start-up phases: credited by tick, forgotten after a day, never across a gap."""

from __future__ import annotations

import pytest

from opsconsole.domain.records import PoolView
from opsconsole.domain.starts import KEEP_S, Starts


def spent(starts: Starts) -> dict[str, float]:
    return dict(starts.told(PoolView("chat")).start_s)


def test_every_starting_replica_is_credited_the_time_since_the_last_tick() -> None:
    starts = Starts()
    for tick in range(6):
        starts = starts.add(1000.0 + 5 * tick, ["load", "load"] if tick < 4 else ["compile"])
    assert spent(starts) == {"load": 30.0, "compile": 10.0}
    assert starts.told(PoolView("chat")).start_since == 1000.0


def test_the_first_tick_and_ticks_without_starts_cost_nothing() -> None:
    starts = Starts().add(10.0, ["load"])
    assert spent(starts) == {} and spent(starts.add(15.0, [])) == {}


def test_a_gap_between_ticks_is_not_time_in_a_phase() -> None:
    starts = Starts().add(0.0, []).add(7200.0, ["pull"])
    assert spent(starts) == {"pull": 60.0}


@pytest.mark.parametrize("later", [KEEP_S + 1800.0, 3 * KEEP_S])
def test_what_is_older_than_a_day_is_forgotten(later: float) -> None:
    starts = Starts().add(0.0, []).add(10.0, ["load"])
    starts = starts.add(later, [])
    told = starts.told(PoolView("chat"))
    assert told.start_s == {} and told.start_since == later - KEEP_S
