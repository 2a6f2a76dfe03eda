"""Which starts teach how long a start takes: the first of each replica, and none that took longer than any start does.

A law learns the lead from a replica's creation to its first serving. One that served before and warms up again (its
process fell, its weights slept) is still as old as its creation, and the law cannot know that. The trap: the
tick in which it serves for the first time is the one that teaches, so who has served counts from the tick after.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.lead import WARMING
from policies.memory import Memory
from policies.situation import LIVE, ReplicaFacts, Situation

LONGEST_START_S = 7200.0  # nobody's weights take longer; an agent that was started meanwhile cannot tell otherwise

Served = tuple[str, float | None]  # a replica's name and creation: a name may be given again


@dataclass(slots=True)
class FirstStarts:
    """Who has served, by pool."""

    _served: dict[str, frozenset[Served]] = field(default_factory=dict)

    def teaching(self, memory: Memory, situation: Situation) -> Memory:
        """The memory without the marks of starts that would teach a wrong lead."""
        served = self._served.get(situation.pool, frozenset())
        again = {WARMING + r.name for r in situation.replicas if _key(r) in served}
        oldest = situation.now - LONGEST_START_S
        wrong = {m for m, at in memory.since.items() if m.startswith(WARMING) and (m in again or at < oldest)}
        if not wrong:
            return memory
        return Memory(memory.rows, {mark: at for mark, at in memory.since.items() if mark not in wrong})

    def see(self, situation: Situation) -> None:
        """After every law was asked: who serves now has served."""
        before = self._served.get(situation.pool, frozenset())
        self._served[situation.pool] = frozenset(
            _key(r) for r in situation.replicas if r.state in LIVE or _key(r) in before
        )


def _key(replica: ReplicaFacts) -> Served:
    return replica.name, replica.started_at
