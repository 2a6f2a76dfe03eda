"""Every law on every scene: a change of any decision shows as a line in review.

`tests/data/decisions.csv` is what is expected. After a change that was meant, run with OPSCONSOLE_WRITE_GOLDEN=1, read
the difference, and commit it with the reason.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from policies import names, policy
from policies.memory import Memory
from policies.situation import (
    CapacityFacts,
    Demand,
    Limits,
    Outlook,
    ReplicaFacts,
    Situation,
    SloFacts,
    StepProfile,
)

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]
FILE = Path(__file__).parents[1] / "data" / "decisions.csv"
TICKS = 24  # of 15 s: long enough for every window of 300 s

COMMON: dict[str, Any] = {
    "demand": Demand(request_rate=4.0, mean_prompt=1000.0, mean_output=100.0, waiting_growth=0.0),
    "capacity": CapacityFacts(request_rate=2.0),
    "slo": SloFacts(target=0.95, ttft=1.0, tpot=0.05, ttft_p95=0.6, tpot_p95=0.03),
    "profile": StepProfile(0.01, 1e-4, kv_tokens=1e5, max_running=64, max_batch_tokens=2048),
    "limits": Limits(1, 12, stabilise_down_s=300.0),
    "interval_s": 15.0,
    "outlooks": {
        unit: Outlook((60.0, 300.0, 600.0), (0.5, 0.9), ((4.0, 5.0), (6.0, 7.0), (6.0, 7.0)), "requests/s", "mix")
        for unit in ("requests/s", "arima:requests/s", "kalman:requests/s")
    },
    "future": tuple((1000.0 + 60.0 * i, 2.0 if i < 10 else 5.0) for i in range(30)),
}
EACH: dict[str, Any] = {"running": 8.0, "kv_usage": 0.4, "busy": 0.7, "kv_capacity_tokens": 1e5}


def scenes(situation: Make, replica: MakeReplica) -> dict[str, Situation]:
    def calm(live: int, **changes: Any) -> Situation:
        each = {**EACH, **changes.pop("each", {})}
        return situation(live, **{**COMMON, "each": each, **changes})

    half = replica("r0", **EACH)
    starting = replica("n0", state="warming", expected_ready_at=1900.0, waiting=None, running=None, kv_usage=None)
    return {
        "steady": calm(3),
        "idle": calm(3, each={"running": 0.0, "kv_usage": 0.0, "busy": 0.0}, demand=Demand(request_rate=0.0)),
        "queue": calm(3, each={"waiting": 12.0, "running": 30.0, "busy": 1.0}),
        "kv full": calm(3, each={"kv_usage": 0.95, "busy": 1.0}),
        "preempting": calm(3, each={"preempt_rate": 1.0, "kv_usage": 0.9}),
        "slo missed": calm(3, slo=SloFacts(0.95, 0.7, 0.8, 5.0, 4.0, 1.0, 0.05, ttft_p95=2.5, tpot_p95=0.03)),
        "slo infeasible": calm(
            3,
            slo=SloFacts(0.95, 0.0, 0.0, 20.0, 20.0, 1.0, 0.05, ttft_p95=2.5, tpot_p95=0.03),
            capacity=CapacityFacts(request_rate=2.0, idle_ttft=1.8),
        ),
        "one starting": situation(replicas=(half, replica("r1", **EACH), starting), **COMMON),
        "one down": situation(replicas=(half, replica("r1", **EACH), replica("x", state="down")), **COMMON),
        "one stale": situation(
            replicas=(half, replica("r1", **EACH), replica("x", state="stale", waiting=None, running=None)),
            **{**COMMON, "covered": False},
        ),
        "nothing known": calm(
            3,
            covered=False,
            each={"waiting": None, "running": None, "kv_usage": None, "busy": None, "preempt_rate": None},
            demand=Demand(),
            slo=SloFacts(),
            outlooks={},
            future=(),
        ),
        "paused": calm(3, each={"waiting": 12.0}, paused_until=4600.0),
        "pinned": calm(3, pinned_minimum=6),
        "at the maximum": calm(12, each={"waiting": 12.0}),
    }


def written(situation: Make, replica: MakeReplica) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("scene", "law", "current", "first", "after 6 min", "binding", "reason"))
    for scene, base in scenes(situation, replica).items():
        for name in names():
            law, memory, decisions = policy(name), Memory(), []
            for tick in range(TICKS):
                decision, memory = law.decide(replace(base, now=base.now + 15.0 * tick), memory)
                decisions.append(decision)
            first, last = decisions[0], decisions[-1]
            rows.writerow((scene, name, last.current, first.target, last.target, last.binding, last.reason))
    return out.getvalue()


def test_decisions_are_the_ones_that_were_reviewed(situation: Make, replica: MakeReplica) -> None:
    text = written(situation, replica)
    if os.environ.get("OPSCONSOLE_WRITE_GOLDEN"):
        FILE.write_text(text)
    assert text.splitlines() == FILE.read_text().splitlines()
