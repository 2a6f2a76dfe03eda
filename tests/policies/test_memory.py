"""Memory is bounded, and reads back exactly or says why not."""

from __future__ import annotations

import pytest

from policies.memory import Memory


def test_rows_older_than_the_horizon_are_dropped() -> None:
    memory = Memory()
    for at in range(10):
        memory = memory.push("x", (float(at), 1.0), keep_s=3.0)
    assert [row[0] for row in memory.series("x")] == [6.0, 7.0, 8.0, 9.0]


def test_rows_are_bounded_by_number_too() -> None:
    memory = Memory()
    for at in range(10):
        memory = memory.push("x", (float(at),), keep_s=1e9, most=4)
    assert len(memory.series("x")) == 4


def test_an_emptied_series_is_forgotten() -> None:
    assert Memory(rows={"x": ((1.0,),)}).with_rows("x", ()).rows == {}


def test_a_condition_holds_since_it_began_and_restarts_after_a_break() -> None:
    memory = Memory()
    seen = []
    for now, true in ((1.0, True), (2.0, True), (3.0, False), (4.0, True)):
        since, memory = memory.holding("hot", true, now)
        seen.append(since)
    assert seen == [1.0, 1.0, None, 4.0]


def test_json_reads_back_exactly() -> None:
    memory = Memory(rows={"a": ((1.0, 2.5), (3.0, 4.0))}, since={"hot": 12.25})
    assert Memory.from_json(memory.to_json()) == memory


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="not json"),
        pytest.param("[]", id="a list"),
        pytest.param('{"version": 9, "rows": {}, "since": {}}', id="another version"),
        pytest.param('{"version": 1, "rows": {"a": [["x"]]}, "since": {}}', id="text for a number"),
        pytest.param('{"version": 1, "rows": {"a": [[true]]}, "since": {}}', id="bool for a number"),
        pytest.param('{"version": 1, "rows": {"a": [[NaN]]}, "since": {}}', id="NaN"),
        pytest.param('{"version": 1, "rows": {}}', id="a part is missing"),
    ],
)
def test_unreadable_memory_says_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match=r"policy memory .*: forget it"):
        Memory.from_json(text)
