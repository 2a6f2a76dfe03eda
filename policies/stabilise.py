"""Slow to shrink: windows over past recommendations, and holds on unknown data.

It must not know which rule recommended what. The trap: after a restart the window is empty, and an empty window is not
a calm one; nothing shrinks until a whole window has been seen.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from policies.decision import Input, RuleResult, Verdict
from policies.memory import Memory, Row
from policies.picture import Picture
from policies.wording import seconds

SERIES = "recommended"


@dataclass(frozen=True, slots=True)
class Steady:
    """The count after the windows; `held` when unknown data forbade a shrink."""

    count: int
    result: RuleResult
    held: bool = False


def stabilise(picture: Picture, memory: Memory, count: int) -> tuple[Steady, Memory]:
    """Up to the smallest recommendation of the up-window, down to the largest one of the down-window."""
    situation = picture.situation
    limits, now, current = situation.limits, situation.now, situation.want
    keep = max(limits.stabilise_up_s, limits.stabilise_down_s) + 2 * situation.interval_s
    known = situation.covered and not picture.silent
    if known or count > current:
        memory = memory.push(SERIES, (now, float(count)), keep_s=keep, most=4000)
    rows = memory.series(SERIES)
    inputs = (
        Input("recommended", count, "replicas"),
        Input("up_window", limits.stabilise_up_s, "s"),
        Input("down_window", limits.stabilise_down_s, "s"),
    )
    if count > current:
        up = min(int(row[1]) for row in rows if row[0] >= now - limits.stabilise_up_s)
        if limits.stabilise_up_s > 0 and not _spans(rows, now, limits.stabilise_up_s, situation.interval_s):
            up = current
        up = max(current, up)
        text = f"up-window {seconds(limits.stabilise_up_s)}: {up} of {count}"
        return Steady(up, RuleResult("stabilise", inputs, up, _verdict(up, count), text)), memory
    if count == current:
        return Steady(count, RuleResult("stabilise", inputs, count, Verdict.AGREES, "nothing to steady")), memory
    if not known:
        text = f"hold at {current}: {picture.missing() or 'data is incomplete'}"
        return Steady(current, RuleResult("stabilise", inputs, current, Verdict.HOLDS, text), held=True), memory
    window = limits.stabilise_down_s
    if not _spans(rows, now, window, situation.interval_s):
        first = min((row[0] for row in rows if row[0] >= now - window), default=now)
        text = f"hold at {current}: the down-window of {seconds(window)} has seen only {seconds(now - first)}"
        return Steady(current, RuleResult("stabilise", inputs, current, Verdict.HOLDS, text)), memory
    most = max(int(row[1]) for row in rows if row[0] >= now - window)
    down = min(current, max(count, most))
    text = f"most that was wanted in {seconds(window)} is {most}"
    return Steady(down, RuleResult("stabilise", inputs, down, _verdict(down, count), text)), memory


def _spans(rows: tuple[Row, ...], now: float, window: float, interval: float) -> bool:
    """Whether recommendations cover the window: from its start, with no gap longer than half of it or two ticks."""
    if window <= 0:
        return True
    inside = [row[0] for row in rows if row[0] >= now - window]
    if not inside:
        return False
    older = any(row[0] < now - window for row in rows)
    if not older and inside[0] > now - window + 1e-6:
        return False
    times = [now - window, *inside, now]
    return max(b - a for a, b in itertools.pairwise(times)) <= max(window / 2, 2 * interval)


def _verdict(steady: int, count: int) -> Verdict:
    return Verdict.AGREES if steady == count else Verdict.HOLDS
