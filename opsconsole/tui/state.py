"""What the user chose: screen, selection, order, filter, time. One frozen value; every key makes a new one.

It must not hold facts about the fleet. Selection is by name, never by row number, because rows move. The trap: time
here is the time shown, not the time it is; `at=None` is live.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

SORTS = ("risk", "replica", "st", "que", "run", "kv", "pre", "ttft", "tpot", "slo", "hit", "in", "out", "age")
GROUPS = ("none", "pool", "model", "node", "role", "state")
WINDOWS = ("now", "short", "long")  # over which attainment is shown: the agent's window and its two burn windows
HORIZONS = (0.0, 900.0, 300.0)
FREEZE_S = 3.0  # rows keep their order this long after the cursor moved


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything a user chose."""

    page: str = "fleet"
    before: tuple[str, ...] = ()  # screens visited, newest last
    selected: str | None = None  # a replica's name
    marks: frozenset[str] = frozenset()
    sort: str = "risk"
    reverse: bool = False
    filter: str = ""
    group: str = "none"
    wide: bool = False
    window: str = "now"  # of WINDOWS
    series: str = ""  # the forecast's unit to show; empty is the pool's first
    horizon: float = 0.0  # seconds of the demand chart before and after now; 0 is all there is
    maximised: str = ""  # the panel that has the whole screen
    bare: bool = False  # the fleet's table without panels around it
    columns: tuple[str, ...] = ()  # chosen by the user; empty is the layout's own
    top: int = 0  # first visible row of the fleet
    order: tuple[str, ...] = ()  # rows as last shown, kept while frozen
    frozen_until: float = 0.0
    rows: tuple[tuple[str, int], ...] = ()  # cursor of the other screens' lists: (page, row)
    paused: bool = False
    at: float | None = None  # the moment shown, None when live
    message: str = ""  # said once, at the foot
    message_until: float = 0.0

    def cursor(self, page: str) -> int:
        """The row of the cursor on a screen with a plain list."""
        return dict(self.rows).get(page, 0)

    def with_cursor(self, page: str, row: int) -> ViewState:
        return replace(self, rows=(*((p, r) for p, r in self.rows if p != page), (page, max(0, row))))

    def go(self, page: str) -> ViewState:
        """Another screen, remembering this one; the filter belongs to the screen it was typed on."""
        if page == self.page:
            return self
        return replace(self, page=page, before=(*self.before[-15:], self.page), message="", maximised="")

    def back(self) -> ViewState:
        """The screen before this one, at the end the fleet."""
        if not self.before:
            return replace(self, page="fleet", maximised="")
        return replace(self, page=self.before[-1], before=self.before[:-1], maximised="")

    def having(self, **changes: Any) -> ViewState:
        """A copy with some fields changed."""
        return replace(self, **changes)
