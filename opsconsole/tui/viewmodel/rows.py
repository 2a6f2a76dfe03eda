"""Which replicas are shown and in what order: filter, sort, group, and the freeze while the cursor moves.

It must not draw. The trap: a row that is marked or selected does not survive the filter; actions look at names, so a
drain never hits a replica that is not on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from opsconsole.domain.records import FleetSnapshot, ReplicaView
from opsconsole.tui.filters import compile_filter
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel.columns import descending, order_key


@dataclass(frozen=True, slots=True)
class Row:
    """A replica, or the heading of a group of them."""

    replica: ReplicaView | None
    heading: str = ""
    members: int = 0


def matching(snapshot: FleetSnapshot, state: ViewState) -> list[ReplicaView]:
    """The replicas the filter lets through, in the snapshot's order."""
    holds = compile_filter(state.filter)
    return [replica for replica in snapshot.replicas if holds(replica)]


def ordered(replicas: Sequence[ReplicaView], state: ViewState, now: float) -> list[ReplicaView]:
    """Sorted as asked, unknown values last; in the order last shown while that is frozen."""
    if state.order and now < state.frozen_until:
        place = {name: index for index, name in enumerate(state.order)}
        return sorted(replicas, key=lambda r: (place.get(r.replica, len(place)), r.replica))
    key = order_key(state.sort)
    known = [r for r in replicas if key(r) is not None]
    unknown = [r for r in replicas if key(r) is None]
    known.sort(key=lambda r: r.replica)
    known.sort(key=lambda r: key(r) or 0, reverse=descending(state.sort, state.reverse))
    return known + sorted(unknown, key=lambda r: (r.state.risk, r.replica))


def group_of(replica: ReplicaView, group: str) -> str:
    """The heading a replica belongs under."""
    if group == "state":
        return replica.state.value
    return getattr(replica, group, None) or "--"


def rows(snapshot: FleetSnapshot, state: ViewState, now: float) -> list[Row]:
    """The grid's rows: replicas, under headings when grouped; a group stands where its first row would."""
    shown = ordered(matching(snapshot, state), state, now)
    if state.group == "none":
        return [Row(replica) for replica in shown]
    groups: dict[str, list[ReplicaView]] = {}
    for replica in shown:
        groups.setdefault(group_of(replica, state.group), []).append(replica)
    out: list[Row] = []
    for heading, members in groups.items():
        out.append(Row(None, f"{state.group} {heading}", len(members)))
        out.extend(Row(member) for member in members)
    return out


def names(found: Sequence[Row]) -> tuple[str, ...]:
    """Names of the replicas among the rows, in order."""
    return tuple(row.replica.replica for row in found if row.replica is not None)


def moved(order: Sequence[str], selected: str | None, by: int) -> str | None:
    """The name `by` rows further, stopping at the ends; the first when nothing is selected."""
    if not order:
        return None
    if selected not in order:
        return order[0] if by >= 0 else order[-1]
    return order[max(0, min(len(order) - 1, order.index(selected) + by))]


def middle(replicas: Sequence[ReplicaView], name: str) -> float | None:
    """The median of a column over live replicas, against which a slow one stands out."""
    key = order_key(name)
    seen = [value for r in replicas if isinstance(value := key(r), int | float)]
    return median(seen) if seen else None
