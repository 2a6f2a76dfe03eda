"""The fleet's table as lines: titles with the sort's mark, the rows in view, totals from pools.

It must not decide what is selected. The trap: only rows in view are formatted, or a thousand replicas would cost a
thousand rows of work for twenty lines of screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from opsconsole.domain.records import FleetSnapshot, PoolView, ReplicaView
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, fit, left, right
from opsconsole.tui.layout import Form, scrolled
from opsconsole.tui.memo import while_shown
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import columns as col
from opsconsole.tui.viewmodel.rows import Row, middle
from opsconsole.tui.viewmodel.summary import total
from opsconsole.tui.world import Look, World

Columns = Sequence[tuple[col.Column, int]]
SAID: Mapping[str, Callable[[float | None], str]] = {
    "que": fmt.count, "run": fmt.count, "kv": fmt.percent, "hit": fmt.percent, "pre": fmt.per_minute,
    "ttft50": fmt.latency, "ttft": fmt.latency, "tpot": fmt.latency, "slo": partial(fmt.percent, digits=1),
    "in": fmt.tokens_per_second, "out": fmt.tokens_per_second, "req": fmt.rate, "good": fmt.rate,
}  # fmt: skip


def titles(columns: Columns, state: ViewState, look: Look) -> Line:
    """Column titles; the sorted one carries the direction's mark."""
    line = [Cell("  ")]
    for column, cells in columns:
        text = column.title
        sorted_by = column.name == state.sort
        if sorted_by:
            text += look.glyphs.down if col.descending(state.sort, state.reverse) else look.glyphs.up
        bar = column.name in ("kv", "trend")
        aligned = right(text, 4) if bar and column.name == "kv" else text
        padded = right(text, cells) if column.numeric and not bar else left(aligned, cells)
        line += [Cell(padded, "head" if sorted_by else "dim"), Cell(" ")]
    return tuple(line)


def row_line(row: Row, columns: Columns, world: World, state: ViewState, look: Look) -> Line:
    """One row. The selected one is a bar across; a marked one has a star."""
    if row.replica is None:
        return (Cell(f"  {clean(row.heading)}", "head"), Cell(f"  {row.members}", "dim"))
    replica = row.replica
    selected = replica.replica == state.selected
    marked = replica.replica in state.marks
    line = [Cell(">" if selected else " ", "mark"), Cell("*" if marked else " ", "mark")]
    for column, cells in columns:
        line += [column.cell(replica, world, look, cells), Cell(" ")]
    if not selected:
        return tuple(line)
    return tuple(Cell(cell.text, f"{cell.style}|sel") for cell in line)


def body(
    rows: Sequence[Row], columns: Columns, world: World, state: ViewState, look: Look, height: int, cells: int
) -> tuple[list[Line], dict[int, str], int]:
    """Lines of the rows in view, which replica is on which of them, and the first row shown."""
    if height <= 0:
        return [], {}, state.top
    cursor = next((i for i, row in enumerate(rows) if row.replica and row.replica.replica == state.selected), None)
    top = scrolled(state.top, cursor, len(rows), height)
    shown = tuple(rows[top : top + height])
    lines = list(_unmarked(world, shown, columns, look.lasting, cells))
    targets: dict[int, str] = {}
    for offset, row in enumerate(shown):
        if row.replica is None:
            continue
        targets[offset] = name = row.replica.replica
        if name == state.selected or name in state.marks:
            line = fit(row_line(row, columns, world, state, look), cells)
            bar = name == state.selected and line[-1].text.isspace()
            lines[offset] = (*line[:-1], Cell(line[-1].text, "text|sel")) if bar else line
    return lines, targets, top


@while_shown
def _unmarked(world: World, shown: Sequence[Row], columns: Columns, look: Look, cells: int) -> tuple[Line, ...]:
    """The rows as they are under no cursor and without a mark, which a key that moves the cursor does not change."""
    return tuple(fit(row_line(row, columns, world, ViewState(), look), cells) for row in shown)


@while_shown
def totals(snapshot: FleetSnapshot, columns: Columns, shown: Sequence[ReplicaView]) -> list[Line]:
    """ALL from the pools (merged buckets; latencies only where there is one pool) and median / worst over the rows."""
    only = snapshot.pools[0] if len(snapshot.pools) == 1 else None
    every = [Cell("  ")]
    spread = [Cell("  ")]
    for column, cells in columns:
        every += [
            Cell(_fit(_all(column.name, snapshot.pools, only, len(snapshot.replicas)), column, cells), "title"),
            Cell(" "),
        ]
        spread += [Cell(_fit(_median(column.name, shown), column, cells), "dim"), Cell(" ")]
    return [tuple(every), tuple(spread)]


def _fit(text: str, column: col.Column, cells: int) -> str:
    if column.name == "kv":
        return left(right(text, 4), cells)
    return right(text, cells) if column.numeric else left(text, cells)


def _all(name: str, pools: Sequence[PoolView], only: PoolView | None, count: int) -> str:
    if name == "replica":
        return f"ALL {count}"
    sums = {"que": "waiting", "run": "running", "in": "prompt_rate", "out": "output_rate", "req": "request_rate",
            "good": "goodput", "pre": "preempt_rate"}  # fmt: skip
    if name in sums:
        value = total(pools, lambda p: getattr(p, sums[name]))
        return SAID[name](value)
    if only is None:
        return ""
    latencies = {"ttft50": only.ttft.p50, "ttft": only.ttft.p95, "tpot": only.tpot.p95}
    if name in latencies:
        return fmt.latency(latencies[name])
    if name == "kv":
        return fmt.percent(only.kv_usage)
    if name == "hit":
        return fmt.percent(only.hit_rate)
    if name == "slo" and only.slos:
        met = only.slos[0].attainment
        return fmt.share(met, 1, "") if met is None or met.exact else f">{fmt.percent(met.low, 0)}"
    return ""


def _median(name: str, shown: Sequence[ReplicaView]) -> str:
    if name == "replica":
        return "median"
    say = SAID.get(name)
    value = middle(shown, name) if say is not None else None
    return "" if say is None or value is None else say(value)


def wanted_columns(form: Form, cells: int, state: ViewState, snapshot: FleetSnapshot) -> Columns:
    """The columns for a table of this width."""
    return col.chosen(form, cells - 2, state.columns, state.wide, _has_roles(snapshot))


@while_shown
def _has_roles(snapshot: FleetSnapshot) -> bool:
    return any(replica.role for replica in snapshot.replicas)
