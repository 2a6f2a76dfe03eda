"""The null actuator shows what would happen and does nothing."""

from __future__ import annotations

import pytest

from opsconsole.act.actuator import Actuator, Member, PoolState
from opsconsole.act.null import NullActuator
from opsconsole.domain.records import PlanKind
from opsconsole.errors import PlanRefused


async def test_a_dry_run_is_made_and_its_application_refused() -> None:
    actuator: Actuator = NullActuator(lambda pool: PoolState(pool, 2, (Member("r0", ready=True),), "5"))
    plan = await actuator.plan_scale("chat", 4, "queue")
    assert (plan.kind, plan.from_count, plan.to_count, plan.version) == (PlanKind.SCALE, 2, 4, "5")
    assert plan.dry_run and "only watches" in plan.effect
    with pytest.raises(PlanRefused, match="only watches"):
        await actuator.apply(plan, "me")
    with pytest.raises(PlanRefused):
        await actuator.follow(plan.plan_id)


async def test_drain_and_undrain_are_planned_by_name() -> None:
    actuator = NullActuator()
    assert (await actuator.plan_drain(["r1"], "old")).replicas == ("r1",)
    assert (await actuator.plan_undrain(["r1"], "back")).kind is PlanKind.UNDRAIN
    assert (await actuator.state("chat")).member("r1") is None
