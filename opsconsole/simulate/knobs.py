"""Each law's own knob: the field an operator would turn, its published value, and the values a sweep tries.

Ordered from stingy to generous, so that attainment and GPU-hours rise along the list. The trap: a law without a knob
of its own (Dynamo, whose only input is the SLA) is swept by the bounds it is told; its outcome is judged by the real
ones all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Knob:
    """`values` from stingy to generous; `published` is the default, None where the law sets none."""

    field: str
    values: tuple[float, ...]
    published: float | None
    unit: str = ""


TELLS_BOUNDS = "told bounds"  # not a field: the SLO bounds a law is told, as a share of the real ones

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.42, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)
_TOLD = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.42, 0.35, 0.3, 0.29, 0.28, 0.27, 0.26, 0.24)  # it tips over between the last
_DYNAMO = Knob(TELLS_BOUNDS, _TOLD, 1.0, "of the bounds")

KNOBS: Mapping[str, Knob] = {
    "static": Knob("replicas", (), None, "replicas"),
    "hpa-queue": Knob("target", (20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05), 5.0, "waiting a replica"),
    "hpa-kv": Knob("target", (0.8, 0.4, 0.2, 0.15, 0.12, 0.1, 0.08, 0.065, 0.05, 0.04, 0.03, 0.02, 0.01), 0.8, "of KV"),
    "hpa-gpu": Knob("target", (0.99, 0.97, 0.95, 0.9, 0.85, 0.8, 0.6), 0.8, "busy"),
    "hpa-ttft": Knob("target", (1.0, 0.7, 0.5, 0.4, 0.35, 0.3, 0.27, 0.25, 0.22, 0.2), 1.0, "s"),
    "keda-epp": Knob(
        "running", (40.0, 32.0, 28.0, 24.0, 22.0, 20.0, 18.0, 16.0, 13.0, 11.0, 9.0, 7.0), 16.0, "running"
    ),
    "kpa": Knob(
        "target", (70.0, 50.0, 40.0, 32.0, 26.0, 22.0, 19.0, 16.0, 13.0, 11.0, 9.0, 7.0, 5.0), 70.0, "in flight"
    ),
    "wva-v2": Knob("kv_share", (0.8, 0.4, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02), 0.8, "of KV"),
    "dynamo-constant": _DYNAMO,
    "dynamo-arima": _DYNAMO,
    "dynamo-kalman": _DYNAMO,
    "reactive": Knob("packed", (0.95, *_SHARES[1:]), 0.85, "of capacity"),
    "predictive": Knob(  # left alone, it chooses for the target by its own running backtest
        "quantile", (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.985, 0.99, 0.9925, 0.995), None, "quantile"
    ),
}
