"""A screen written to files: the picture as SVG, the data behind it as JSON, its list as CSV.

It must not write over anything: a name in use gets a number. The trap: the JSON is the snapshot shown (a past one when
time was travelled), so that picture and data never disagree.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opsconsole.tui import format as fmt
from opsconsole.tui.session import Session

if TYPE_CHECKING:
    from opsconsole.tui.app import ConsoleApp


KINDS = (".svg", ".json", ".csv")


def write(app: ConsoleApp, path: str = "") -> str:
    """Write all three; the sentence for the foot."""
    if app.is_web:
        return "not written: a reader in a browser writes no files here; the terminal's console does"
    session = app.session
    try:
        stem = unused(named(path, session))
        if not stem.parent.is_dir():  # said before a picture is drawn, which takes a while
            return f"not written: there is no folder {stem.parent}"
        stem.with_suffix(".svg").write_text(picture(app), encoding="utf-8")
        text = json.dumps(data(session), indent=1, allow_nan=False)
        stem.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        stem.with_suffix(".csv").write_text(table(session), encoding="utf-8", newline="")
    except OSError as error:
        return f"not written: {error.strerror}: {error.filename}"
    except ValueError as error:  # a name that no file can have
        return f"not written: {error}"
    return f"wrote {stem}.svg, .json and .csv"


def picture(app: ConsoleApp, title: str = "opsconsole") -> str:
    """The screen as SVG that asks nothing of other hosts: the font is one that is installed, or any monospaced one."""
    drawn = app.export_screenshot(title=title)
    return re.sub(r"@font-face\s*\{[^}]*\}\s*", "", drawn)


def named(path: str, session: Session) -> Path:
    """The files' name without its ending: the one given; in a folder given, or in this one, a name of our own."""
    given = Path(path)
    return given / default_name(session) if given.is_dir() else given.with_suffix("")


def default_name(session: Session) -> str:
    """opsconsole-fleet-120431."""
    snapshot = session.shown.snapshot
    at = fmt.clock(snapshot.at, session.look.zone).replace(":", "") if snapshot else "empty"
    return f"opsconsole-{session.state.page}-{at}"


def unused(stem: Path) -> Path:
    """The name, or with -2, -3 ... when files of that name exist."""
    for number in itertools.count(1):
        candidate = stem if number == 1 else stem.with_name(f"{stem.name}-{number}")
        if not any(candidate.with_suffix(kind).exists() for kind in KINDS):
            return candidate
    raise AssertionError("counting does not end")


def table(session: Session) -> str:
    """The screen's list as CSV."""
    from opsconsole.tui.viewmodel.sheets import sheet

    text = io.StringIO()
    csv.writer(text).writerows(sheet(session))
    return text.getvalue()


def data(session: Session) -> dict[str, Any]:
    """What the screen was drawn from."""
    from opsconsole.domain.wire import to_json

    world = session.shown
    return {
        "page": session.state.page,
        "filter": session.state.filter,
        "sort": session.state.sort,
        "link": world.link.state.value,
        "snapshot": to_json(world.snapshot) if world.snapshot else None,
        "decisions": [to_json(d) for d in world.decisions],
        "forecasts": [to_json(f) for f in world.forecasts],
        "alerts": [to_json(a) for a in world.alerts],
        "journal": [to_json(e) for e in world.journal[-200:]],
    }
