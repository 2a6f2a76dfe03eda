"""Whether the two fidelities agree: the same laws on the same window, request by request and as a flow.

It runs both and compares. A static fleet is set to what the window needs at most, so that it is neither idle nor lost.
The trap: a scaling law amplifies small differences, because one replica more is a large share of a small fleet; compare
fleets of some size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsconsole.simulate.backtest import run, stage
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.traces import Trace

POINTS, SHARE = 0.02, 0.03  # of attainment, of GPU-hours


@dataclass(frozen=True, slots=True)
class Agreement:
    """One law on one window in both fidelities."""

    trace: str
    policy: str
    request: RunOutcome
    fluid: RunOutcome

    @property
    def points(self) -> float:
        """Attainment, fluid less request."""
        return (self.fluid.attainment or 0.0) - (self.request.attainment or 0.0)

    @property
    def share(self) -> float:
        """GPU-hours, fluid over request, less one."""
        return self.fluid.gpu_hours / self.request.gpu_hours - 1.0 if self.request.gpu_hours else 0.0

    @property
    def agrees(self) -> bool:
        return abs(self.points) <= POINTS and abs(self.share) <= SHARE


def compare(trace: Trace, laws: Sequence[str], cold_s: float, fleet: float, seed: int = 1) -> list[Agreement]:
    """Both fidelities of each law on all of `trace`."""
    found = stage(trace, fleet=fleet, forecast="predictive" in laws)
    rows = []
    for law in laws:
        knobs = {"replicas": float(found.oracle(cold_s).mean())} if law == "static" else {}
        outcomes = [run(found, law, cold_s, knobs, fidelity=f, seed=seed) for f in ("request", "fluid")]
        rows.append(Agreement(trace.label, law, *outcomes))
    return rows


def as_text(rows: Sequence[Agreement]) -> str:
    head = ("trace", "policy", "requests", "attained", "fluid", "points", "GPU-h", "fluid", "difference", "agrees")
    body = [
        (
            row.trace, row.policy, f"{row.request.offered:,}", f"{100 * (row.request.attainment or 0.0):.2f} %",
            f"{100 * (row.fluid.attainment or 0.0):.2f} %", f"{100 * row.points:+.2f}", f"{row.request.gpu_hours:.2f}",
            f"{row.fluid.gpu_hours:.2f}", f"{100 * row.share:+.1f} %", "yes" if row.agrees else "no",
        )
        for row in rows
    ]  # fmt: skip
    table = [head, *body]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([*lines, f"agrees: attainment within {100 * POINTS:g} points, GPU-hours within {100 * SHARE:g} %"])
