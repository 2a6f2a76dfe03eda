"""A real agent over a pretended world in a file, run as a process by the tests that kill it.

Arguments: data folder, parent pid (0: none). The law wants one replica more every 0.9 s of its memory's life, up to 10,
so each step is one plan, whoever makes it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from opsconsole.act.pretend import PretendWorld
from opsconsole.clock import Clock
from opsconsole.control.agent import Parts, run_agent
from opsconsole.control.settings import AgentSettings, Mode, PoolSettings
from opsconsole.domain.fleet import PoolSpec
from opsconsole.domain.records import Sample, SourceView
from opsconsole.domain.replica import Observation, ReplicaRef
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import Limits, Situation

STEP_S = 0.9


@dataclass(slots=True)
class Pages:
    """What the pretended replicas would say."""

    world: PretendWorld
    name: str = "world"

    async def observe(self, now: float) -> tuple[Observation, ...]:
        members = (await self.world.state("chat")).members
        return tuple(
            Observation(
                ReplicaRef(m.name, "chat", started_at=m.started_at), Sample(m.name, now, waiting=0.0, running=0.0)
            )
            for m in members
        )

    def status(self) -> SourceView:
        return SourceView(self.name, "pretend", True, age=0.0)

    async def close(self) -> None:
        return None


class Rising:
    """Wants more as time goes by."""

    name, needs, period_s = "rising", (), 1.0

    def decide(self, situation: Situation, memory: Memory) -> tuple[Decision, Memory]:
        began, memory = memory.holding("began", True, situation.now)
        target = min(10, 2 + int((situation.now - (began or situation.now)) / STEP_S))
        return Decision("chat", situation.want, max(target, situation.want), "rising", "time goes by"), memory


def main(data_dir: Path, parent: int) -> int:
    def build(settings: AgentSettings, clock: Clock) -> Parts:
        world = PretendWorld(clock, path=data_dir / "world.json", start_s=0.2)
        world.create(2)
        law = Rising()
        return Parts([Pages(world)], {"chat": world}, lambda name: law)

    pool = PoolSettings(PoolSpec("chat"), Limits(1, 10))
    settings = AgentSettings(
        data_dir, interval_s=0.02, mode=Mode.ACT, pools=(pool,), parent_pid=parent or None, allow_intents=True
    )
    return run_agent(settings, build)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
