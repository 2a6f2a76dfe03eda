"""Looks: style names to colours, glyph sets for every font, and the choice of both from the terminal.

It must not know what is drawn with them. Colour only repeats a word that is already there, so mono loses nothing.
The trap: with NO_COLOR the terminal's own colours must stay, which is Textual's "ansi" mode with no colour asked for;
any colour name in the mono table would be painted black on black by its filters.
"""

from __future__ import annotations

import locale
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters charts and frames are made of."""

    name: str
    levels: str  # eight heights, lowest first
    bar: str  # eighths of a cell, thinnest first; the last is full
    gap: str  # a value that is missing in a chart
    corners: str  # top left, top right, bottom left, bottom right
    flat: str
    upright: str
    axis: str  # meets the vertical axis
    up: str
    down: str
    more: str
    shades: str  # five densities of a heat map, nothing first


BLOCK = Glyphs("block", "▁▂▃▄▅▆▇█", "▏▎▍▌▋▊▉█", "·", "┌┐└┘", "─", "│", "┤", "▲", "▼", "…", "·░▒▓█")
ASCII = Glyphs("ascii", "_.:-=+*#", "-----==#", " ", "++++", "-", "|", "|", "^", "v", "~", " .:*#")
GLYPHS = {glyphs.name: glyphs for glyphs in (BLOCK, ASCII)}

# The names every theme must define. `sel` is laid over a whole row.
STYLES = (
    "text", "dim", "title", "head", "key", "box", "accent", "good", "warn", "bad", "live", "demo",
    "OK", "HOT", "SAT", "WARM", "DRAIN", "STALE", "DOWN", "sel", "mark", "spark", "bar", "band", "capacity",
)  # fmt: skip

_DARK = {
    "text": "#d7dae0", "dim": "#8b93a1", "title": "bold #ffffff", "head": "bold #9ecbff", "key": "bold #9ecbff",
    "box": "#5b6575", "accent": "#9ecbff", "good": "#7ee787", "warn": "#f2cc60", "bad": "bold #ff7b72",
    "live": "bold #7ee787", "demo": "bold #1b1f24 on #f2cc60",
    "OK": "#7ee787", "HOT": "bold #f2cc60", "SAT": "bold #ff7b72", "WARM": "#79c0ff", "DRAIN": "#d2a8ff",
    "STALE": "bold #c9a26d", "DOWN": "bold reverse #ff7b72", "sel": "on #2d3f5a", "mark": "bold #f2cc60",
    "spark": "#79c0ff", "bar": "#58a6ff", "band": "#7a86c2", "capacity": "#f2cc60",
}  # fmt: skip
_LIGHT = {
    "text": "#1f2328", "dim": "#59636e", "title": "bold #000000", "head": "bold #0a4a9e", "key": "bold #0a4a9e",
    "box": "#808a96", "accent": "#0a4a9e", "good": "#116329", "warn": "#7a4b00", "bad": "bold #b3151d",
    "live": "bold #116329", "demo": "bold #ffffff on #7a4b00",
    "OK": "#116329", "HOT": "bold #7a4b00", "SAT": "bold #b3151d", "WARM": "#0a4a9e", "DRAIN": "#6f2cb5",
    "STALE": "bold #6b5010", "DOWN": "bold reverse #b3151d", "sel": "on #cfe1f7", "mark": "bold #7a4b00",
    "spark": "#0a4a9e", "bar": "#0a4a9e", "band": "#5a64a8", "capacity": "#7a4b00",
}  # fmt: skip
_CONTRAST = {
    **dict.fromkeys(STYLES, "#ffffff"),
    "title": "bold #ffffff", "head": "bold #ffff00", "key": "bold #ffff00", "accent": "#00ffff", "good": "#00ff66",
    "warn": "bold #ffff00", "bad": "bold #ff8080", "live": "bold #00ff66", "demo": "bold #000000 on #ffff00",
    "OK": "#00ff66", "HOT": "bold #ffff00", "SAT": "bold #ff8080", "WARM": "#00ffff", "DRAIN": "#ffa0ff",
    "STALE": "bold #ffc060", "DOWN": "bold #000000 on #ff8080", "sel": "reverse", "mark": "bold #ffff00",
    "capacity": "#ffff00",
}  # fmt: skip
# Blue against orange, told apart by every common colour vision; brightness grows with urgency.
_CVD = {
    **_DARK,
    "good": "#6cb6ff", "warn": "#f0b35c", "bad": "bold #ff9e2c", "live": "bold #6cb6ff",
    "OK": "#6cb6ff", "HOT": "bold #f0b35c", "SAT": "bold #1b1f24 on #ff9e2c", "WARM": "#b9d7f5",
    "DRAIN": "#c8ccd4", "STALE": "underline #d7dae0", "DOWN": "bold reverse #ffffff", "mark": "bold #f0b35c",
    "capacity": "#f0b35c",
}  # fmt: skip
_MONO = {
    **dict.fromkeys(STYLES, ""),
    "dim": "dim", "title": "bold", "head": "bold", "key": "bold", "bad": "bold", "warn": "bold", "live": "bold",
    "demo": "reverse bold", "HOT": "bold", "SAT": "bold reverse", "STALE": "underline", "DOWN": "bold reverse",
    "sel": "reverse", "mark": "bold",
}  # fmt: skip

THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": _LIGHT,
    "contrast": _CONTRAST,
    "cvd": _CVD,
    "mono": _MONO,
}
# Textual's own parts in mono: the terminal's colours everywhere, and reverse where something is selected.
_PLAIN = {
    **dict.fromkeys(
        (
            "ansi-background", "ansi-foreground", "border", "border-blurred", "block-cursor-foreground",
            "block-cursor-background", "input-cursor-background", "input-cursor-foreground",
            "input-selection-background", "input-selection-foreground", "screen-selection-background",
            "screen-selection-foreground",
        ),
        "ansi_default",
    ),
    "input-cursor-text-style": "reverse",
    "block-cursor-text-style": "reverse",
}  # fmt: skip
_GROUND = {
    "dark": ("#14181f", "#1d232c", "#d7dae0"),
    "light": ("#ffffff", "#eef1f5", "#1f2328"),
    "contrast": ("#000000", "#000000", "#ffffff"),
    "cvd": ("#14181f", "#1d232c", "#d7dae0"),
}


def ground(name: str) -> tuple[str, str, str] | None:
    """Background, raised background and foreground; None where the terminal's own are used."""
    return _GROUND.get(name)


