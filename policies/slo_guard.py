"""The service level itself as a reason to grow, and the one case where growing cannot help.

It must not know how attainment was measured. It raises only when the upper end of what is known misses, in a short and
in a long window. The trap: when a lone request on an idle replica misses the bound, no number of replicas meets it.
"""

from __future__ import annotations

from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.picture import Picture
from policies.wording import number, percent


def infeasible(picture: Picture) -> str | None:
    """Why no number of replicas can meet the SLO, or None."""
    slo, capacity = picture.situation.slo, picture.capacity
    if capacity is None:
        return None
    for name, idle, bound in (("TTFT", capacity.idle_ttft, slo.ttft), ("TPOT", capacity.idle_tpot, slo.tpot)):
        if idle is not None and bound is not None and idle > bound:
            return (
                f"a lone request on an idle replica has {name} {number(idle)} s and the bound is {number(bound)} s: "
                "more replicas cannot help; relax the bound, or use a faster model or accelerator"
            )
    return None


def slo_guard(picture: Picture, memory: Memory) -> tuple[RuleResult, Memory]:
    """Both burn windows above the threshold: one more than what serves, unless it cannot help."""
    slo, limit = picture.situation.slo, picture.situation.thresholds.burn
    inputs = (
        Input("burn_short", slo.burn_short, "x"),
        Input("burn_long", slo.burn_long, "x"),
        Input("attainment_low", slo.attainment_low, "share"),
        Input("target", slo.target, "share"),
    )
    hopeless = infeasible(picture)
    if hopeless is not None:
        return RuleResult("slo", inputs, None, Verdict.OFF, hopeless), memory
    if slo.burn_short is None or slo.burn_long is None:
        return RuleResult("slo", inputs, None, Verdict.UNKNOWN, "SLO burn is unknown"), memory
    words = f"SLO burn {number(slo.burn_short)}x short, {number(slo.burn_long)}x long"
    if min(slo.burn_short, slo.burn_long) <= limit:
        return RuleResult("slo", inputs, None, Verdict.OFF, f"{words}, acts above {number(limit)}x in both"), memory
    live = len(picture.live)
    wants = live + 1
    verdict = Verdict.RAISES if wants > picture.situation.want else Verdict.AGREES
    text = f"{words}, both > {number(limit)}x, wants {wants}"
    if picture.coming >= wants and picture.starting:
        text += f": {len(picture.starting)} start"
    return RuleResult("slo", inputs, wants, verdict, text), memory


def blocks_shrink(picture: Picture) -> str | None:
    """Why the SLO forbids fewer replicas now, or None: the lower end of attainment misses the target."""
    slo = picture.situation.slo
    if slo.target is None or slo.attainment_low is None or slo.attainment_low >= slo.target:
        return None
    if infeasible(picture) is not None:
        return None  # replicas do not matter to it, so it does not hold them
    if slo.attainment_high is not None and slo.attainment_high > slo.attainment_low:
        span = f"between {percent(slo.attainment_low)} and {percent(slo.attainment_high)}"
    else:
        span = percent(slo.attainment_low)
    return f"attainment is {span}, the target is {percent(slo.target)}"
