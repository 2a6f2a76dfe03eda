"""What actions may ask of a terminal: the one border between what a user does and the widgets that show it.

It must not know Textual. The trap: a handler gets a shell and an argument and nothing else, so what it needs to
remember goes into the session's state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from opsconsole.tui.recording import Recording
from opsconsole.tui.session import Session


class Shell(Protocol):
    """What only a terminal application can do."""

    session: Session
    recording: Recording

    def ask_line(self, kind: str) -> None:
        """Open the input line: `filter` or `command`."""
        ...

    def open_panel(self, name: str) -> None:
        """Help, why or the palette over the screen."""
        ...

    def plan(self, kind: str, argument: str) -> None:
        """The dialog for a change of the fleet."""
        ...

    def travel(self, how: str, argument: str) -> None:
        """Another moment: back, forward, earlier, later, live, at."""
        ...

    def set_theme(self, name: str) -> None: ...

    def copy_to_clipboard(self, text: str) -> None:
        """Through the terminal itself (OSC 52), which works over ssh."""
        ...

    def export(self, path: str) -> None: ...

    def exit(self, result: int | None = None) -> None: ...


Handler = Callable[[Shell, str], None]
