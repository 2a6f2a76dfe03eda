"""One simulated replica without a fleet around it: arrivals in, their fates out. What the checks are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opsconsole.simulate.replica import NEVER, Replica
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import Arrival


def sequence_of(number: int, arrival: Arrival) -> Sequence:
    """A request that has just arrived."""
    a = arrival
    return Sequence(number, a.at, a.prompt_tokens, a.output_tokens, a.blocks, a.slo_class)


def serve(
    replica: Replica, arrivals: Iterable[Arrival], watch: Callable[[float], None] = lambda at: None
) -> list[Sequence]:
    """Every request to its end. `watch` is called just before anything changes, with the time."""
    requests = [sequence_of(number, arrival) for number, arrival in enumerate(arrivals)]
    for request in requests:
        while replica.next_at < request.arrived:
            watch(replica.next_at)
            replica.finish_run()
        watch(request.arrived)
        replica.submit(request, request.arrived)
    while replica.next_at < NEVER:
        watch(replica.next_at)
        replica.finish_run()
    return requests
