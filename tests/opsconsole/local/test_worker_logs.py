"""The end of a worker's log, by a name that is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsconsole.errors import UsageError
from opsconsole.local.worker_logs import MOST_BYTES, WorkerLogs


def test_the_last_lines_are_read_and_a_long_file_from_its_end(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path)
    (tmp_path / "w1.log").write_bytes(b"one\ntwo \xff\nthree\n")
    assert list(logs("w1", 2)) == ["two \N{REPLACEMENT CHARACTER}", "three"]
    (tmp_path / "w2.log").write_text("".join(f"line {n:06d}\n" for n in range(MOST_BYTES // 8)))
    found = logs("w2", 3)
    assert len(found) == 3 and found[-1] == f"line {MOST_BYTES // 8 - 1:06d}"
    assert all(len(line) == 11 for line in logs("w2", 10**6))  # no line is half a line


@pytest.mark.parametrize("name", ["", "nobody", "../w1", "/etc/passwd", "."])
def test_only_names_of_logs_that_are_there_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "w1.log").write_text("x\n")
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match="There is no log of"):
        WorkerLogs(tmp_path / "run")(name, 5)
