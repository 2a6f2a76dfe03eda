"""A console without a terminal: the world shown, what the user chose, and the frame that follows from both.

It must not know Textual; keys arrive as actions and frames leave as cells. The traps: the world shown is the live one,
the one held by pause, or a past one, and only `shown` may be asked which; and the first frame of all has no tick, so
the screens are loaded when there is one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opsconsole.clock import Clock
from opsconsole.domain.records import FleetSnapshot, ReplicaView
from opsconsole.tui.layout import Size
from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.state import FREEZE_S, ViewState
from opsconsole.tui.viewmodel import rows
from opsconsole.tui.viewmodel.frame import Frame
from opsconsole.tui.viewmodel.waiting import waiting
from opsconsole.tui.world import Look, World, can_change

if TYPE_CHECKING:
    from opsconsole.tui.viewmodel.pages import View

MESSAGE_S = 4.0


class Session:
    """Everything a console knows at one moment."""

    def __init__(self, clock: Clock, look: Look, settings: TuiSettings | None = None) -> None:
        settings = settings or TuiSettings()
        self.clock = clock
        self.settings = settings
        self.look = look
        self.live = World()
        self._held: World | None = None  # what pause or time travel shows
        self.state = ViewState(sort=settings.sort, columns=settings.columns)
        self.size = Size(80, 24)
        self.listed: tuple[str, ...] = ()  # names of the rows last drawn, in their order

    @property
    def shown(self) -> World:
        """The world on the screen."""
        return self._held if self._held is not None else self.live

    def hold(self, world: World | None) -> None:
        """Show this world instead of the live one; None goes back to live."""
        self._held = world

    @property
    def can_change(self) -> bool:
        """Whether anything that mutates may be offered: never on a past or paused screen."""
        return self._held is None and can_change(self.live, self.look)

    def change(self, **fields: object) -> None:
        """Other choices."""
        self.state = self.state.having(**fields)

    def say(self, message: str) -> None:
        """A sentence at the foot for a few seconds."""
        self.change(message=message, message_until=self.clock.now() + MESSAGE_S)

    def touch(self) -> None:
        """The cursor moved: rows keep their order for a moment."""
        self.change(frozen_until=self.clock.now() + FREEZE_S)

    def frame(self, size: Size) -> Frame:
        """The screen now; remembers scroll and order, which the next key needs."""
        self.size = size
        self.look = replace(self.look, now=self.clock.now())
        self._keep_selection()
        draw = waiting if self.shown.snapshot is None else _pages()
        frame = draw(self.shown, self.state, self.look, size)
        self.listed = frame.order or self.listed
        if self.state.page == "fleet":
            self.change(top=frame.top, order=frame.order)
        return frame

    def _keep_selection(self) -> None:
        """Something is selected as soon as there is something; one that went, or is filtered out, hands over."""
        snapshot = self.shown.snapshot
        if snapshot is None or not snapshot.replicas:
            return
        if self._is_listed(snapshot, self.state.selected):
            return
        names = rows.names(rows.rows(snapshot, self.state.having(frozen_until=0.0), self.look.now))
        if not names:
            return
        old = self.state.order
        if self.state.selected in old:
            after = old[old.index(self.state.selected) :]
            self.change(selected=next((name for name in after if name in names), names[-1]))
        else:
            self.change(selected=names[0])

    def _is_listed(self, snapshot: FleetSnapshot, name: str | None) -> bool:
        """Whether there is such a replica, and on the fleet's screen whether its row may be seen."""
        if name is None or snapshot.replica(name) is None:
            return False
        if self.state.page != "fleet" or not self.state.filter:
            return True
        return any(replica.replica == name for replica in rows.matching(snapshot, self.state))

    def selected(self) -> ReplicaView | None:
        """The replica under the cursor."""
        snapshot = self.shown.snapshot
        return snapshot.replica(self.state.selected or "") if snapshot else None

    def chosen(self) -> tuple[str, ...]:
        """What an action on replicas takes: the marked ones that are on the screen, else the selected one."""
        snapshot = self.shown.snapshot
        if snapshot is None:
            return ()
        there = {replica.replica for replica in rows.matching(snapshot, self.state)}
        marked = tuple(name for name in self.state.order if name in self.state.marks and name in there)
        if marked:
            return marked
        replica = self.selected()
        return (replica.replica,) if replica is not None and self._is_listed(snapshot, replica.replica) else ()


def _pages() -> View:
    from opsconsole.tui.viewmodel.pages import view

    return view
