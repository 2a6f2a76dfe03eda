"""Looks: complete, readable, and quiet where colour is unwanted."""

from __future__ import annotations

import pytest
from rich.color import Color

from opsconsole.tui import theme
from opsconsole.tui.widgets.grid import resolve


def luminance(colour: str) -> float:
    red, green, blue = (channel / 255 for channel in Color.parse(colour).get_truecolor())
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", list(theme.THEMES))
def test_every_theme_defines_every_style(name: str) -> None:
    assert set(theme.THEMES[name]) == set(theme.STYLES)
    for style in theme.STYLES:
        resolve(name, style)
        resolve(name, f"{style}|sel")


@pytest.mark.parametrize("name", [n for n in theme.THEMES if theme.ground(n)])
def test_words_can_be_read_on_their_ground(name: str) -> None:
    ground = theme.ground(name)
    assert ground is not None
    least = 7.0 if name == "contrast" else 4.5
    for style in ("text", "dim", "title", "key", "good", "warn", "bad", "OK", "HOT", "SAT", "WARM", "DRAIN", "STALE"):
        found = resolve(name, style)
        fore = found.color.name if found.color else ground[2]
        back = found.bgcolor.name if found.bgcolor else ground[0]
        assert contrast(fore, back) >= least, (name, style, fore, back)


@pytest.mark.parametrize("name", [n for n in theme.THEMES if theme.ground(n) and n != "contrast"])
def test_the_selected_row_can_be_read(name: str) -> None:
    for style in ("text", "OK", "HOT", "SAT", "STALE", "WARM", "DRAIN", "dim"):
        found = resolve(name, f"{style}|sel")
        assert found.color is not None and found.bgcolor is not None
        assert contrast(found.color.name, found.bgcolor.name) >= 3.0, (name, style)


def test_mono_asks_for_no_colour_at_all() -> None:
    for style in theme.STYLES:
        found = resolve("mono", style)
        assert found.color is None and found.bgcolor is None, style


def test_colour_blind_states_do_not_differ_in_red_against_green() -> None:
    ok, bad = resolve("cvd", "OK").color, resolve("cvd", "bad").color
    assert ok is not None and bad is not None
    blue_of, orange_of = ok.get_truecolor(), bad.get_truecolor()
    assert blue_of.blue > blue_of.red and orange_of.red > orange_of.blue


@pytest.mark.parametrize(
    ("environ", "asked", "chosen"),
    [
        ({"NO_COLOR": "1"}, "dark", "mono"), ({"NO_COLOR": ""}, None, "dark"), ({}, "light", "light"),
        ({"TERM": "vt100"}, None, "mono"), ({"TERM": "dumb"}, None, "mono"), ({"TERM": "xterm-256color"}, None, "dark"),
    ],
)  # fmt: skip
def test_the_theme_follows_the_terminal(environ: dict[str, str], asked: str | None, chosen: str) -> None:
    assert theme.choose_theme(asked, environ) == chosen


@pytest.mark.parametrize(
    ("environ", "asked", "chosen"),
    [
        ({"LANG": "C.UTF-8"}, None, "block"), ({"LANG": "POSIX"}, None, "ascii"), ({"LC_ALL": "C",
        "LANG": "en_US.UTF-8"}, None, "ascii"),
        ({"LANG": "C.UTF-8", "TERM": "vt100"}, None, "ascii"), ({"LANG": "POSIX"}, "block", "block"),
    ],
)  # fmt: skip
def test_glyphs_follow_the_locale(environ: dict[str, str], asked: str | None, chosen: str) -> None:
    assert theme.choose_glyphs(asked, environ).name == chosen


def test_ascii_glyphs_are_ascii() -> None:
    glyphs = theme.ASCII
    assert all(getattr(glyphs, name).isascii() for name in glyphs.__slots__)
