"""Several daemons and one writer: elections, kills in the middle of a write, and what the next leader makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from opsconsole.act.kube_acts import Acts
from opsconsole.act.kube_lease import Lease
from opsconsole.act.kube_routing import Routing, Switched
from opsconsole.act.kube_scale import Scale, Scaler
from opsconsole.cluster.failure import Patience
from opsconsole.cluster.pods import SERVING_LABEL, PodFacts
from opsconsole.cluster.workload import Workload
from opsconsole.errors import PlanRefused
from tests.kubernetes.worlds import Daemon, Maker, eventually

Make = Callable[..., Maker]


def holder(here: Maker, fleet: str = "tests") -> str:
    lease = here.cluster.find(here.path("leases", f"opsconsole-{fleet}", group="coordination.k8s.io/v1"))
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


class Dying(Scaler):
    """A process that is killed at its write, before or after the server has it."""

    def __init__(self, alive: Scaler, *, writes: bool) -> None:
        super().__init__(alive.api, alive.clock, alive.manager, alive.fence)
        self._writes = writes

    async def write(self, workload: Workload, seen: Scale, to: int) -> Scale:
        if self._writes:
            await super().write(workload, seen, to)
        raise asyncio.CancelledError


class Unable(Routing):
    """A process that is killed before it reaches the pods."""

    async def take_out(self, pod: PodFacts, plan_id: str) -> Switched:
        raise asyncio.CancelledError

    async def put_back(self, pod: PodFacts) -> Switched:
        raise asyncio.CancelledError


def unable(daemon: Daemon) -> Unable:
    routing = daemon.actuator._routing
    return Unable(routing.api, routing.clock, routing.namespace, routing.knock)


async def vanish(daemon: Daemon) -> None:
    """As a SIGKILL does it: nothing more is sent, nothing is released."""
    assert isinstance(daemon.world.lease, Lease)
    for task in (daemon.life._task, daemon.world.lease._task):
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await daemon.world.api.close()


async def test_one_of_two_daemons_leads_and_the_other_takes_over_when_it_ends(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon(identity="one") as one, here.daemon(identity="two") as two:
        assert (one.world.lease.leads, two.world.lease.leads) == (True, False)
        assert (await two.actuator.state("chat")).hold == "one leads; this daemon follows and changes nothing"
        plan = await two.actuator.plan_scale("chat", 2, "x")
        with pytest.raises(PlanRefused, match="one leads"):
            await two.actuator.apply(plan, "auto")
        await one.life.close()  # let go of, not run out
        await eventually("the second to lead", lambda: two.world.lease.leads, 4.0)
        await two.scale(2)
    assert here.replicas() == 2
    assert holder(here) == ""


async def test_a_daemon_that_is_killed_is_followed_once_its_lease_has_run_out(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon(identity="two") as two:
        await two.life.close()
    one = here.daemon(identity="one")
    await one.start()
    async with here.daemon(identity="three") as three:
        assert holder(here) == "one"
        await vanish(one)
        await asyncio.sleep(2.0)
        assert not three.world.lease.leads  # the dead one's lease has not run out
        await eventually("the third to lead", lambda: three.world.lease.leads, 10.0)
        assert holder(here) == "three"


async def test_a_drain_begun_by_a_daemon_that_was_killed_is_ended_by_the_next(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    one = here.daemon(identity="one")
    await one.start()
    one.load.running = {names[0]: 3, names[1]: 5}
    plan_id = await one.scale(1)
    await vanish(one)
    async with here.daemon(identity="two") as two:
        two.load.running = {names[0]: 0, names[1]: 5}
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        outcome = await two.ended(plan_id)
        assert (outcome.status, outcome.detail) == ("done", f"{names[0]} went, no stream was cut")
    assert here.ready() == [names[1]]


async def test_a_daemon_killed_between_its_record_and_its_write_leaves_nothing_half_done(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    one = here.daemon(identity="one")
    await one.start()
    plan = await one.actuator.plan_scale("chat", 3, "x")
    one.world.scaler = Dying(one.world.scaler, writes=False)
    with pytest.raises(asyncio.CancelledError):
        await one.actuator.apply(plan, "auto")
    await vanish(one)
    assert here.replicas() == 1
    async with here.daemon(identity="two") as two:
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        outcome = await two.ended(plan.plan_id, 20.0)
        assert (outcome.status, outcome.detail) == ("failed", "not carried out: the scale is at 1, not at 3")
        await two.scale(3)
    assert here.replicas() == 3


async def test_a_daemon_killed_after_its_write_is_found_to_have_written(make: Make) -> None:
    here = make()
    here.deploy(replicas=1, ready="100ms")
    one = here.daemon(identity="one")
    await one.start()
    plan = await one.actuator.plan_scale("chat", 2, "x")
    one.world.scaler = Dying(one.world.scaler, writes=True)
    with pytest.raises(asyncio.CancelledError):
        await one.actuator.apply(plan, "auto")
    await vanish(one)
    async with here.daemon(identity="two") as two:
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        assert (await two.ended(plan.plan_id)).detail == "2 of 2 ready"
    assert here.replicas() == 2


async def test_a_daemon_killed_after_it_shrank_is_found_to_have_shrunk(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms", linger="12s")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    one = here.daemon(identity="one")
    await one.start()
    one.load.running = {names[0]: 0, names[1]: 5}
    one.world.scaler = Dying(one.world.scaler, writes=True)
    plan_id = await one.scale(1)
    await eventually("the shrink", lambda: here.replicas() == 1)
    await vanish(one)
    async with here.daemon(identity="two") as two:
        two.load.running = {names[0]: 0, names[1]: 5}
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        assert (await two.ended(plan_id)).detail == f"{names[0]} went, no stream was cut"
        assert not serving(here).get(names[0], False)  # never put back into service
    assert here.replicas() == 1


async def test_a_drain_recorded_and_not_begun_is_begun_by_the_next(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    one = here.daemon(identity="one")
    await one.start()
    one.load.running = {names[0]: 3, names[1]: 5}
    plan = await one.actuator.plan_scale("chat", 1, "idle")
    one.actuator._routing = unable(one)
    with pytest.raises(asyncio.CancelledError):
        await one.actuator.apply(plan, "auto")
    await vanish(one)
    assert serving(here) == {names[0]: True, names[1]: True}
    async with here.daemon(identity="two") as two:
        two.load.running = {names[0]: 3, names[1]: 5}
        await eventually("it out of routing", lambda: serving(here) == {names[0]: False, names[1]: True}, 15.0)


async def test_a_pod_whose_drain_was_called_off_and_not_put_back_is_put_back_by_the_next(make: Make) -> None:
    here = make()
    here.deploy(replicas=2, ready="100ms")
    await eventually("two pods", lambda: len(here.ready()) == 2)
    names = here.ready()
    one = here.daemon(identity="one")
    await one.start()
    one.load.running = {names[0]: 3, names[1]: 5}
    await one.scale(1)
    here.cluster.patch(here.path("pods", names[1], group="v1"), {"metadata": {"labels": {SERVING_LABEL: "false"}}})
    back = await one.actuator.plan_scale("chat", 2, "load came back")
    one.actuator._routing = unable(one)
    with pytest.raises(asyncio.CancelledError):
        await one.actuator.apply(back, "auto")
    await vanish(one)
    async with here.daemon(identity="two") as two:
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        assert serving(here) == {names[0]: False, names[1]: False}
        await two.actuator.state("chat")
        assert serving(here) == {names[0]: True, names[1]: False}  # what a person took out stays out


def serving(here: Maker) -> dict[str, bool]:
    return {p["metadata"]["name"]: p["metadata"]["labels"].get(SERVING_LABEL) != "false" for p in here.pods()}


async def test_a_daemon_that_was_asleep_while_another_led_can_write_nothing(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    one = here.daemon(identity="one")
    await one.start()
    plan = await one.actuator.plan_scale("chat", 5, "x")
    await vanish(one)  # its tasks sleep; it still believes to lead for a while
    assert one.world.lease.leads
    lease = here.path("leases", "opsconsole-tests", group="coordination.k8s.io/v1")
    here.cluster.patch(lease, {"spec": {"holderIdentity": "two"}})
    with pytest.raises(PlanRefused, match="somebody else has written the Lease"):
        await one.actuator.apply(plan, "auto")
    assert here.replicas() == 1
    await one.world.api.close()


async def test_a_write_is_not_begun_when_the_lease_would_not_outlast_it(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon() as daemon:
        with pytest.raises(PlanRefused, match=r"The lease lasts \d\.\d s more, and a write may take 30 s"):
            daemon.world.lease.fence(30.0)


async def test_the_record_of_acts_is_in_the_lease_and_is_bounded(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    async with here.daemon() as daemon:
        plan_ids = [await daemon.scale(to) for to in (2, 3, 2, 4)]
        told: Mapping[str, Any] = here.cluster.get(
            here.path("leases", "opsconsole-tests", group="coordination.k8s.io/v1")
        )["metadata"]["annotations"]
        assert '"deployments.apps/' in told["opsconsole.dev/targets"]
        assert set(daemon.world.acts().items) == set(plan_ids)
    assert Acts.read({"x": {"nonsense": 1}}).items == {}
    assert Patience().budget_s < 10


async def test_published_counts_and_standing_orders_are_the_next_leaders_as_well(make: Make) -> None:
    here = make()
    here.deploy(replicas=1)
    one = here.daemon(identity="one", via="keda")
    await one.start()
    one.holds = '[{"kind": "pause", "pool": "", "by": "ops", "at": 1.0}]'
    one.world.board.publish("chat", 4, one.world.clock.now())
    async with here.daemon(identity="two", via="keda") as two:
        await eventually("a follower to know", lambda: two.world.board.count("chat") == 4, 5.0)
        assert two.holds == one.holds
        await vanish(one)
        await eventually("the second to lead", lambda: two.world.lease.leads, 12.0)
        assert two.world.board.count("chat") == 4
        assert (await two.actuator.state("chat")).want == 4
