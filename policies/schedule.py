"""Schedule overrides one lead ahead: what the operator announced must be warm when it begins.

It must not apply the window itself; `limits.bounds` does while it lasts. The trap: starting at the announced minute is
one cold start too late.
"""

from __future__ import annotations

from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory
from policies.picture import Picture
from policies.wording import seconds


def schedule_ahead(picture: Picture, memory: Memory) -> tuple[RuleResult, Memory]:
    """The largest minimum of the windows that begin within the lead."""
    situation = picture.situation
    horizon = situation.now + picture.lead_s + situation.interval_s
    coming = [w for w in situation.schedule if situation.now < w.start <= horizon and w.minimum is not None]
    if not coming:
        return RuleResult("schedule", (), None, Verdict.OFF, "nothing scheduled within the lead"), memory
    window = max(coming, key=lambda w: (w.minimum or 0, -w.start))
    wants, left = window.minimum or 0, window.start - situation.now
    note = f" {window.note}" if window.note else ""
    text = f"schedule{note} begins in {seconds(left)}, lead {seconds(picture.lead_s)}, wants {wants}"
    inputs = (Input("begins_in", left, "s"), Input("minimum", wants, "replicas"))
    verdict = Verdict.RAISES if wants > situation.want else Verdict.AGREES
    return RuleResult("schedule", inputs, wants, verdict, text), memory
