"""The lead is learned from first starts: not from a process that fell, not from weights that slept, not from a lie."""

from __future__ import annotations

import pytest

from opsconsole.control.deciding import Decider
from opsconsole.control.first_starts import LONGEST_START_S
from opsconsole.control.settings import PoolSettings
from opsconsole.domain.fleet import PoolSpec
from policies.registry import policy
from policies.situation import Limits, ReplicaFacts, Situation, State

POOL = PoolSettings(PoolSpec("chat", "m", 1, 8), Limits(1, 8), "reactive")
BORN = 1.8e9


def lead_after(*states: tuple[float, State], born: float | None = BORN, decider: Decider | None = None) -> float | None:
    """Seconds of lead that were learned from a replica seen in these states at these seconds after `BORN`."""
    deciding = decider or Decider(policy)
    for after, state in states:
        replica = ReplicaFacts("r0", state, waiting=0.0, running=0.0, kv_usage=0.0, started_at=born)
        situation = Situation(BORN + after, "chat", "m", 1, (replica,), limits=POOL.limits, interval_s=5.0)
        (decided,) = deciding.decide([(situation, POOL)])
    return None if decided.view.lead_assumed else decided.view.lead


def test_a_first_start_teaches_the_lead() -> None:
    assert lead_after((10.0, "warming"), (95.0, "warming"), (100.0, "ok"), (105.0, "ok")) == pytest.approx(105.0)


def test_a_replica_that_served_and_warms_up_again_teaches_nothing_more() -> None:
    first: tuple[tuple[float, State], ...] = ((10.0, "warming"), (100.0, "ok"))
    again: tuple[tuple[float, State], ...] = ((3000.0, "warming"), (3060.0, "warming"), (3090.0, "ok"))
    assert lead_after(*first, *again) == pytest.approx(105.0)


def test_one_that_was_found_serving_and_then_sleeps_teaches_nothing() -> None:
    assert lead_after((900.0, "ok"), (1800.0, "warming"), (1830.0, "ok")) is None


def test_a_name_that_is_given_again_is_a_new_replica() -> None:
    decider = Decider(policy)
    lead_after((10.0, "warming"), (100.0, "ok"), decider=decider)
    found = lead_after((5000.0, "warming"), (5200.0, "ok"), born=BORN + 5000.0, decider=decider)
    assert found == pytest.approx(205.0)  # the slowest of two, plus one interval


@pytest.mark.parametrize("born", [0.0, BORN - 30 * 86_400.0, BORN - LONGEST_START_S])
def test_a_start_longer_than_any_start_is_not_believed(born: float) -> None:
    """An agent that was started meanwhile sees an old pod warm up, and cannot know that it served before."""
    assert lead_after((10.0, "warming"), (60.0, "ok"), born=born) is None


def test_a_creation_in_the_future_or_unknown_teaches_nothing() -> None:
    assert lead_after((10.0, "warming"), (60.0, "ok"), born=BORN + 500.0) is None
    assert lead_after((10.0, "warming"), (60.0, "ok"), born=None) is None
