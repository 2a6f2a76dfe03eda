"""Acts under way, moved on step by step: wait for streams, shrink, confirm who went; or watch a growth arrive.

It is stepped by whoever leads, also after another process began the act, and each step begins with a look at the
world. The traps: a pod that vanishes while it drains is replaced by its controller, so the scale must shrink all the
same; a controller may take another pod than the one prepared, which is told and never passed over; and a workload that
is deleted and made anew under its name has nothing to do with what was begun on the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsconsole.act.drain import Drain, Phase, advance
from opsconsole.act.kube_acts import Act, gone_words
from opsconsole.act.kube_choice import budget_words, revision_words
from opsconsole.act.kube_events import DRAINED, FAILED, PARTLY, RESCALED
from opsconsole.act.kube_look import KubePool, Look, Looker, supply_words
from opsconsole.act.kube_routing import Routing
from opsconsole.act.kube_world import World
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.pods import PodFacts
from opsconsole.errors import OpsConsoleError, PlanRefused

log = logging.getLogger(__name__)
CONFIRM_S = 60.0  # a controller that has not begun to remove the chosen pods by then has chosen others
OTHERS_CONFIRM_S = 900.0  # ... where an HPA has yet to follow, which waits out a window of its own
ARRIVE_S = 1800.0  # a growth that is not there by then is told as it is
TOLD_EVERY_S = 5.0
LATE = "late"
USUALLY_S = 300.0  # for a growth to be there, where no start was seen
STUCK_S = 10.0  # at least: stamps of pods are whole seconds, and a cluster takes some
SETTLE_S = 10.0
MARKED_S = 0.5  # from a pod's mark to the write: a controller hears of the two by different ways


@dataclass(slots=True)
class Known:
    """What this process knows of an act beyond its record; another leader sees it anew."""

    drains: tuple[Drain, ...] | None = None  # how far, between two records
    marked_at: float | None = None  # the chosen pods, as the cheapest to lose
    beside: dict[str, int] = field(default_factory=dict)  # streams in pods that are to stay


@dataclass(slots=True)
class Follower:
    """Moves the open acts of one pool on."""

    world: World
    of: KubePool
    looker: Looker
    routing: Routing
    _known: dict[str, Known] = field(default_factory=dict)  # by plan id
    _taken_out: set[tuple[str, str]] = field(default_factory=set)  # plan id and pod
    _kept: set[str] = field(default_factory=set)  # pods of which was told that nothing puts them into service
    _missing_since: float | None = None  # the workload itself

    async def step(self) -> None:
        """One step of every open act. Raises where the world cannot be asked or this process may not act."""
        acts = self.world.acts().open_of(self.of.pool)
        self._known = {act.plan_id: self._known_of(act) for act in acts}  # however the others ended
        if not acts:
            return
        try:
            look = await self.looker.look(fresh=any(act.drains and not act.written for act in acts))
        except KubeError as error:
            if not error.is_missing:
                raise
            return await self._missing(acts, error)
        self._missing_since = None
        for act in acts:
            moved = await self._moved(act, look)
            if moved != act:
                await self.world.save(moved)

    async def _missing(self, acts: Sequence[Act], error: KubeError) -> None:
        """The workload is not there: after a while, for an API server that restarts may say so too, it is gone."""
        now = self.world.clock.now()
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now - self._missing_since >= SETTLE_S:
            words = f"given up: {self.of.workload} is gone ({error})"
            await self.world.save(*(act.ended("failed", words, now) for act in acts))

    async def tidy(self, look: Look) -> None:
        """Open the gates of new pods, and put back those that a plan took out which is no longer under way.

        The latter are left by a process that was killed between its record and its deed. What a person took out has no
        plan on it and is left alone.
        """
        acts = self.world.acts()
        under_way = {act.plan_id for act in acts.open_of(self.of.pool)}
        self._kept &= {pod.name for pod in look.pods}
        for pod in look.pods:
            if pod.deleting:
                continue
            try:
                if pod.drain is not None and pod.drain not in under_way:
                    await self.routing.put_back(pod)
                elif pod.gated and not pod.gate_open and pod.serving and pod.name not in acts.leaving(self.of.pool):
                    await self.routing.open_gate(pod)
            except OpsConsoleError as error:
                await self._kept_out(pod, error, look)

    async def _kept_out(self, pod: PodFacts, error: OpsConsoleError, look: Look) -> None:
        """A pod that cannot be put into service: told once, as an Event as well, for it is asked at every look."""
        words = f"{pod.name} cannot be put into service: {error}"
        if pod.name in self._kept:
            return
        self._kept.add(pod.name)
        log.warning("%s", words)
        await self.world.herald.tell(self.of.workload, look.thing, FAILED, words)

    async def _moved(self, act: Act, look: Look) -> Act:
        if act.uid and act.uid != look.scale.uid:
            words = f"given up: {self.of.workload} was deleted and made anew since"
            return act.ended("failed", words, self.world.clock.now())
        if not act.drains:
            return await self._arriving(act, look)
        if act.written:
            return await self._confirmed(act, look)
        return await self._drained(act, look)

    async def _arriving(self, act: Act, look: Look) -> Act:
        """A growth: done when its pods are ready, and told as it is once some are late."""
        now, at = self.world.clock.now(), look.asked
        if not act.written and at != act.target:
            if now - act.at < SETTLE_S:
                return act  # a write that timed out may still arrive
            return act.ended("failed", f"not carried out: the scale is at {at}, not at {act.target}", now)
        if at != act.target:
            return act.ended("done", f"overtaken: the scale is at {at} now; {supply_words(look, at)}", now)
        ready = sum(p.ready for p in look.pods if not p.deleting)
        if ready >= act.target:
            return act.ended("done", f"{ready} of {act.target} ready", now)
        if now - act.at > ARRIVE_S:
            return act.ended("failed", f"after {now - act.at:.0f} s {supply_words(look, act.target)}", now)
        seen = replace(act, written=True, written_at=act.written_at or now)
        if act.detail.startswith(LATE) or not self._is_late(act, look, now):
            return seen
        words = f"{supply_words(look, act.target)}, {now - act.at:.0f} s after a new size of {act.target}"
        await self.world.herald.tell(self.of.workload, look.thing, PARTLY, words)
        return replace(seen, detail=f"{LATE}: {words}")

    def _is_late(self, act: Act, look: Look, now: float) -> bool:
        """Whether a growth should be there by now: twice the time that nine of ten such starts took."""
        usual = self.looker.usual_start_s(look)
        return now - act.at > (USUALLY_S if usual is None else max(STUCK_S, 2 * usual))

    async def _drained(self, act: Act, look: Look) -> Act:
        """A shrink before its write: look at the streams, and write once all may go."""
        now, sight = self.world.clock.now(), self.world.sight
        known = self._known_of(act)
        before = known.drains or act.drains
        if {d.replica for d in before} != {d.replica for d in act.drains}:
            before = act.drains  # some were put back meanwhile
        await self._take_out(act, look)
        drains = tuple(self._look_at(drain, look, now, sight.settle_s) for drain in before)
        known.drains = drains
        if not all(d.may_remove or d.phase is Phase.GONE for d in drains):
            return self._told(act, drains, now)
        against = self._against(drains, look)
        if against is not None:
            return replace(act, detail=f"drained, and waiting: {against}")
        return await self._shrunk(replace(act, drains=drains), look)

    async def _take_out(self, act: Act, look: Look) -> None:
        """Once a process and pod, for those that still serve: whoever began the act may have been killed before it."""
        for drain in act.drains:
            pod, key = look.pod(drain.replica), (act.plan_id, drain.replica)
            if pod is not None and pod.serving and not pod.deleting and key not in self._taken_out:
                self._taken_out.add(key)
                await self.routing.take_out(pod, act.plan_id)

    def _look_at(self, drain: Drain, look: Look, now: float, settle_s: float) -> Drain:
        pod = look.pod(drain.replica)
        settled = replace(drain, settle_s=settle_s)
        if pod is not None and not pod.ready and pod.url is None:
            return advance(settled, now, 0)  # nothing runs in it, so nothing is served by it
        streams = self.world.sight.streams(drain.replica, since=drain.began_at)
        return advance(settled, now, streams, exists=not look.is_leaving(drain.replica))

    def _told(self, act: Act, drains: tuple[Drain, ...], now: float) -> Act:
        """Streams are written down now and then only: every record is a write of the lease."""
        changed = [d.phase for d in drains] != [d.phase for d in act.drains]
        text = "; ".join(d.text for d in drains)
        due = text != act.detail and now - (act.written_at or 0.0) >= TOLD_EVERY_S
        return replace(act, drains=drains, detail=text, written_at=now) if changed or due else act

    def _against(self, drains: Sequence[Drain], look: Look) -> str | None:
        if look.rolling:
            return f"{self.of.workload} is rolling out ({revision_words(look.pods)}), and nothing shrinks meanwhile"
        going = [pod for d in drains if (pod := look.pod(d.replica)) is not None and not pod.deleting]
        return look.budget_problem or budget_words(look.budgets, going)

    async def _shrunk(self, act: Act, look: Look) -> Act:
        """The write itself: mark the chosen ones as the cheapest to lose, then shrink the scale."""
        now = self.world.clock.now()
        if look.asked == act.target:  # by a leader that was killed before it could write that down
            return self._shrunk_to(act, look, now)
        if look.asked != act.target + len(act.drains):
            await self._restore(act, look)
            moved = f"the scale is at {look.asked} now, not at {act.target + len(act.drains)}"
            return act.ended("failed", f"given up, the world moved: {moved}; its pods are back in service", now)
        against = await self._marked(act, look)
        if against is not None:
            await self._restore(act, look)
            return act.ended("failed", f"given up: {against}; its pods are back in service", now)
        if (at := self._known_of(act).marked_at) is not None and now - at < MARKED_S:
            return act
        try:
            await self.world.write(self.of, look, act.target)
        except PlanRefused as error:
            self.world.lease.fence(0.0)  # no longer the leader: the next one goes on with it
            await self._restore(act, look)
            await self.world.herald.tell(self.of.workload, look.thing, FAILED, str(error))
            return act.ended("failed", f"{error} Its pods are back in service.", now)
        told = f"New size: {act.target} (from {look.asked}); reason: {act.reason}"
        await self.world.herald.tell(self.of.workload, look.thing, RESCALED, told)
        return self._shrunk_to(act, look, now)

    def _shrunk_to(self, act: Act, look: Look, now: float) -> Act:
        """The act once its scale is written; those that are not to go are remembered, to tell if one of them does."""
        chosen = {d.replica for d in act.drains}
        others = tuple(p.name for p in look.pods if p.name not in chosen and not p.deleting)
        self._beside(act, others)
        return replace(act, written=True, written_at=now, others=others, detail="shrunk; waiting for the pods to go")

    async def _marked(self, act: Act, look: Look) -> str | None:
        """Mark the chosen ones as the cheapest to lose; why that is impossible, in words.

        Without the mark the controller would take whichever it likes, with the streams of those that were not drained.
        It hears of pods and of the scale by different watches, so the mark is set a step before the scale is written.
        """
        if self.of.workload.by_ordinal or self._known_of(act).marked_at is not None:
            return None
        chosen = {d.replica for d in act.drains}
        going = [p for p in look.pods if p.name in chosen and not p.deleting]
        try:
            await asyncio.gather(*(self.routing.mark_cheap(pod) for pod in going))
        except KubeError as error:
            if error.is_forbidden:
                return str(error)
            if not error.is_missing:
                raise  # asked again at the next step; one that is gone needs no mark
        self._known_of(act).marked_at = self.world.clock.now()
        return None

    async def _confirmed(self, act: Act, look: Look) -> Act:
        """A shrink after its write: whether the chosen pods went, and who went in their place."""
        now = self.world.clock.now()
        left = [d.replica for d in act.drains if not look.is_leaving(d.replica)]
        taken = self._taken(act, look)
        if not left:
            words = gone_words(act, taken)
            await self.world.herald.tell(self.of.workload, look.thing, DRAINED, words)
            return act.ended("done", words, now)
        if now - (act.written_at or now) < (CONFIRM_S if self.of.via == "scale" else OTHERS_CONFIRM_S):
            return act
        stayed = [pod for name in left if (pod := look.pod(name)) is not None]
        await asyncio.gather(*(self.routing.put_back(pod) for pod in stayed))
        words = f"{', '.join(left)} stayed and is back in service; the cluster took {taken or 'none yet'}"
        return act.ended("failed", words, now)

    def _taken(self, act: Act, look: Look) -> str:
        """The pods that went although they were to stay, each with the streams it was last seen with; empty for none.

        Those have the pod's grace period to end in, and nobody drained it for them.
        """
        gone = [name for name in act.others if look.is_leaving(name)]
        beside = self._beside(act, [name for name in act.others if name not in gone])
        return ", ".join(f"{name} ({_streams_words(beside.get(name))})" for name in gone)

    def _beside(self, act: Act, staying: Sequence[str]) -> Mapping[str, int]:
        """Streams in the pods that are to stay, as last seen."""
        beside = self._known_of(act).beside
        seen = {name: self.world.sight.streams(name) for name in staying}
        beside.update({name: streams for name, streams in seen.items() if streams is not None})
        return beside

    def _known_of(self, act: Act) -> Known:
        return self._known.setdefault(act.plan_id, Known())

    async def _restore(self, act: Act, look: Look) -> None:
        """Put an act's pods back into service."""
        pods = [pod for d in act.drains if (pod := look.pod(d.replica)) is not None and not pod.deleting]
        await asyncio.gather(*(self.routing.put_back(pod) for pod in pods))


def _streams_words(count: int | None) -> str:
    return "1 stream in it" if count == 1 else f"{'an unknown number of' if count is None else count} streams in it"
