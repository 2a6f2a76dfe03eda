"""A line of text that takes every key in the order it was typed.

It must not know what the text is for. The trap: Textual lets an editing key bubble up to the application before it
acts, while letters act at once; typed in one burst, `9`, Backspace, `2` would leave `9`.
"""

from __future__ import annotations

from typing import cast

from textual import events
from textual.binding import Binding
from textual.widgets import Input

EDITING = {
    key: binding.action
    for binding in cast(list[Binding], Input.BINDINGS)
    for key in binding.key.split(",")
    if binding.action != "submit"
}


class Field(Input):
    """Textual's input, in order."""

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable or event.key not in EDITING:
            return
        event.stop()
        event.prevent_default()
        await self.run_action(EDITING[event.key])
