"""One leader at a time, whatever clocks, servers and schedulers do: the lease on an object store and a manual clock."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from opsconsole.act.kube_lease import Lease, LeaseName, LeaseTimes, lease_name
from opsconsole.clock import ManualClock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.errors import PlanRefused

TIMES = LeaseTimes(15.0, 10.0, 2.0)
WRITE_S = 3.0


class Objects:
    """One object under versions, as an API server keeps it. `away` answers nobody."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None
        self.version = 0
        self.away = False

    async def get(self, path: str, query: Any = None, patience: Patience | None = None) -> Any:
        self._here()
        if self.kept is None:
            raise KubeError("not found", 404)
        return copy.deepcopy(self.kept)

    async def post(self, path: str, body: Any, patience: Patience | None = None) -> Any:
        self._here()
        if self.kept is not None:
            raise KubeError("exists", 409)
        return self._keep(body)

    async def put(self, path: str, body: Any, query: Any = None, patience: Patience | None = None) -> Any:
        self._here()
        if self.kept is None or body["metadata"].get("resourceVersion") != self.kept["metadata"]["resourceVersion"]:
            raise KubeError("the object has been modified", 409)
        return self._keep(body)

    def _keep(self, body: Any) -> Any:
        self.version += 1
        self.kept = copy.deepcopy(body)
        self.kept["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.kept)

    def _here(self) -> None:
        if self.away:
            raise KubeError("no answer")


class Apart(ManualClock):
    """A machine's own clocks over the true one: wrong by some amount, and never set right."""

    def __init__(self, true: ManualClock, off_s: float) -> None:
        self._true, self._off = true, off_s

    def now(self) -> float:
        return self._true.now() + self._off

    def monotonic(self) -> float:
        return self._true.monotonic() + self._off

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)


def daemon(objects: Objects, clock: ManualClock, name: str, off_s: float = 0.0) -> Lease:
    of = LeaseName("ns", "opsconsole-x", name)
    return Lease(cast(KubeApi, objects), of, Apart(clock, off_s), TIMES)


def leads(lease: Lease) -> bool:
    """Asked anew each time: a type checker would take a property for a constant."""
    return lease.leads


async def passes(clock: ManualClock, seconds: float) -> None:
    """Time in steps that leave everybody time to do what they woke for."""
    for _ in range(round(seconds / 0.5)):
        await clock.advance(0.5)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_follower_whose_clock_is_an_hour_ahead_does_not_take_over(clock: ManualClock) -> None:
    objects = Objects()
    one, two = daemon(objects, clock, "one"), daemon(objects, clock, "two", off_s=3600.0)
    await one.start()
    await two.start()
    await passes(clock, 60.0)
    assert (leads(one), leads(two)) == (True, False)
    assert two.words == "one leads; this daemon follows and changes nothing"
    await one.close()
    await two.close()


async def test_a_leader_that_cannot_renew_stops_before_another_begins(clock: ManualClock) -> None:
    objects = Objects()
    one = daemon(objects, clock, "one")
    await one.start()
    one.fence(WRITE_S)
    objects.away = True
    await passes(clock, 9.0)
    assert leads(one)
    await passes(clock, 2.0)
    assert not leads(one) and "no answer" in str(one.words)
    with pytest.raises(PlanRefused, match="Not the leader"):
        one.fence(WRITE_S)
    objects.away = False
    await passes(clock, 3.0)
    assert leads(one)  # nobody else came
    await one.close()


async def test_the_dead_are_waited_for_as_long_as_their_lease_lasts_and_no_longer(clock: ManualClock) -> None:
    objects = Objects()
    one, two = daemon(objects, clock, "one"), daemon(objects, clock, "two")
    await one.start()
    await two.start()
    await two.close()
    one._task.cancel()  # type: ignore[union-attr]
    two = daemon(objects, clock, "two")
    await two.start()
    await passes(clock, 14.0)
    assert not leads(two)
    await passes(clock, 3.0)
    assert leads(two) and objects.kept is not None
    assert objects.kept["spec"]["leaseTransitions"] == 1
    await two.close()


async def test_a_lease_that_was_let_go_is_taken_at_the_next_try(clock: ManualClock) -> None:
    objects = Objects()
    one, two = daemon(objects, clock, "one"), daemon(objects, clock, "two")
    await one.start()
    await two.start()
    await one.close()
    assert objects.kept is not None and objects.kept["spec"]["holderIdentity"] == ""
    await passes(clock, TIMES.retry_s + 0.5)
    assert leads(two)
    await two.close()


async def test_acts_are_written_under_the_leases_own_version(clock: ManualClock) -> None:
    objects = Objects()
    one = daemon(objects, clock, "one")
    await one.start()
    await one.note({"a": 1})
    assert daemon_reads(objects) == '{"a":1}'
    assert objects.kept is not None
    objects.kept["metadata"]["resourceVersion"] = "999"  # somebody else wrote it
    with pytest.raises(PlanRefused, match="somebody else has written the Lease"):
        await one.note({"b": 2})
    assert daemon_reads(objects) == '{"a":1}'
    assert not leads(one)  # until it has read whose it is
    await passes(clock, TIMES.retry_s + 0.5)
    assert leads(one) and one.acts() == {"a": 1}
    await one.close()


def daemon_reads(objects: Objects) -> str:
    assert objects.kept is not None
    return str(objects.kept["metadata"]["annotations"]["opsconsole.dev/acts"])


@pytest.mark.parametrize("seed", range(6))
async def test_two_never_may_write_at_once_whatever_stops_and_returns(clock: ManualClock, seed: int) -> None:
    """An hour of daemons that hang, servers that are away, and clocks that are off."""
    draw, objects = random.Random(seed), Objects()
    daemons = [daemon(objects, clock, f"d{i}", draw.uniform(-1e4, 1e4)) for i in range(3)]
    asleep: dict[Lease, float] = {}
    led: set[str] = set()
    for _ in range(1800):
        await clock.advance(2.0)
        objects.away = draw.random() < (0.9 if objects.away else 0.05)
        for lease in daemons:
            if asleep.get(lease, 0.0) > clock.monotonic():
                continue
            if draw.random() < 0.02:
                asleep[lease] = clock.monotonic() + draw.uniform(1.0, 40.0)
            await lease._turn_once()
        writers = [lease for lease in daemons if _may_write(lease)]
        assert len(writers) <= 1, [lease._of.identity for lease in writers]
        led.update(lease._of.identity for lease in writers)
    assert len(led) == 3  # each had its turn, so this run shows something


def _may_write(lease: Lease) -> bool:
    try:
        lease.fence(WRITE_S)
    except PlanRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("fleet", "name"),
    [("fleet", "opsconsole-fleet"), ("Prod EU/1", "opsconsole-prod-eu-1"), ("x" * 90, f"opsconsole-{'x' * 52}")],
)
def test_a_fleets_lease_has_a_name_that_the_server_takes(fleet: str, name: str) -> None:
    made: Callable[[str], str] = lease_name
    assert made(fleet) == name and len(name) <= 63
