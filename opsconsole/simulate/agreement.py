"""Whether the two fidelities agree: the same laws on the same window, request by request and as a flow.

It runs both with the same seeds and compares means. A static fleet is set to what the window needs on average, so that
it is neither idle nor lost. The trap: a scaling law amplifies small differences, because one replica more is a large
share of a small fleet: one run against one says little, and the range over the seeds is printed beside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from opsconsole.simulate.backtest import run, stage
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.sweep import plain
from opsconsole.simulate.traces import Trace

POINTS, SHARE = 0.02, 0.03  # of attainment, of GPU-hours


@dataclass(frozen=True, slots=True)
class Agreement:
    """One law on one window in both fidelities."""

    trace: str
    policy: str
    request: tuple[RunOutcome, ...]  # a seed each
    fluid: tuple[RunOutcome, ...]

    @property
    def points(self) -> float:
        """Attainment, fluid less request."""
        return attained(self.fluid) - attained(self.request)

    @property
    def share(self) -> float:
        """GPU-hours, fluid over request, less one."""
        hours = fmean(out.gpu_hours for out in self.request)
        return fmean(out.gpu_hours for out in self.fluid) / hours - 1.0 if hours else 0.0

    @property
    def agrees(self) -> bool:
        return abs(self.points) <= POINTS and abs(self.share) <= SHARE

    def to_json(self) -> dict[str, Any]:
        sides = (("request", self.request), ("fluid", self.fluid))
        return {
            "trace": self.trace,
            "policy": self.policy,
            **{name: [plain(out) for out in outcomes] for name, outcomes in sides},
            "points": self.points,
            "gpu_hours_difference": self.share,
            "agrees": self.agrees,
        }


def attained(outcomes: Sequence[RunOutcome]) -> float:
    """Mean attainment."""
    return fmean(out.attainment or 0.0 for out in outcomes)


def compare(
    trace: Trace, laws: Sequence[str], cold_s: float, fleet: float, seeds: Sequence[int] = (1,)
) -> list[Agreement]:
    """Both fidelities of each law on all of `trace`."""
    found = stage(trace, fleet=fleet, forecast="predictive" in laws)
    rows = []
    for law in laws:
        knobs = {"replicas": float(found.oracle(cold_s).mean())} if law == "static" else {}
        request = tuple(run(found, law, cold_s, knobs, fidelity="request", seed=seed) for seed in seeds)
        fluid = tuple(run(found, law, cold_s, knobs, fidelity="fluid", seed=seed) for seed in seeds)
        rows.append(Agreement(trace.label, law, request, fluid))
    return rows


def _hours(outcomes: Sequence[RunOutcome]) -> str:
    """Mean GPU-hours, with their range where there are several."""
    hours = [out.gpu_hours for out in outcomes]
    return f"{fmean(hours):.2f}" + (f" ({min(hours):.2f} to {max(hours):.2f})" if len(hours) > 1 else "")


def as_text(rows: Sequence[Agreement]) -> str:
    head = ("trace", "policy", "requests", "attained", "fluid", "points", "GPU-h", "fluid", "difference", "agrees")
    body = [
        (
            row.trace, row.policy, f"{row.request[0].offered:,}", f"{100 * attained(row.request):.2f} %",
            f"{100 * attained(row.fluid):.2f} %", f"{100 * row.points:+.2f}", _hours(row.request),
            _hours(row.fluid), f"{100 * row.share:+.1f} %", "yes" if row.agrees else "no",
        )
        for row in rows
    ]  # fmt: skip
    table = [head, *body]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([*lines, f"agrees: attainment within {100 * POINTS:g} points, GPU-hours within {100 * SHARE:g} %"])


def as_json(rows: Sequence[Agreement]) -> str:
    """The same with all digits, a run a seed."""
    bars = {"points": POINTS, "gpu_hours_difference": SHARE}
    return json.dumps({"rows": [row.to_json() for row in rows], "bars": bars}, indent=1, sort_keys=True)
