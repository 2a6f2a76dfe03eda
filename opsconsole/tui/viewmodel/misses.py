"""Where requests miss: which replica, in which phase, in which state; the sure part of it only.

It must not call an estimate a count. By replica it is counted; by phase, what missed TTFT is divided as TTFT's own tail
divides between queue and prefill, and what missed TPOT is decode's. The trap: where TTFT and TPOT are exported apart,
a request that missed both would count twice, so shares are of all misses found and never of requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsconsole.domain.records import FleetSnapshot, ReplicaState, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, tail, width
from opsconsole.tui.filters import compile_filter
from opsconsole.tui.memo import while_shown
from opsconsole.tui.theme import Glyphs

YOUNG_S = 300.0  # a replica that serves for less long still warms its cache
WORTH = 0.005  # a share below is left out of a line


def lost(replica: ReplicaView) -> float:
    """Requests a second that missed, the sure part of them."""
    if replica.request_rate is None or replica.attainment is None:
        return 0.0
    return replica.request_rate * (1 - replica.attainment.high)


def by_phase(replicas: Sequence[ReplicaView]) -> dict[str, float]:
    """Requests a second that missed in queue, prefill and decode; empty where no engine tells its queue's time."""
    found = {"queue": 0.0, "prefill": 0.0, "decode": 0.0}
    told = False
    for replica in replicas:
        rate = replica.request_rate
        if rate is None:
            continue
        if replica.ttft_ok is not None and (part := queue_share(replica)) is not None:
            told = True
            late = rate * (1 - replica.ttft_ok.high)
            found["queue"] += late * part
            found["prefill"] += late * (1 - part)
        if replica.tpot_ok is not None:
            found["decode"] += rate * (1 - replica.tpot_ok.high)
    return found if told else {}


def queue_share(replica: ReplicaView) -> float | None:
    """How much of TTFT's 95th percentile is the queue's."""
    queue, whole = fmt.known(replica.queue_time.p95), fmt.known(replica.ttft.p95)
    if queue is None or not whole:
        return None
    return max(0.0, min(1.0, queue / whole))


def by_state(replicas: Sequence[ReplicaView], now: float) -> dict[str, float]:
    """Requests a second that missed, by what their replica went through."""
    found: dict[str, float] = {}
    for replica in replicas:
        if (missed := lost(replica)) > 0:
            word = _going_through(replica, now)
            found[word] = found.get(word, 0.0) + missed
    return found


def _going_through(replica: ReplicaView, now: float) -> str:
    if replica.state is ReplicaState.SATURATED:
        return "saturated"
    if (replica.preempt_rate or 0.0) > 0:
        return "preempting"
    if replica.started_at is not None and now - replica.started_at < YOUNG_S:
        return "cold start"
    return "queueing" if (replica.waiting or 0.0) > 0 else "other"


def by_replica(replicas: Sequence[ReplicaView], most: int = 2) -> dict[str, float]:
    """The worst few by name, then all others together."""
    ranked = sorted(((lost(r), r.replica) for r in replicas), key=lambda pair: (-pair[0], pair[1]))
    ranked = [(missed, name) for missed, name in ranked if missed > 0]
    found = {tail(clean(name), min(14, width(clean(name)))): missed for missed, name in ranked[:most]}
    if rest := sum(missed for missed, _ in ranked[most:]):
        found["others"] = rest
    return found


@while_shown
def found(snapshot: FleetSnapshot, glyphs: Glyphs, pool: str = "", text: str = "") -> list[Line]:
    """The same of a tick: of one pool, of what a filter lets through, or of all."""
    holds = compile_filter(text)
    return lines([r for r in snapshot.replicas if pool in ("", r.pool) and holds(r)], glyphs, snapshot.at)


def lines(replicas: Sequence[ReplicaView], glyphs: Glyphs, now: float) -> list[Line]:
    """by replica / phase / state, each as shares with small bars; one sentence where nothing missed."""
    whole = sum(lost(r) for r in replicas)
    if whole <= 0:
        known = any(r.attainment is not None for r in replicas)
        words = " nothing surely missed in the window" if known else " no attainment in the window, so no misses known"
        return [(Cell(words, "dim"),)]
    out: list[Line] = []
    for title, parts in (
        ("by replica", by_replica(replicas)), ("by phase", by_phase(replicas)), ("by state", by_state(replicas, now)),
    ):  # fmt: skip
        out.append(_shares(title, parts, glyphs))
    return out


def _shares(title: str, parts: Mapping[str, float], glyphs: Glyphs) -> Line:
    whole = sum(parts.values())
    line = [Cell(left(f" {title}", 13), "dim")]
    if whole <= 0:
        return (*line, Cell(f"{fmt.MISSING}  no queue time is exported" if title == "by phase" else fmt.MISSING, "dim"))
    for name, amount in sorted(parts.items(), key=lambda pair: -pair[1]):
        share = amount / whole
        if share < WORTH:
            continue
        cells = max(1, round(share * 8))
        line += [Cell(f"{name} {share * 100:.0f}% "), Cell(draw.bar(share * 8 / cells, cells, glyphs), "bar"),
                 Cell("  ")]  # fmt: skip
    return tuple(line)
