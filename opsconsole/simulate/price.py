"""What the cold start costs: GPU-hours a day spent in each of its phases, and what a shorter one would save.

It reads finished cells. Two prices are told apart: what starting replicas burn before they serve, by phase, and what
the whole fleet saves when a law can react sooner, from the same law at the next shorter start. The trap: the second is
at the law's own attainment, so it is told with the attainments beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsconsole.simulate.settings import ColdStart

DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Start:
    """One law at one start: GPU-hours a day in all and by phase, and attainment."""

    policy: str
    cold_s: float
    attainment: float | None
    hours_a_day: float
    phases: tuple[tuple[str, float], ...]


def price(policy: str, cold_s: float, outcome: Mapping[str, Any]) -> Start:
    """Spread the hours spent starting over the phases, which take the same shares of every start."""
    days = outcome["span_s"] / DAY_S
    start = ColdStart.of(cold_s)
    spent = outcome["gpu_hours_starting"] / days if days > 0 else 0.0
    phases = tuple((p.name, spent * p.seconds / start.seconds if start.seconds else 0.0) for p in start.phases)
    return Start(policy, cold_s, outcome["attainment"], outcome["gpu_hours"] / days if days > 0 else 0.0, phases)


def sentences(starts: Sequence[Start]) -> tuple[str, ...]:
    """One line a law and start; for each step to the next shorter start what it saves, and each phase at that rate."""
    lines: list[str] = []
    for policy in dict.fromkeys(s.policy for s in starts):
        own = sorted((s for s in starts if s.policy == policy), key=lambda s: s.cold_s)
        for start in own:
            parts = ", ".join(f"{name} {hours:.1f}" for name, hours in start.phases)
            lines.append(
                f"{policy} at {start.cold_s:g} s: {start.hours_a_day:,.0f} GPU-hours a day, of them "
                f"{sum(h for _, h in start.phases):.1f} starting ({parts})"
            )
        for short, long in itertools.pairwise(own):
            saved = long.hours_a_day - short.hours_a_day
            share = saved / long.hours_a_day if long.hours_a_day else 0.0
            lines.append(
                f"{policy}: {long.cold_s:g} s cut to {short.cold_s:g} s is worth {saved:,.0f} GPU-hours a day "
                f"({100 * share:.0f} %), attainment {_percent(long.attainment)} to {_percent(short.attainment)}; "
                f"a phase less, at that rate: {_phases_worth(long, saved / (long.cold_s - short.cold_s))}"
            )
    return tuple(lines)


def _phases_worth(start: Start, saved_per_s: float) -> str:
    """What each phase of a start is worth where every second of it is worth the same."""
    phases = ColdStart.of(start.cold_s).phases
    return ", ".join(f"{p.name} ({p.seconds:g} s) {p.seconds * saved_per_s:.1f}" for p in phases)


def to_json(starts: Sequence[Start]) -> list[dict[str, Any]]:
    return [
        {
            "policy": s.policy,
            "cold_start_s": s.cold_s,
            "attainment": s.attainment,
            "gpu_hours_a_day": s.hours_a_day,
            "starting_gpu_hours_a_day": dict(s.phases),
        }
        for s in starts
    ]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"
