"""One look at a workload: its object, its scale, its pods, and whoever else writes it; and what that makes of a pool.

It reads and never writes. The traps: pods on their way out are still asked for by the scale (or by the published count,
where an HPA or KEDA holds the pen), so what is wanted is that less those; and a scale of 0 under a minimum above 0 is
an operator's pause, not a pool to be filled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from opsconsole.act.actuator import Member, PoolState
from opsconsole.act.board import Board
from opsconsole.act.kube_acts import Acts
from opsconsole.act.kube_choice import is_rolling
from opsconsole.act.kube_owners import Self, owner_of, via_owner
from opsconsole.act.kube_scale import Scale, Scaler
from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError
from opsconsole.cluster.nodes import nodes_of
from opsconsole.cluster.pods import PodFacts, entries, facts, mapping
from opsconsole.cluster.starts import Like, StartTimes, words
from opsconsole.cluster.workload import Workload

OWNER_S = 10.0  # an answer about other writers is good for this long, except just before a write
PAGE = 500


@dataclass(frozen=True, slots=True)
class KubePool:
    """One pool of a configuration and the workload it is. Durations are seconds."""

    pool: str
    workload: Workload
    minimum: int = 0
    drain_deadline_s: float = 60.0
    port: int | None = None
    via: Literal["scale", "hpa", "keda"] = "scale"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found."""

    at: float
    thing: Mapping[str, Any]
    scale: Scale
    asked: int  # replicas asked for: the scale's, or what is published for an HPA or KEDA to bring about
    pods: tuple[PodFacts, ...]
    owner: str | None
    budgets: tuple[Mapping[str, Any], ...] = ()
    budget_problem: str | None = None  # why budgets are unknown: a shrink needs them known

    @property
    def rolling(self) -> bool:
        return is_rolling(self.thing, self.pods)

    @property
    def newest(self) -> PodFacts | None:
        """The pod created last: what is started next will be like it."""
        return max(self.pods, key=lambda p: p.created_at or 0.0, default=None)

    def pod(self, name: str) -> PodFacts | None:
        return next((p for p in self.pods if p.name == name), None)

    def is_leaving(self, name: str) -> bool:
        """Whether the cluster has begun to remove it, or has done so."""
        found = self.pod(name)
        return found is None or found.deleting

    def want(self, acts: Acts, pool: str) -> int:
        return max(0, self.asked - len(acts.leaving(pool)))

    def version(self, acts: Acts, pool: str) -> str:
        """Moves with what the object is to be, its scale and the pods on their way out; not with its status.

        The object's own generation would not do: annotations move a Deployment's as well.
        """
        spec = {key: value for key, value in mapping(self.thing, "spec").items() if key != "replicas"}
        digest = blake2b(json.dumps(spec, sort_keys=True).encode(), digest_size=4).hexdigest()
        return f"{self.scale.uid[:8]}/{digest}/{self.asked}/{self.want(acts, pool)}"


