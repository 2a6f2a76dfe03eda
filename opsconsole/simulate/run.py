"""`simulate`: arrivals, a live law and a fleet's settings in, one `RunOutcome` out. The request-level fidelity.

Every request is scheduled, batched, cached, preempted and timed by itself; the fluid fidelity answers with the same
record from bins. It must not read a clock or a file. The trap: arrivals are consumed as they come and must be in order
of time; one that goes back is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable

from opsconsole.simulate.fleet import Fleet
from opsconsole.simulate.outcome import RunOutcome
from opsconsole.simulate.settings import Arrival, FleetSettings, PolicyHandle

__all__ = ["Arrival", "FleetSettings", "PolicyHandle", "RunOutcome", "simulate"]


def simulate(arrivals: Iterable[Arrival], policy: PolicyHandle, settings: FleetSettings) -> RunOutcome:
    """Run the fleet until the last request is done or given up. Deterministic from `settings.seed`."""
    return Fleet(policy, settings).run(arrivals)
