"""Which replicas are shown and in what order: filter, sort, group, and the freeze while the cursor moves.

It must not draw. The trap: a row that is marked or selected does not survive the filter; actions look at names, so a
drain never hits a replica that is not on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import Any

from opsconsole.domain.records import FleetSnapshot, ReplicaView
from opsconsole.tui.filters import compile_filter
from opsconsole.tui.memo import while_shown
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel.columns import descending, order_key


@dataclass(frozen=True, slots=True)
class Row:
    """A replica, or the heading of a group of them."""

    replica: ReplicaView | None
    heading: str = ""
    members: int = 0


def matching(snapshot: FleetSnapshot, state: ViewState) -> tuple[ReplicaView, ...]:
    """The replicas the filter lets through, in the snapshot's order."""
    return _matching(snapshot, state.filter)


@while_shown
def _matching(snapshot: FleetSnapshot, text: str) -> tuple[ReplicaView, ...]:
    if not text:
        return snapshot.replicas
    holds = compile_filter(text)
    return tuple(replica for replica in snapshot.replicas if holds(replica))


def _as_before(replicas: Sequence[ReplicaView], order: Sequence[str]) -> list[ReplicaView]:
    """In the order last shown; what is new comes last."""
    place = {name: index for index, name in enumerate(order)}
    return sorted(replicas, key=lambda r: (place.get(r.replica, len(place)), r.replica))


def _sorted(replicas: Sequence[ReplicaView], sort: str, reverse: bool) -> list[ReplicaView]:
    """As asked, equal ones by name, unknown values last in both directions."""
    key = order_key(sort)
    valued = [(key(replica), replica) for replica in sorted(replicas, key=lambda r: r.replica)]
    known: list[tuple[Any, ReplicaView]] = [pair for pair in valued if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=descending(sort, reverse))
    unknown = [replica for value, replica in valued if value is None]
    return [replica for _, replica in known] + sorted(unknown, key=lambda r: (r.state.risk, r.replica))


def group_of(replica: ReplicaView, group: str) -> str:
    """The heading a replica belongs under."""
    if group == "state":
        return replica.state.value
    return getattr(replica, group, None) or "--"


def rows(snapshot: FleetSnapshot, state: ViewState, now: float) -> tuple[Row, ...]:
    """The grid's rows: replicas, under headings when grouped; a group stands where its first row would.

    While the order is frozen it is the one last shown.
    """
    held = state.order if now < state.frozen_until else ()
    return _rows(snapshot, state.filter, state.group, state.sort, state.reverse, held)


@while_shown
def _rows(
    snapshot: FleetSnapshot, text: str, group: str, sort: str, reverse: bool, held: tuple[str, ...]
) -> tuple[Row, ...]:
    found = _matching(snapshot, text)
    shown = _as_before(found, held) if held else _sorted(found, sort, reverse)
    if group == "none":
        return tuple(Row(replica) for replica in shown)
    groups: dict[str, list[ReplicaView]] = {}
    for replica in shown:
        groups.setdefault(group_of(replica, group), []).append(replica)
    out: list[Row] = []
    for heading, members in groups.items():
        out.append(Row(None, f"{group} {heading}", len(members)))
        out.extend(Row(member) for member in members)
    return tuple(out)


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
    seen = [value for r in replicas if isinstance(value := key(r), (int, float))]
    return median(seen) if seen else None
