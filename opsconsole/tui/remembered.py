"""What a user chose last time, kept for the next: order, columns, groups, width, theme. One small file of the user's.

It must not hold anything about a fleet. The trap: the file is a convenience, so one that cannot be read or written is
as if it were not there; and what the configuration says wins over what was chosen.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.state import GROUPS, SORTS, WINDOWS, ViewState

DEFAULTS = TuiSettings()


def path(environ: Mapping[str, str]) -> Path:
    """`console.json` in the user's state folder."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(home) / "opsconsole" / "console.json"


def load(file: Path) -> dict[str, Any]:
    """What is there and makes sense."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {**held, "theme": str(held.get("theme") or "")} if isinstance(held, dict) else {}


def applied(held: Mapping[str, Any], state: ViewState, settings: TuiSettings) -> ViewState:
    """The state to begin with: last time's choices where the configuration says nothing."""
    from opsconsole.tui.viewmodel.columns import COLUMNS

    changes: dict[str, Any] = {}
    for name, known in (("group", GROUPS), ("window", WINDOWS)):
        if held.get(name) in known:
            changes[name] = held[name]
    for name in ("wide", "bare"):
        if isinstance(held.get(name), bool):
            changes[name] = held[name]
    if settings.sort == DEFAULTS.sort and held.get("sort") in SORTS:
        changes["sort"] = held["sort"]
        changes["reverse"] = held.get("reverse") is True
    words = held.get("columns")
    if not settings.columns and isinstance(words, list) and all(word in COLUMNS for word in words):
        changes["columns"] = tuple(words)
    return state.having(**changes)


def save(file: Path, state: ViewState, theme: str) -> None:
    """Write the choices down; a disk that will not have them is no matter."""
    held = {
        "sort": state.sort, "reverse": state.reverse, "columns": list(state.columns), "group": state.group,
        "wide": state.wide, "bare": state.bare, "window": state.window, "theme": theme,
    }  # fmt: skip
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        fresh.replace(file)
