"""Standing orders: what replaces what, when they end, how they read."""

from __future__ import annotations

import json
import math

import pytest

from opsconsole.control.mode import Holds, sentence, span
from opsconsole.control.settings import Mode
from opsconsole.domain.records import HoldView
from opsconsole.errors import UsageError

NOW = 1000.0


def order(kind: str, pool: str = "chat", until: float | None = None, minimum: int | None = None) -> HoldView:
    return HoldView(kind, pool, "ann", NOW, until, minimum)


def test_a_new_order_replaces_its_like_and_leaves_the_others() -> None:
    held = Holds().apply(order("pin", minimum=2)).apply(order("pause")).apply(order("pin", minimum=5))
    assert held.pinned_minimum("chat", NOW) == 5
    assert held.paused_until("chat", NOW) == math.inf
    assert held.pinned_minimum("other", NOW) is None


def test_resume_lifts_pause_and_pin_of_its_pool_and_of_all_when_none_is_named() -> None:
    held = Holds().apply(order("pause")).apply(order("pin", "other", minimum=2))
    assert Holds(held.apply(order("resume")).items).items == (order("pin", "other", minimum=2),)
    assert held.apply(order("resume", "")).items == ()


def test_an_order_for_every_pool_holds_for_each_and_the_highest_pin_counts() -> None:
    held = Holds().apply(order("pin", "", minimum=4)).apply(order("pin", minimum=2))
    assert (held.pinned_minimum("chat", NOW), held.pinned_minimum("x", NOW)) == (4, 4)


def test_orders_end_by_themselves() -> None:
    held = Holds().apply(order("pause", until=NOW + 10))
    assert held.paused_until("chat", NOW + 9) == NOW + 10
    assert held.paused_until("chat", NOW + 10) is None
    assert held.current(NOW + 10).items == ()


@pytest.mark.parametrize("bad", [order("stop"), order("pin"), order("pin", minimum=-1), order("pause", until=NOW)])
def test_impossible_orders_are_refused(bad: HoldView) -> None:
    with pytest.raises(UsageError):
        Holds().apply(bad)


def test_orders_survive_the_database() -> None:
    held = Holds().apply(order("pin", minimum=3, until=NOW + 60)).apply(order("pause"))
    assert Holds.from_data(json.loads(held.to_json())) == held
    assert Holds.from_data(None) == Holds()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "5 s"), (90, "90 s"), (300, "5 min"), (3600, "1 h"), (5400, "1.5 h"), (200_000, "2.31 d")],
)
def test_durations_read_well(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_orders_and_modes_read_well() -> None:
    assert sentence(order("resume", ""), NOW) == "every pool is back on automatic by ann"
    assert {mode.sentence for mode in Mode} == {
        "watches only: no decisions are made",
        "says what it would do, and does nothing",
        "does what it decides",
    }
