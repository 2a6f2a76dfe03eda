"""One write of a scale against what a real server cannot be made to do on time: too busy, away, answered too late."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from opsconsole.act.kube_scale import CROWDED, TRIES, WRITE_S, Scale, Scaler
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.cluster.workload import workload
from opsconsole.errors import PlanRefused

VLLM = workload("deployment/vllm", "serving")
SEEN = Scale(replicas=2, existing=2, selector="app=vllm", version="7", uid="u")
Deed = Callable[["Server"], None]


class Server:
    """A scale, and what happens to each write in turn; afterwards writes succeed."""

    def __init__(self, *deeds: Deed) -> None:
        self.replicas, self.version, self.uid = 2, 7, "u"
        self.writes: list[str] = []
        self.deeds = list(deeds)

    async def get(self, path: str, query: Any = None, patience: Patience | None = None) -> Any:
        return self.told()

    async def put(self, path: str, body: Any, query: Any = None, patience: Patience | None = None) -> Any:
        assert (patience, query) == (Patience(tries=1, timeout_s=WRITE_S), {"fieldManager": "opsconsole/tests"})
        self.next("put")
        if int(body["metadata"]["resourceVersion"]) != self.version:
            raise KubeError("the object has been modified", 409)
        self.bring(body["spec"]["replicas"])
        return self.told()

    async def ask(self, method: str, path: str, *, body: Any, **how: Any) -> Any:
        self.next("patch")
        uid, replicas, to = (part["value"] for part in body)
        if (uid, replicas) != (self.uid, self.replicas):
            raise KubeError("testing value /spec/replicas failed", 422)
        self.bring(to)
        return self.told()

    def told(self) -> dict[str, Any]:
        meta = {"resourceVersion": str(self.version), "uid": self.uid}
        return {"metadata": meta, "spec": {"replicas": self.replicas}, "status": {"selector": "app=vllm"}}

    def bring(self, replicas: int) -> None:
        self.replicas, self.version = replicas, self.version + 1

    def next(self, way: str) -> None:
        self.writes.append(way)
        if self.deeds:
            self.deeds.pop(0)(self)


def fails(status: int, *, after: float | None = None) -> Deed:
    def deed(server: Server) -> None:
        raise KubeError(f"answer {status}", status, retry_after_s=after)

    return deed


def arrives_unheard(server: Server) -> None:
    server.bring(5)
    raise KubeError("no answer")


def churns(server: Server) -> None:
    """Its status moves just before the write."""
    server.version += 1


def is_scaled_by_hand(server: Server) -> None:
    server.bring(3)


def is_replaced(server: Server) -> None:
    server.uid, server.version = "another", server.version + 1
    raise KubeError("conflict", 409)


class Clock:
    """Time that passes only in sleeps, which are remembered."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def wrote(server: Server, clock: Clock | None = None, fence: Callable[[float], None] | None = None) -> int:
    api, draw = cast(KubeApi, server), random.Random(1)
    scaler = Scaler(api, clock or Clock(), "opsconsole/tests", fence or (lambda seconds: None), draw)
    return (await scaler.write(VLLM, SEEN, 5)).replicas


@pytest.mark.parametrize("status", [0, 429, 500, 503, 504])
async def test_a_server_in_trouble_is_asked_again_after_another_look(status: int) -> None:
    server = Server(fails(status), fails(status))
    assert await wrote(server) == 5
    assert server.writes == ["put"] * 3


async def test_a_server_that_says_when_is_not_asked_before() -> None:
    clock = Clock()
    assert await wrote(Server(fails(429, after=1.5), fails(429, after=60.0)), clock) == 5
    assert clock.slept == [1.5, 2.0]  # within the ten seconds that an actuator has


async def test_a_write_that_seemed_to_fail_and_arrived_is_not_made_twice() -> None:
    server = Server(arrives_unheard)
    assert await wrote(server) == 5
    assert server.writes == ["put"]


async def test_a_status_that_churns_is_outrun_by_comparing_the_count_itself() -> None:
    server = Server(*[churns] * (CROWDED + 1))
    assert await wrote(server) == 5
    assert server.writes == [*["put"] * CROWDED, "patch"]


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (is_scaled_by_hand, "was at 2 replicas when this was planned and is at 3 now"),
        (is_replaced, "was replaced by another of its name"),
        (fails(403), "The cluster refuses: answer 403"),
        (fails(422), "The cluster refuses: answer 422"),
    ],
)
async def test_a_world_that_moved_and_a_server_that_says_no_end_it(deed: Deed, words: str) -> None:
    server = Server(deed)
    with pytest.raises(PlanRefused, match=words):
        await wrote(server)
    assert server.writes == ["put"]


async def test_it_is_given_up_after_so_many_attempts_with_the_last_reason() -> None:
    server, clock = Server(*[fails(503)] * TRIES), Clock()
    with pytest.raises(PlanRefused, match=f"{TRIES} attempts failed, at last with: answer 503"):
        await wrote(server, clock)
    assert (server.replicas, len(server.writes)) == (2, TRIES)
    assert sum(clock.slept) < 8.0


async def test_a_leader_that_lost_its_lease_between_two_attempts_writes_no_more() -> None:
    server, asked = Server(fails(503)), list[float]()

    def fence(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) > 1:
            raise PlanRefused("Not the leader: another holds it.")

    with pytest.raises(PlanRefused, match="Not the leader"):
        await wrote(server, fence=fence)
    assert (server.writes, asked) == (["put"], [WRITE_S, WRITE_S])
