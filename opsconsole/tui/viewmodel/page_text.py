"""Every number of a replica's newest page as text: what the engine said, under the names all engines share.

It must not round what it shows more than a page would. The trap: counters are totals since the process started, so they
are not the rates of the other screens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

from opsconsole.domain.records import Buckets, ReplicaView, Sample
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left

NAME = 26
LEFT_OUT = ("replica", "at", "flags", "unknown")


def lines(replica: ReplicaView | None, look_zone_clock: str) -> list[Line]:
    """One line for each number; then what is unknown, and why."""
    sample = replica.sample if replica is not None else None
    if replica is None or sample is None:
        return [(Cell("No page of it has been read.", "dim"),)]
    out: list[Line] = [(Cell(f"{clean(replica.replica)}, page of {look_zone_clock}", "title"),), ()]
    for field in fields(Sample):
        value = getattr(sample, field.name)
        if field.name not in LEFT_OUT and value is not None:
            out += _told(field.name, value)
    for name, why in sample.unknown:
        out.append((Cell(left(clean(name), NAME), "dim"), Cell(f"{fmt.MISSING}  {clean(why)}", "warn")))
    if sample.flags:
        out.append((Cell(left("flags", NAME), "dim"), Cell(clean(", ".join(sample.flags)), "warn")))
    return out


def _told(name: str, value: object) -> list[Line]:
    if isinstance(value, Buckets):
        mean = value.sum / value.count if value.sum is not None and value.count else None
        words = f"{fmt.count(value.count)} observed, mean {fmt.latency(mean)}"
        return [(Cell(left(name, NAME), "dim"), Cell(words))]
    if isinstance(value, Mapping):
        return [
            (Cell(left(f"{name} {clean(str(key))}", NAME), "dim"), Cell(number(item)))
            for key, item in sorted(value.items())
        ]
    return [(Cell(left(name, NAME), "dim"), Cell(clean(number(value))))]


def number(value: object) -> str:
    """A number as a page would print it; words as they are."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return fmt.MISSING
        return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)
