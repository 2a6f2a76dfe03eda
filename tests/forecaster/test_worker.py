"""The worker process: jobs in line, a deadline that ends it, and errors as words."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import Pipe

import pytest

from forecaster.worker import Answer, Worker, serve


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def now() -> Hand:
    return Hand()


@pytest.fixture
def worker(now: Hand) -> Iterator[Worker]:
    made = Worker(now)
    yield made
    made.close()


def test_jobs_are_done_one_after_another_in_one_process_that_is_not_ours(worker: Worker) -> None:
    worker.ask("a", os.getpid)
    worker.ask("b", os.getpid)
    worker.ask("b", math.factorial, 5)  # still in line: replaced
    first = worker.wait("a")
    assert first is not None and first.value != os.getpid()
    assert worker.wait("b") == Answer(120)
    worker.ask("c", os.getpid)
    assert worker.wait("c") == first
    assert worker.take("c") is None, "an answer is given once"


def test_a_job_that_raises_says_so_and_the_next_is_done(worker: Worker) -> None:
    worker.ask("a", math.sqrt, -1.0)
    told = worker.wait("a")
    assert told is not None and told.value is None and (told.error or "").startswith("ValueError: ")
    worker.ask("b", math.sqrt, 4.0)
    assert worker.wait("b") == Answer(2.0)


def test_a_job_past_its_deadline_ends_with_its_process_and_the_next_gets_a_new_one(worker: Worker, now: Hand) -> None:
    worker.ask("slow", signal.pause, deadline_s=20.0)
    worker.ask("next", math.sqrt, 9.0)
    now.at = 19.0
    assert worker.take("slow") is None
    now.at = 21.0
    assert worker.take("slow") == Answer(error="not done within 20 s")
    assert worker.late == 1
    assert worker.wait("next") == Answer(3.0)


def test_a_process_that_dies_is_a_failed_job(worker: Worker) -> None:
    worker.ask("a", os._exit, 3)
    told = worker.wait("a")
    assert told is not None and "the worker process ended" in (told.error or "")
    assert not worker.is_asked("a")


def test_a_process_that_cannot_be_started_is_a_failed_job(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    worker.ask("a", os.getpid)
    told = worker.take("a")
    assert told is not None and "cannot be asked" in (told.error or "")


def test_the_other_side_ends_when_its_pipe_does_and_survives_what_it_cannot_read() -> None:
    ours, theirs = Pipe()
    ours.send_bytes(b"no pickle")
    ours.send((math.sqrt, (16.0,)))
    ours.send((math.sqrt, ("x",)))
    side = threading.Thread(target=serve, args=(theirs,))
    side.start()
    first, second, third = ours.recv(), ours.recv(), ours.recv()
    ours.close()
    side.join(5.0)
    theirs.close()
    assert not side.is_alive()
    assert first[0] is None and second == (4.0, None) and third[1].startswith("TypeError")


PARENT = """
import os, signal, time
from forecaster.worker import Worker
worker = Worker(time.monotonic)
worker.ask("a", os.getpid)
print(worker.wait("a").value, flush=True)
signal.pause()
"""


def test_the_process_is_gone_with_the_one_that_started_it_even_if_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent, parent.stdout:
        watched = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            ended, _, _ = select.select([watched], [], [], 20.0)
            assert ended == [watched]
        finally:
            os.close(watched)
