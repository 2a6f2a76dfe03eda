"""Whether fewer replicas would do: the load of N carried by N - 1, with a margin, before anything is given back.

It must not know of windows; `stabilise` applies them. The trap: a fleet that looks idle because a replica did not
answer is not idle, so every live replica must have told its queue, its batch and its occupancy in this very tick.
"""

from __future__ import annotations

from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.overload import MARGIN
from policies.picture import Picture
from policies.slo_guard import blocks_shrink
from policies.wording import number, percent, replicas, seconds

IDLE = "idle"


def consolidate(picture: Picture, memory: Memory) -> tuple[RuleResult, Memory]:
    """The smallest count that still carries the load below the calm share of every threshold."""
    situation = picture.situation
    idle_since, memory = memory.holding(IDLE, is_idle(picture), situation.now)
    inputs = _inputs(picture)
    missing = picture.missing()
    why_not = missing or _forbidden(picture)
    if why_not is not None:
        verdict = Verdict.UNKNOWN if missing is not None else Verdict.HOLDS
        return RuleResult("consolidate", inputs, None, verdict, f"no shrink: {why_not}"), memory
    live = len(picture.live)
    if situation.want == 0:
        return RuleResult("consolidate", inputs, None, Verdict.AGREES, "nothing to shrink: the pool is at 0"), memory
    zero = _to_zero(picture, idle_since)
    if zero is not None and zero[0]:
        return RuleResult("consolidate", inputs, 0, Verdict.LOWERS, zero[1]), memory
    why = too_much(picture, live)
    fits = live if why is None else situation.want
    while why is None and fits > 1:
        why = too_much(picture, fits - 1)
        fits -= 1 if why is None else 0
    if fits >= situation.want:
        why = why or (zero[1] if zero else "the last replica stays")
        return RuleResult("consolidate", inputs, None, Verdict.AGREES, f"no shrink: {why}"), memory
    words = f"{replicas(fits)} would carry the load of {live}: {_load(picture, fits)}"
    if picture.stuck:
        words += f"; {replicas(len(picture.stuck))} cannot start"
    return RuleResult("consolidate", inputs, fits, Verdict.LOWERS, words), memory


def is_idle(picture: Picture) -> bool:
    """Nothing arrives, waits or runs, and that is known rather than unseen."""
    demand = picture.situation.demand
    quiet = picture.waiting == 0 or (picture.waiting is None and not picture.live)
    still = picture.running == 0 or not picture.live
    told = picture.situation.covered and not picture.silent
    return told and quiet and still and demand.request_rate == 0 and not demand.rejected_rate


def too_much(picture: Picture, count: int) -> str | None:
    """Why `count` replicas could not calmly carry what the live ones carry now, or None."""
    limits = picture.situation.thresholds
    calm = limits.calm
    waiting, kv, preempting = picture.waiting, picture.kv, picture.preempting
    if waiting is not None and waiting > calm * limits.queue * count:
        return f"queue {number(waiting)} > {number(calm * limits.queue * count)} that {count} may have"
    if kv is not None and kv > calm * limits.kv * count:
        return f"KV would be {percent(kv / count)} on {count}, more than {percent(calm * limits.kv)}"
    if preempting:
        return f"preemptions {number(preempting)}/s"
    used = picture.utilisation(count)
    if used is not None and used > limits.packed:
        return f"demand would be {percent(used)} of what {count} can serve, more than {percent(limits.packed)}"
    rate, proved = picture.situation.demand.request_rate, picture.overload
    if rate is not None and proved is not None and rate > MARGIN * proved * count:
        return (
            f"demand would be {number(rate / count)} requests/s a replica on {count}, "
            f"and {number(proved)} was too much within the hour"
        )
    return None


def _forbidden(picture: Picture) -> str | None:
    situation = picture.situation
    if picture.starting:
        last = max(picture.ready_at(r) for r in picture.starting) - situation.now
        return f"{replicas(len(picture.starting))} still starting, the last is due in {seconds(max(0.0, last))}"
    if not picture.live and situation.want > 0:
        return "no replica is ready, which is a fault and not low load"
    return blocks_shrink(picture)


def _to_zero(picture: Picture, idle_since: float | None) -> tuple[bool, str] | None:
    """Whether the last replica may go; None where scale to zero is not configured."""
    situation = picture.situation
    after = situation.limits.to_zero_after_s
    if after is None or situation.limits.minimum > 0:
        return None
    idle = 0.0 if idle_since is None else situation.now - idle_since
    if idle_since is None or idle < after:
        return False, f"idle for {seconds(idle)}, zero from {seconds(after)}"
    return True, f"idle for {seconds(idle)} >= {seconds(after)} wants 0"


def _load(picture: Picture, count: int) -> str:
    parts = [f"queue {number(picture.waiting)}"]
    if picture.kv is not None and count:
        parts.append(f"KV {percent(picture.kv / count)}")
    used = picture.utilisation(count)
    if used is not None:
        parts.append(f"demand {percent(used)} of capacity")
    return ", ".join(parts)


def _inputs(picture: Picture) -> tuple[Input, ...]:
    return (
        Input("waiting", picture.waiting, "requests"),
        Input("kv", picture.kv, "replicas' worth"),
        Input("preemptions", picture.preempting, "1/s"),
        Input("serving", len(picture.live), "replicas"),
    )
