"""Which view draws which screen. The names are those of `actions.PAGES`; a test holds the two equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opsconsole.tui.layout import Size
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import caches, decisions, events, fleet, maximised, replica, slo
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.world import Look, World

View = Callable[[World, ViewState, Look, Size], Frame]


def view(world: World, state: ViewState, look: Look, size: Size) -> Frame:
    """The screen the user is on, or the one panel of it that has all the space."""
    if state.maximised and world.snapshot is not None:
        return maximised.view(world, world.snapshot, state, look, size)
    return VIEWS[state.page](world, state, look, size)


VIEWS: Mapping[str, View] = {
    "fleet": fleet.view,
    "replica": replica.view,
    "decisions": decisions.view,
    "slo": slo.view,
    "caches": caches.view,
    "events": events.view,
}