class Looker:
    """Looks at one workload, and remembers for a moment who else writes it."""

    def __init__(self, api: KubeApi, scaler: Scaler, of: KubePool, me: Self, board: Board, clock: Clock) -> None:
        self._api, self._scaler, self._of, self._me, self._board, self._clock = api, scaler, of, me, board, clock
        self._owner: str | None = None
        self._owner_at = -1e9
        self._nodes = nodes_of(api, clock)
        self.starts = StartTimes()

    async def look(self, *, fresh: bool = False) -> Look:
        """The workload now. `fresh` asks after other writers and budgets as well; raises where either is unknown."""
        workload = self._of.workload
        thing, scale = await asyncio.gather(self._api.get(workload.path), self._scaler.read(workload))
        pods, owner = await asyncio.gather(self._pods(scale.selector), self._owner_of(thing, fresh))
        budgets, problem = await self._budgets() if fresh else ((), None)
        self.starts = self.starts.learn(pods)
        return Look(self._clock.now(), thing, scale, self._asked(scale), pods, owner, budgets, problem)

    def start_words(self, look: Look) -> str | None:
        """How long starts like that of the newest pod took, by node type; None where none was seen."""
        newest = look.newest
        return None if newest is None else words(self.starts, newest.runs, self._nodes.problem)

    def usual_start_s(self, look: Look) -> float | None:
        """By when nine of ten pods like the newest were ready, whatever their node; None where none was seen."""
        span = None if look.newest is None else self.starts.span("total", Like(look.newest.runs))
        return None if span is None else span.p90

    def _asked(self, scale: Scale) -> int:
        published = None if self._of.via == "scale" else self._board.count(self._of.pool)
        return scale.replicas if published is None else published

    async def _pods(self, selector: str) -> tuple[PodFacts, ...]:
        found: list[PodFacts] = []
        query: dict[str, Any] = {"labelSelector": selector, "limit": PAGE}
        while selector:  # a scale without a selector would match every pod of the namespace
            page = await self._api.get(f"/api/v1/namespaces/{self._of.workload.namespace}/pods", query)
            read = (facts(pod, self._clock.now(), port=self._of.port) for pod in entries(page, "items"))
            found += (pod for pod in read if pod is not None)
            more = mapping(page, "metadata").get("continue")
            if not more:
                break
            query["continue"] = more
        await self._nodes.learn(p.node for p in found)
        return tuple(sorted(self._nodes.typed(found), key=lambda p: p.name))

    async def _owner_of(self, thing: Mapping[str, Any], fresh: bool) -> str | None:
        if fresh or self._clock.monotonic() - self._owner_at > OWNER_S:
            self._owner = await owner_of(self._api, self._of.workload, thing, self._me, self._clock.now())
            self._owner_at = self._clock.monotonic()
        return self._owner

    async def _budgets(self) -> tuple[tuple[Mapping[str, Any], ...], str | None]:
        path = f"/apis/policy/v1/namespaces/{self._of.workload.namespace}/poddisruptionbudgets"
        try:
            return tuple(entries(await self._api.get(path), "items")), None
        except KubeError as error:
            if error.status == 403:
                return (), f"a shrink needs the PodDisruptionBudgets known, and they may not be listed ({error})"
            raise


def pool_state(of: KubePool, look: Look, acts: Acts, starts: StartTimes, hold: str | None) -> PoolState:
    """The pool as a loop sees it."""
    leaving = acts.leaving(of.pool)
    owner = look.owner
    if of.via != "scale":
        wrong = via_owner(of.via, look.owner)
        owner, hold = None, hold or wrong
    if hold is None and of.via == "scale" and look.asked == 0 and of.minimum > 0:
        hold = f"{of.workload} is at 0 replicas and the pool's minimum is {of.minimum}: taken as an operator's pause"
    return PoolState(
        of.pool,
        look.want(acts, of.pool),
        tuple(_member(pod, pod.name in leaving, starts) for pod in look.pods),
        look.version(acts, of.pool),
        owner,
        hold,
    )


def _member(pod: PodFacts, leaving: bool, starts: StartTimes) -> Member:
    draining = pod.deleting or leaving or not pod.serving
    phase = pod.phase if pod.why is None or pod.phase is None else f"{pod.phase}: {pod.why}"
    return Member(
        pod.name,
        ready=pod.ready and not draining,
        draining=draining,
        phase=phase,
        started_at=pod.created_at,
        expected_ready_at=None if pod.ready else starts.expected_ready_at(pod),
        url=pod.url,
    )


def supply_words(look: Look, wanted: int) -> str:
    """How much of a growth is there: how many are ready, and why the others are not."""
    here = [p for p in look.pods if not p.deleting]
    ready = sum(p.ready for p in here)
    waiting: dict[str, int] = {}
    for pod in here:
        if not pod.ready:
            words = f"{pod.phase or 'starting'}{f' ({pod.why})' if pod.why else ''}"
            waiting[words] = waiting.get(words, 0) + 1
    missing = wanted - len(here)
    told = [f"{count} {words}" for words, count in sorted(waiting.items())]
    if missing > 0:
        told.append(f"{missing} not created")
    return f"{ready} of {wanted} ready" + (f"; {'; '.join(told)}" if told else "")
