"""Seeking, stepping, ranges, the next decision, journal filters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opsconsole.domain.records import DecisionView, FleetSnapshot, JournalEntry, PoolView
from opsconsole.errors import RecordingError
from opsconsole.history import blob
from opsconsole.history.reader import Reader
from opsconsole.history.rings import Ring
from opsconsole.history.store import DecisionRow, Store

START = 1_700_000_040.0


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    store = Store(tmp_path / "o.db")
    for i in range(90):
        at = START + i
        target = 3 if i in (20, 50) else 2
        made = DecisionView(at, "chat", 2, target, "queue", "why")
        entries = [JournalEntry(0, at, "decision" if target == 3 else "note", "chat", f"at {i}", tick=i + 1)] * (
            i % 10 == 0
        )
        store.write_tick(
            FleetSnapshot(i + 1, at, "t", "act", pools=(PoolView("chat", waiting=float(i)),)),
            [DecisionRow(made)],
            entries,
        )
    found = Reader(store.path)
    yield found
    found.close()
    store.close()


def test_seek_finds_the_tick_that_was_newest_then(reader: Reader) -> None:
    found = reader.at(START + 12.9)
    assert found is not None and found.tick == 13


def test_step_goes_to_the_neighbours_and_ends_at_the_edges(reader: Reader) -> None:
    forward, back = reader.step(START + 12, 1), reader.step(START + 12, -1)
    assert forward is not None and back is not None
    assert (forward.tick, back.tick) == (14, 12)
    assert reader.step(START + 89, 1) is None
    assert reader.step(START, -1) is None


def test_range_is_thinned_by_step_and_bounded_by_limit(reader: Reader) -> None:
    assert [s.at - START for s in reader.range(START, START + 89, step=30)] == [0.0, 30.0, 60.0]
    assert [s.tick for s in reader.range(START, START + 89, limit=2)] == [89, 90]


def test_next_change_finds_only_decisions_that_moved_a_target(reader: Reader) -> None:
    assert reader.next_change(START) == START + 20
    assert reader.next_change(START + 20) == START + 50
    assert reader.next_change(START + 50) is None
    assert reader.next_change(START + 50, -1) == START + 20
    assert reader.next_change(START, pool="other") is None


def test_the_journal_is_filtered_by_kind_pool_time_and_number(reader: Reader) -> None:
    assert [e.text for e in reader.journal(kind="decision")] == ["at 20", "at 50"]
    assert [e.text for e in reader.journal(limit=2)] == ["at 70", "at 80"]
    last = reader.journal()[-1]
    assert reader.journal(after=last.seq) == ()
    assert [e.text for e in reader.journal(since=START + 10, until=START + 20)] == ["at 10", "at 20"]
    assert reader.journal(pool="other") == ()


def test_a_damaged_record_is_an_error_in_words() -> None:
    good = blob.pack({"a": 1})
    with pytest.raises(RecordingError, match="damaged"):
        blob.unpack_data(good[:-4])
    with pytest.raises(RecordingError, match="format 7f"):
        blob.unpack_data(b"\x7f" + good[1:])
    with pytest.raises(RecordingError, match="not a FleetSnapshot"):
        blob.unpack(FleetSnapshot, good)


def test_the_ring_keeps_minutes_and_gives_series_with_gaps() -> None:
    ring = Ring(keep_s=10)
    for i in range(30):
        pools = () if i == 25 else (PoolView("chat", waiting=float(i)),)
        ring.push(FleetSnapshot(i, START + i, "t", "off", pools=pools))
    assert [s.tick for s in ring.since(START)] == list(range(19, 30))
    assert ring.covers(START + 19) and not ring.covers(START + 18)
    series = dict(ring.series("chat", lambda p: p.waiting))
    assert series[START + 24] == 24.0 and series[START + 25] is None
    assert ring.newest is not None and ring.newest.tick == 29
