"""What a console records is a file that the reader, and so `replay`, takes for a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opsconsole.commands.recorder import FileRecorder
from opsconsole.domain.records import FleetSnapshot, JournalEntry, PoolView, ReplicaState, ReplicaView
from opsconsole.errors import RecordingError
from opsconsole.history.reader import Reader

TICK = FleetSnapshot(
    700, 1000.0, "f", "advise", (ReplicaView("r0", "chat", ReplicaState.OK, ""),), (PoolView("chat", ready=1),)
)


def test_ticks_and_what_the_journal_said_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "evening.rec"
    recorder = FileRecorder(str(path))
    for second in range(30):
        entries = (JournalEntry(41, 1005.0, "note", "chat", "seen"),) if second == 5 else ()
        recorder.take(replace(TICK, tick=700 + second, at=1000.0 + second), entries)
    recorder.close()
    reader = Reader(path)
    try:
        bounds = reader.bounds()
        assert bounds is not None and (bounds.first, bounds.last) == (1000.0, 1029.0)
        past = reader.at(1012.5)
        assert past is not None and past.at == 1012.0 and past.replicas[0].replica == "r0"
        assert [line.text for line in reader.journal()] == ["seen"] and reader.check() == "ok"
    finally:
        reader.close()
    assert [child.name for child in tmp_path.iterdir()] == ["evening.rec"]  # nothing beside it


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.rec").write_text("mine")
    with pytest.raises(RecordingError, match="is there already"):
        FileRecorder(str(tmp_path / "a.rec"))


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="is no folder"):
        FileRecorder(str(tmp_path / "no" / "such" / "a.rec"))
