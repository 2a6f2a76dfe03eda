"""One panel of a screen on the whole of it: which panels each screen has, and the frame around the one chosen.

It must not draw panels anew; they are the functions the screens themselves call. The trap: names are what `:maximise`
takes and the title shows, so each is one plain word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opsconsole.domain.records import FleetSnapshot, JournalEntry, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui.cells import Line
from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import (
    about,
    bars,
    caches,
    charts,
    decisions,
    lists,
    misses,
    outlook,
    panels,
    replica,
    why,
)
from opsconsole.tui.viewmodel import advice as notes
from opsconsole.tui.viewmodel import objectives as goals
from opsconsole.tui.viewmodel import slo as slo_page
from opsconsole.tui.viewmodel.frame import Frame, framed_to
from opsconsole.tui.world import Look, World, main_pool

Panel = Callable[[World, FleetSnapshot, ViewState, Look, int, int], list[Line]]


def view(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, size: Size) -> Frame:
    """Header, the panel, keys."""
    panel = PANELS[state.page][state.maximised]
    rows = max(0, size.height - 2)
    body = panel(world, snapshot, state, look, size.width - 2, rows - 2)
    names = list(PANELS[state.page])
    title = f"{state.maximised}   {names.index(state.maximised) + 1} of {len(names)}: M next, Esc all"
    head = bars.header(world, state, look, size.width, state.page.upper())
    lines = [head, *draw.framed(title, body, size.width, rows, look.glyphs)]
    return framed_to(lines, bars.foot(world, state, look, size.width), size, rows=1)


def _demand(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    pool = main_pool(snapshot, state.selected)
    return charts.demand(world, snapshot, pool, look, cells, rows, state.series, state.horizon)


def _selected(draw_it: Callable[[World, FleetSnapshot, ReplicaView, Look, int, int], list[Line]]) -> Panel:
    """A panel about the selected replica."""

    def panel(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
        found = snapshot.replica(state.selected or "")
        return draw_it(world, snapshot, found, look, cells, rows) if found is not None else []

    return panel


def _plot(place: int) -> Panel:
    return _selected(lambda w, s, r, look, cells, rows: replica.plot(w, r, look, replica.PLOTS[place], cells, rows))


def _why(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    listed = [entry for entry in lists.entries(world, state) if isinstance(entry, JournalEntry)]
    chosen = decisions.chosen(listed, state, world, main_pool(snapshot, state.selected))
    return why.of_decision(chosen, look, cells) if chosen is not None else []


def _otherwise(
    world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int
) -> list[Line]:
    listed = [entry for entry in lists.entries(world, state) if isinstance(entry, JournalEntry)]
    return decisions.counterfactual(decisions.chosen(listed, state, world, main_pool(snapshot, state.selected)))


def _skill(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    pool = main_pool(snapshot, state.selected)
    decision = outlook.decision_of(world, pool)
    forecast = outlook.forecast_of(world, pool, state.series)
    return outlook.skill_table(forecast, decision.lead if decision is not None else None, cells, rows)


def _starts(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    pool = main_pool(snapshot, state.selected)
    forecast = outlook.forecast_of(world, pool, state.series)
    return outlook.start_cost(snapshot, pool, look, cells, forecast.needs if forecast is not None else ())


def _history(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    listed = [entry for entry in lists.entries(world, state) if isinstance(entry, JournalEntry)]
    return decisions.history(listed, state, snapshot, look, rows, cells)


def _objectives(
    world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int
) -> list[Line]:
    return goals.lines(snapshot, state.window, look, cells, world.budgets)


def _goodput(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    pool = main_pool(snapshot, state.selected)
    return slo_page.goodput(world, snapshot, pool, look, cells, rows) if pool is not None else []


def _misses(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return misses.found(snapshot, look.glyphs)


def _heat(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return slo_page.heat_map(world, snapshot, main_pool(snapshot, state.selected), look, cells, rows)


def _kv(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return caches.occupancy(caches.fullest(snapshot, state), state, look, cells, rows)


def _hits(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return caches.hits(world, main_pool(snapshot, state.selected), look, cells, rows)


def _prefixes(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return caches.prefixes(world, snapshot, cells, rows)


def _advice(world: World, snapshot: FleetSnapshot, state: ViewState, look: Look, cells: int, rows: int) -> list[Line]:
    return caches.advice(world, snapshot, cells, rows)


PANELS: Mapping[str, Mapping[str, Panel]] = {
    "fleet": {
        "demand": _demand, "decisions": panels.decided, "slo": panels.slo, "events": panels.events,
        "replica": _selected(lambda world, _, found, look, cells, rows: panels.beside(world, found, look, cells)),
    },
    "replica": {
        "queue": _plot(0), "running": _plot(1), "kv": _plot(2), "tokens": _plot(3),
        "latency": _selected(lambda w, snapshot, found, look, cells, rows: about.latency_table(found, snapshot, True)),
        "engine": _selected(lambda w, snapshot, found, look, cells, rows: about.engine(found)),
        "advice": _selected(lambda world, snapshot, found, look, cells, rows: notes.lines(found, snapshot, world,
                                                                                          cells)),
        "events": _selected(lambda world, snapshot, found, look, cells, rows: about.events(world, found, look, rows)),
    },
    "decisions": {
        "demand": _demand, "why": _why, "otherwise": _otherwise, "skill": _skill, "history": _history,
        "starts": _starts,
    },
    "slo": {"objectives": _objectives, "goodput": _goodput, "misses": _misses, "heat": _heat},
    "caches": {"kv": _kv, "hits": _hits, "prefixes": _prefixes, "advice": _advice},
}  # fmt: skip
