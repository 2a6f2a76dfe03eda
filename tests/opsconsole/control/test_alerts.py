"""Alerts wait, fire once, resolve, and keep quiet when told to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsconsole.control.alerts import RULES, AlertBook, Silence
from opsconsole.control.settings import AlertSettings
from opsconsole.domain.records import (
    FleetSnapshot,
    Interval,
    PoolView,
    ReplicaState,
    ReplicaView,
    SloView,
    SourceView,
)

START = 1000.0
CALM = FleetSnapshot(1, START, "f", "act", pools=(PoolView("chat", want=1, ready=1),))
DOWN = replace(CALM, replicas=(ReplicaView("r0", "chat", ReplicaState.DOWN, "refused"),))
NONE = AlertSettings()


def at(snapshot: FleetSnapshot, seconds: float) -> FleetSnapshot:
    return replace(snapshot, at=START + seconds)


def test_a_condition_must_hold_before_anybody_is_told_and_then_is_told_once() -> None:
    book, changes = AlertBook().update(at(DOWN, 0), NONE)
    assert [a.state for a in book.views()] == ["pending"] and changes == ()
    book, changes = book.update(at(DOWN, 15), NONE)
    assert [(c.alert.rule, c.fired) for c in changes] == [("replica-down", True)]
    book, changes = book.update(at(DOWN, 16), NONE)
    assert changes == () and book.views()[0].since == START
    book, changes = book.update(at(CALM, 17), NONE)
    assert [c.fired for c in changes] == [False] and book.views() == ()


def test_a_condition_that_comes_and_goes_starts_over() -> None:
    book, _ = AlertBook().update(at(DOWN, 0), NONE)
    book, _ = book.update(at(CALM, 10), NONE)
    book, changes = book.update(at(DOWN, 16), NONE)
    assert changes == () and book.views()[0].state == "pending"


def test_muted_rules_are_not_judged_and_holds_can_be_set() -> None:
    book, _ = AlertBook().update(at(DOWN, 0), AlertSettings(frozenset({"replica-down"})))
    assert book.views() == ()
    _, changes = AlertBook().update(at(DOWN, 0), AlertSettings(hold_s={"replica-down": 0.0}))
    assert len(changes) == 1


def test_a_silence_covers_its_subject_until_its_end() -> None:
    quiet = AlertBook().silenced(Silence("replica-down", "chat/r0", START + 100, "ann"))
    book, _ = quiet.update(at(DOWN, 0), NONE)
    book, changes = book.update(at(DOWN, 50), NONE)
    assert (book.views()[0].state, book.views()[0].silenced_by, changes) == ("silenced", "ann", ())
    book, changes = book.update(at(DOWN, 101), NONE)
    assert [c.fired for c in changes] == [True], "told when the silence ends and it still holds"
    other = AlertBook().silenced(Silence("replica-down", "chat/r1", START + 100, "ann"))
    book, _ = other.update(at(DOWN, 0), NONE)
    assert book.update(at(DOWN, 20), NONE)[0].views()[0].state == "firing"


def test_an_alert_does_not_resolve_because_its_source_went_blind() -> None:
    book, _ = AlertBook().update(at(DOWN, 0), NONE)
    book, _ = book.update(at(DOWN, 20), NONE)
    blind = replace(CALM, pools=(), sources=(SourceView("prom", "prometheus", False, error="timeout"),))
    book, changes = book.update(at(blind, 21), NONE)
    assert {a.rule: a.state for a in book.views()}["replica-down"] == "firing" and changes == ()


SLO = SloView("default", target=0.95)


@pytest.mark.parametrize(
    ("snapshot", "rule", "words"),
    [
        (
            replace(CALM, pools=(PoolView("chat", slos=(replace(SLO, attainment=Interval(0.5, 0.9)),)),)),
            "slo-missed",
            "at most 90.0% of requests meet SLO default, target 95%",
        ),
        (
            replace(CALM, pools=(PoolView("chat", slos=(replace(SLO, attainment=Interval(0.9, 0.9)),)),)),
            "slo-missed",
            "90.0% of requests meet SLO default, target 95%",
        ),
        (replace(CALM, pools=(PoolView("chat", slos=(replace(SLO, attainment=Interval(0.5, 0.97)),)),)), None, ""),
        (
            replace(CALM, pools=(PoolView("chat", slos=(replace(SLO, burn_short=9.0, burn_long=3.0),)),)),
            "slo-burn",
            "error budget of SLO default burns 9x as fast as it may",
        ),
        (replace(CALM, pools=(PoolView("chat", slos=(replace(SLO, burn_short=9.0),)),)), None, ""),
        (
            replace(CALM, pools=(PoolView("chat", want=2, ready=0),)),
            "pool-empty",
            "chat has no ready replica and 2 wanted",
        ),
        (replace(CALM, pools=(PoolView("chat", want=0, ready=0),)), None, ""),
        (
            replace(CALM, replicas=(ReplicaView("r0", "chat", ReplicaState.SATURATED, "queue"),)),
            "pool-saturated",
            "all 1 live replicas of chat are saturated",
        ),
        (
            replace(CALM, pools=(PoolView("chat", want=4, ready=4, maximum=4, waiting=40.0),)),
            "at-maximum",
            "chat is at its maximum of 4 and 40 requests wait",
        ),
    ],
)
def test_each_rule_finds_what_it_is_for(snapshot: FleetSnapshot, rule: str | None, words: str) -> None:
    now = AlertSettings(hold_s={r.name: 0.0 for r in RULES})
    book, _ = AlertBook().update(snapshot, now)
    assert [(a.rule, a.text) for a in book.views()] == ([] if rule is None else [(rule, words)])


def test_maintenance_silences_every_rule_of_a_pool_or_a_replica() -> None:
    for subject in ("chat", "chat/r0"):
        book = AlertBook().silenced(Silence("*", subject, START + 100, "ann"))
        book, _ = book.update(at(DOWN, 0), NONE)
        book, changes = book.update(at(DOWN, 20), NONE)
        assert [(a.state, a.silenced_by) for a in book.views()] == [("silenced", "ann")] and changes == ()
    other = AlertBook().silenced(Silence("*", "chat/r1", START + 100, "ann"))
    other, _ = other.update(at(DOWN, 0), NONE)
    assert len(other.update(at(DOWN, 20), NONE)[1]) == 1


def test_a_drained_replica_that_goes_down_is_maintenance_and_one_that_comes_back_is_not() -> None:
    draining = replace(CALM, replicas=(ReplicaView("r0", "chat", ReplicaState.DRAINING, "asked to"),))
    serving = replace(CALM, replicas=(ReplicaView("r0", "chat", ReplicaState.OK, ""),))
    book, _ = AlertBook().update(at(draining, 0), NONE)
    gone, _ = book.update(at(DOWN, 5), NONE)
    gone, changes = gone.update(at(DOWN, 30), NONE)
    assert changes == () and gone.views()[0].silenced_by == "maintenance (a drain)"
    back, _ = book.update(at(serving, 5), NONE)
    back, _ = back.update(at(DOWN, 6), NONE)
    assert len(back.update(at(DOWN, 30), NONE)[1]) == 1
    late, _ = book.update(at(DOWN, 700), NONE)
    assert len(late.update(at(DOWN, 720), NONE)[1]) == 1
