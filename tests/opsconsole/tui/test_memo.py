"""What is kept for a snapshot is given again for that very snapshot and the same question, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

from opsconsole.domain.records import FleetSnapshot
from opsconsole.tui.memo import KEPT, kept_by, while_shown

FLEET = FleetSnapshot(1, 2.0, "f", "off")


def test_the_same_question_of_the_same_snapshot_is_answered_once() -> None:
    asked: list[tuple[int, str]] = []

    @while_shown
    def name(snapshot: FleetSnapshot, text: str = "") -> str:
        asked.append((snapshot.tick, text))
        return snapshot.fleet + text

    assert [name(FLEET, "a"), name(FLEET, "a"), name(FLEET, "b"), name(FLEET), name(FLEET, "a")] == [
        "fa", "fa", "fb", "f", "fa",
    ]  # fmt: skip
    assert asked == [(1, "a"), (1, "b"), (1, "")]


def test_an_equal_snapshot_is_another_one() -> None:
    seen: list[FleetSnapshot] = []

    @while_shown
    def tick(snapshot: FleetSnapshot) -> int:
        seen.append(snapshot)
        return snapshot.tick

    for snapshot in (FLEET, replace(FLEET), FLEET):
        assert tick(snapshot) == 1
    assert len(seen) == 3


def test_only_the_newest_few_answers_are_kept() -> None:
    asked: list[int] = []

    @while_shown
    def number(snapshot: FleetSnapshot, value: int) -> int:
        asked.append(value)
        return value

    for value in (*range(KEPT + 1), 0):
        assert number(FLEET, value) == value
    assert asked == [*range(KEPT + 1), 0]


def test_what_was_made_from_equal_things_is_given_again_and_what_was_used_last_is_kept_longest() -> None:
    made: list[int] = []

    @kept_by(lambda number, at: (number, at // 5))
    def drawn(number: int, at: float) -> int:
        made.append(number)
        return number

    assert [drawn(0, 1.0), drawn(0, 4.9), drawn(0, 5.0)] == [0, 0, 0] and made == [0, 0]
    for number in range(1, KEPT):
        drawn(number, 5.0)
        drawn(0, 5.0)
    made.clear()
    drawn(0, 5.0)
    assert made == []
    drawn(0, 1.0)
    assert made == [0]
