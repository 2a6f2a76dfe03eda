"""The workers as facts: versions, back-off, expected readiness, who goes first."""

from __future__ import annotations

import pytest

from opsconsole.local.changes import Act, Acts
from opsconsole.local.workers import BACKOFF_MOST, STABLE_AFTER, Phase, Worker, Workers, start_facts


def ready(workers: Workers, decided_at: float, took: float = 3.0) -> Worker:
    worker = workers.add(decided_at, decided_at)
    workers.enter(worker, Phase.LOAD, decided_at + 0.5)
    workers.enter(worker, Phase.WARM, decided_at + took - 1)
    workers.enter(worker, Phase.READY, decided_at + took)
    return worker


def test_a_start_is_told_by_phase_from_its_decision() -> None:
    workers = Workers(1)
    worker = ready(workers, 100.0, took=8.0)
    assert start_facts(worker) == {"schedule": 0.5, "load": 6.5, "warm": 1.0}
    event = workers.events[-1]
    assert event.kind == "ready" and event.facts["decided_at"] == 100.0
    assert event.text == "w1 is useful 8.0 s after its decision (schedule 0.5 s, load 6.5 s, warm 1.0 s)"


def test_the_version_moves_with_what_plans_depend_on_and_not_with_phases_of_a_start() -> None:
    workers = Workers(1)
    worker = workers.add(0.0, 0.0)
    version = workers.version
    workers.enter(worker, Phase.LOAD, 1.0)
    workers.enter(worker, Phase.WARM, 2.0)
    assert workers.version == version
    workers.enter(worker, Phase.READY, 3.0)
    assert workers.version == version + 1
    workers.enter(worker, Phase.READY, 4.0)
    assert workers.version == version + 1
    workers.enter(worker, Phase.DRAIN, 5.0)
    assert workers.version == version + 2


def test_when_a_start_should_be_useful_is_unknown_until_one_was_seen() -> None:
    workers = Workers(2)
    first = workers.add(0.0, 0.0)
    assert first.expected_ready_at is None
    ready(workers, 10.0, took=4.5)
    third = workers.add(100.0, 100.0)
    assert third.expected_ready_at == 104.0  # the start took 4 s of a process


def test_crashes_in_a_row_wait_longer_and_a_long_life_forgives() -> None:
    workers = Workers(1)
    worker = ready(workers, 0.0)
    waits = []
    for _ in range(8):
        waits.append(workers.crashed(worker, "was killed by SIGKILL", 10.0))
        workers.restarting(worker, 11.0)
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == BACKOFF_MOST
    workers.enter(worker, Phase.READY, 20.0)
    assert workers.crashed(worker, "exited", 20.0 + STABLE_AFTER + 1) == 0.5
    assert "w1 exited; started again in 0.5 s" in workers.events[-1].text


def test_a_restart_keeps_the_name_and_begins_a_new_start() -> None:
    workers = Workers(1)
    worker = ready(workers, 0.0)
    workers.crashed(worker, "was killed by SIGKILL", 50.0)
    assert not worker.is_ready and worker.url is None and worker.is_member
    workers.restarting(worker, 51.0)
    assert (worker.name, worker.restarts, worker.decided_at, worker.phase) == ("w1", 1, 51.0, Phase.SCHEDULE)


def test_the_named_go_first_then_those_that_serve_nobody_then_the_least_busy() -> None:
    workers = Workers(4)
    busy, calm, named = ready(workers, 0.0), ready(workers, 1.0), ready(workers, 2.0)
    busy.streams, calm.streams, named.streams = 9, 1, 5
    starting = workers.add(90.0, 90.0)
    workers.want = 1
    assert [w.name for w in workers.surplus(("w3",))] == [named.name, starting.name, calm.name]
    workers.want = 4
    assert workers.surplus() == []


def test_each_worker_gets_a_device_of_its_own_and_a_gone_one_gives_it_back() -> None:
    workers = Workers(2, devices=("0", "1"))
    first, second = workers.add(0.0, 0.0), workers.add(0.0, 0.0)
    assert (first.device, second.device) == ("0", "1")
    workers.gone(first, "w1 is gone", 1.0)
    assert workers.add(2.0, 2.0).device == "0"


def test_a_change_is_running_until_what_it_started_is_useful() -> None:
    workers, acts = Workers(2), Acts()
    worker = workers.add(0.0, 0.0)
    acts.take("p1", Act("scale", 0.0, coming=("w1",)))
    assert acts.follow("p1", workers, 1.0) == {
        "status": "running",
        "at": 1.0,
        "detail": "waiting for w1",
        "streams_cut": 0,
    }
    workers.enter(worker, Phase.LOAD, 1.0)
    workers.enter(worker, Phase.READY, 4.0)
    found = acts.follow("p1", workers, 5.0)
    assert found is not None and (found["status"], found["detail"]) == ("done", "w1 useful")


def test_a_change_is_running_until_what_it_drains_is_gone_and_tells_the_streams_cut() -> None:
    workers, acts = Workers(1), Acts()
    worker = ready(workers, 0.0)
    workers.enter(worker, Phase.DRAIN, 10.0)
    acts.take("p1", Act("drain", 10.0, leaving=("w1",)))
    assert acts.follow("p1", workers, 11.0)["status"] == "running"  # type: ignore[index]
    acts.cuts["w1"] = 2
    workers.gone(worker, "w1 is gone", 12.0)
    found = acts.follow("p1", workers, 13.0)
    assert found is not None and (found["status"], found["streams_cut"]) == ("done", 2)
    assert found["detail"] == "w1 gone, 2 streams cut"


def test_a_change_that_a_later_one_undid_is_told_as_that() -> None:
    workers, acts = Workers(2), Acts()
    stays, starts = ready(workers, 0.0), workers.add(0.0, 0.0)
    acts.take("p1", Act("scale", 0.0, coming=("w2",)))
    workers.gone(starts, "w2 is gone", 1.0)
    workers.enter(stays, Phase.DRAIN, 1.0)
    acts.take("p2", Act("drain", 1.0, leaving=("w1",)))
    workers.returned(stays, 2.0)
    found = [acts.follow(act, workers, 3.0) for act in ("p1", "p2")]
    assert [each and each["detail"] for each in found] == [
        "w2 gone before it was useful", "w1 taken back before it was gone",
    ]  # fmt: skip


def test_a_change_never_taken_is_unknown() -> None:
    assert Acts().follow("p9", Workers(1), 0.0) is None


@pytest.mark.parametrize("count", [2100])
def test_old_events_are_dropped_and_their_numbers_are_not_used_again(count: int) -> None:
    workers = Workers(1)
    for index in range(count):
        workers.note(float(index), "w1", "phase", "x")
    assert len(workers.events) == 2000
    assert workers.events[-1].seq == count
