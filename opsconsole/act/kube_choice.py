"""Which pods a smaller scale will take, and what stands against taking them now.

Pure: facts of pods in, names and sentences out. A controller does not ask who should go: a ReplicaSet takes pods that
are not ready before any that is, whatever their deletion cost, and a StatefulSet its highest ordinals. So what was
asked for is bent to what will happen, and the difference is told. The trap: preparing one pod and losing another cuts
streams that nobody counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsconsole.cluster.pods import PodFacts, entries, mapping

Streams = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """Pods that will go, the ones of them that serve first being drained, and what a person should know."""

    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def choose(pods: Sequence[PodFacts], count: int, asked: Sequence[str], streams: Streams, *, by_ordinal: bool) -> Choice:
    """The `count` pods that a scale smaller by `count` takes, `asked` first as far as the controller lets them."""
    here = [p for p in pods if not p.deleting]
    if by_ordinal:
        return _highest(here, count, asked)
    # A pod that is not ready goes before any that is: draining a ready one beside it would be in vain.
    lame = sorted((p for p in here if not p.ready), key=lambda p: (p.name not in asked, p.node is not None, p.name))
    on_node = Counter(p.node for p in here)
    fit = sorted((p for p in here if p.ready), key=lambda p: (p.name not in asked, *_cost(p, streams, on_node)))
    names = tuple(p.name for p in (*lame, *fit)[: max(0, count)])
    spared = [name for name in asked if name not in names]
    if not spared:
        return Choice(names)
    first = [p.name for p in lame[:count]]
    why = f"{', '.join(first)} not ready and taken first by the cluster" if first else "fewer go than were named"
    return Choice(names, (f"{', '.join(spared)} stays: {why}",))


def _highest(here: Sequence[PodFacts], count: int, asked: Sequence[str]) -> Choice:
    ranked = sorted(here, key=lambda p: (-1 if p.ordinal is None else p.ordinal, p.name), reverse=True)
    names = tuple(p.name for p in ranked[: max(0, count)])
    spared = [name for name in asked if name not in names]
    if not spared:
        return Choice(names)
    return Choice(names, (f"{', '.join(spared)} stays: this kind takes its highest ordinal, {', '.join(names)}",))


def _cost(pod: PodFacts, streams: Streams, on_node: Mapping[str | None, int]) -> tuple[float, int, float, str]:
    """Fewest streams at risk, then the fewest beside it on its node, then the newest; unknown streams are many."""
    running = streams(pod.name)
    return (math.inf if running is None else running, on_node[pod.node], -(pod.ready_at or 0.0), pod.name)


def at_risk(names: Sequence[str], pods: Sequence[PodFacts], streams: Streams) -> int | None:
    """Streams running on these pods; None where one cannot tell. A pod that is not ready carries none."""
    ready = {p.name for p in pods if p.ready}
    told = [streams(name) for name in names if name in ready]
    return None if any(count is None for count in told) else sum(count or 0 for count in told)


def is_rolling(thing: Mapping[str, Any], pods: Sequence[PodFacts]) -> bool:
    """Whether a rollout is under way: pods of two revisions, or fewer new ones than there should be."""
    if len({p.revision for p in pods if not p.deleting and p.revision}) > 1:
        return True
    status = mapping(thing, "status")
    updated, existing = status.get("updatedReplicas"), status.get("replicas")
    settled = mapping(thing, "metadata").get("generation") == status.get("observedGeneration")
    return settled and isinstance(updated, int) and isinstance(existing, int) and updated < existing


def revision_words(pods: Sequence[PodFacts]) -> str:
    """How much of each revision serves, the oldest first: `revision 7fb74984dc: 2 of 2 ready, 5c9d: 0 of 1 ready`."""
    ready: dict[str, list[bool]] = {}
    for pod in sorted(pods, key=lambda p: p.created_at or 0.0):
        if pod.revision and not pod.deleting:
            ready.setdefault(pod.revision, []).append(pod.ready)
    told = ", ".join(f"{revision}: {sum(each)} of {len(each)} ready" for revision, each in ready.items())
    return f"revision {told}" if told else "no pod is there"


def crash_words(pods: Sequence[PodFacts]) -> str | None:
    """Why more pods cannot help: the newest revision crash-loops and none of it is ready."""
    here = [p for p in pods if not p.deleting]
    newest = max(here, key=lambda p: p.created_at or 0.0, default=None)
    same = [p for p in here if newest is not None and p.revision == newest.revision]
    falling = [p for p in same if p.crash_loops]
    if not falling or any(p.ready for p in same):
        return None
    return f"{len(falling)} of {len(same)} pods of the newest revision fall ({falling[0].why}) and none is ready"


def budget_words(budgets: Sequence[Mapping[str, Any]], going: Sequence[PodFacts]) -> str | None:
    """Which PodDisruptionBudget does not allow these ready pods to go, in words; None when all do."""
    for budget in budgets:
        hit = [p for p in going if p.ready and selects(mapping(mapping(budget, "spec"), "selector"), p.labels)]
        allowed = mapping(budget, "status").get("disruptionsAllowed")
        if hit and isinstance(allowed, int) and allowed < len(hit):
            name = mapping(budget, "metadata").get("name")
            return f"the PodDisruptionBudget {name} allows {allowed} pods to go now, and {len(hit)} would"
    return None


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an empty one matches all, as in policy/v1."""
    if any(labels.get(key) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    return all(_expression(e, labels) for e in entries(selector, "matchExpressions"))


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(expression.get("key")), expression.get("values") or ()
    has = labels.get(key)
    return {
        "In": has in values,
        "NotIn": has not in values,
        "Exists": has is not None,
        "DoesNotExist": has is None,
    }.get(str(expression.get("operator")), False)
