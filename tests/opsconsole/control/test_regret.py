"""Decisions are judged when their lead has passed, by what came; what is unknown is not judged."""

from __future__ import annotations

from dataclasses import replace

from opsconsole.control.regret import STATE_KEY, RegretBook, entries
from opsconsole.domain.records import CapacityView, DecisionView, FleetSnapshot, PoolView, RegretTally

CAPACITY = CapacityView(request_rate=2.0)
BOUNDS = {"chat": (1, 8)}


def decision(at: float, target: int, current: int = 2, lead: float | None = 60.0) -> DecisionView:
    return DecisionView(at, "chat", current, target, "demand", "because", capacity=CAPACITY, lead=lead)


def tick(at: float, rate: float | None, *, covered: bool = True) -> FleetSnapshot:
    return FleetSnapshot(int(at), at, "f", "act", pools=(PoolView("chat", request_rate=rate, covered=covered),))


def lived(book: RegretBook, rates: dict[float, float | None], **more: bool) -> list[str]:
    return [judged.regret.text for at, rate in rates.items() for judged in book.settle(tick(at, rate, **more), {})]


def test_a_decision_is_judged_by_the_highest_demand_from_its_lead_on() -> None:
    book = RegretBook()
    book.note([decision(0.0, 3)], 10.0, BOUNDS)
    told = lived(book, {30.0: 90.0, 59.0: 90.0, 60.0: 6.5, 65.0: 8.2, 70.0: 5.0})
    assert told == [
        "chat decided 3 for 60 s ahead; 4.1 replicas' worth came (8.2 requests/s): 5 were needed, 2 too few"
    ]
    assert book.tally("chat") == RegretTally(1, 0.0, 2.0, 0.0, 60.0)
    assert book.open == []


def test_too_many_and_just_right_are_told_as_such_and_need_stays_in_bounds() -> None:
    book = RegretBook()
    book.note([decision(0.0, 3), decision(1.0, 1), replace(decision(2.0, 2), current=1)], 5.0, BOUNDS)
    told = lived(book, {65.0: 0.0, 66.0: 0.0, 67.0: 0.0})
    assert [text.rpartition(": ")[2] for text in told] == [
        "1 were needed, 2 too many",
        "1 were needed, as decided",
        "1 were needed, 1 too many",
    ]
    tally = book.tally("chat")
    assert tally is not None and (tally.decisions, tally.short) == (3, 0.0)


def test_what_repeats_is_judged_every_ten_seconds_and_only_what_moved_is_a_line() -> None:
    book = RegretBook()
    for second in range(31):
        book.note([decision(float(second), 2, current=2 if second else 1)], 1.0, BOUNDS)
    judged = [j for at in range(60, 95) for j in book.settle(tick(float(at), 3.0), {})]
    assert [j.regret.decided_at for j in judged] == [0.0, 10.0, 20.0, 30.0]
    (line,) = entries(judged, 95, 95.0)
    assert (line.kind, line.pool, line.at) == ("regret", "chat", 95.0)
    assert line.decision is not None and line.decision.regret == judged[0].regret


def test_without_demand_capacity_or_lead_nothing_is_judged() -> None:
    book = RegretBook()
    book.note([decision(0.0, 3), decision(1.0, 4)], 5.0, BOUNDS)
    assert lived(book, {60.0: None, 70.0: None}) == []
    book.note([decision(100.0, 3)], 5.0, BOUNDS)
    assert lived(book, {160.0: 9.0, 170.0: 9.0}, covered=False) == []
    book.note([replace(decision(200.0, 3), capacity=None)], 5.0, BOUNDS)
    assert lived(book, {260.0: 9.0, 270.0: 9.0}) == []
    book.note([decision(300.0, 4, lead=None), decision(301.0, 5, lead=9e4)], 5.0, BOUNDS)
    assert book.open == [] and book.tally("chat") is None


def test_the_capacity_known_at_the_end_is_the_one_that_judges() -> None:
    book = RegretBook()
    book.note([decision(0.0, 3)], 1.0, BOUNDS)
    book.settle(tick(60.0, 6.0), {})
    (judged,) = book.settle(tick(61.0, 6.0), {"chat": CapacityView(request_rate=6.0)})
    assert judged.regret.needed == 1


def test_what_waits_survives_a_restart_and_nonsense_is_forgotten() -> None:
    book, after = RegretBook(), RegretBook()
    book.note([decision(0.0, 3)], 1.0, BOUNDS)
    book.settle(tick(60.0, 6.0), {})
    after.recall(book.to_state()[STATE_KEY])
    assert after.open == book.open
    assert len(lived(after, {61.0: 1.0})) == 1
    for broken in ("{", "[1]", None):
        after.recall(broken)
        assert after.open == []


def test_the_tally_weighs_by_time_and_forgets_after_an_hour() -> None:
    book = RegretBook()
    for at in range(0, 100, 10):
        book.note([decision(float(at), 2 if at < 50 else 5)], 1.0, BOUNDS)
    lived(book, {float(at): 4.0 for at in range(60, 170)})
    tally = book.tally("chat")
    assert tally is not None
    assert (tally.decisions, tally.right, tally.idle, tally.short) == (10, 0.5, 1.5, 0.0)
    lived(book, {60.0 + 3700.0 + at: 4.0 for at in range(3)})
    assert book.tally("chat") is None or book.tally("chat").decisions < 10  # type: ignore[union-attr]


def test_prompts_and_answers_add_up_where_the_share_of_each_is_known() -> None:
    """1600 of 800 prompt tokens/s and 400 of 100 output tokens/s: 0.75 x 2 + 0.25 x 4 = 2.5 replicas, not 4."""
    book = RegretBook()
    book.note([decision(0.0, 3)], 1.0, BOUNDS)
    view = PoolView("chat", prompt_rate=1600.0, output_rate=400.0, covered=True)
    known = CapacityView(10.0, 800.0, 100.0, prompt_share=0.75)
    for at in (60.0, 61.0):
        judged = book.settle(FleetSnapshot(int(at), at, "f", "act", pools=(view,)), {"chat": known})
    assert (judged[0].regret.needed, judged[0].regret.worth, judged[0].regret.unit) == (3, 2.5, "output tokens/s")