def textual_theme(name: str) -> Theme:
    """What dialogs and inputs of Textual need to look like the rest."""
    from textual.theme import Theme

    colours = _GROUND.get(name)
    if colours is None:
        return Theme(
            name=f"ops-{name}", primary="ansi_default", secondary="ansi_default", accent="ansi_default",
            warning="ansi_default", error="ansi_default", success="ansi_default", foreground="ansi_default",
            background="ansi_default", surface="ansi_default", panel="ansi_default", boost="ansi_default", ansi=True,
            variables=_PLAIN,
        )  # fmt: skip
    table = THEMES[name]
    back, raised, fore = colours
    hue = {key: table[key].split()[-1] for key in ("accent", "warn", "bad", "good")}
    return Theme(
        name=f"ops-{name}", primary=hue["accent"], secondary=hue["accent"], accent=hue["accent"],
        warning=hue["warn"], error=hue["bad"], success=hue["good"], foreground=fore, background=back, surface=back,
        panel=raised, boost=raised, dark=name != "light",
    )  # fmt: skip


def choose_theme(asked: str | None, environ: Mapping[str, str]) -> str:
    """The theme to start with: what was asked for, else mono where colour is unwanted or unlikely to work."""
    if environ.get("NO_COLOR"):
        return "mono"
    if asked in THEMES:
        return asked or "dark"
    return "mono" if environ.get("TERM", "") in ("dumb", "vt100", "vt220", "linux-m") else "dark"


def choose_glyphs(asked: str | None, environ: Mapping[str, str]) -> Glyphs:
    """Block characters where the locale can say them, else ASCII; `asked` wins."""
    if asked in GLYPHS:
        return GLYPHS[asked or "block"]
    if environ.get("TERM", "") in ("dumb", "vt100", "vt220"):
        return ASCII
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    encoding = named or locale.getpreferredencoding(False)
    return BLOCK if "utf" in encoding.lower() or encoding in ("C.UTF-8",) else ASCII
