"""A page with one picture a table: GPU-hours across, misses upward, each law's points and the front they make.

One file, no script, nothing asked of other hosts. The trap: attainment near 1 is all alike on an even scale, so the
upright axis is the logarithm of what was missed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from opsconsole.simulate.pareto import front
from opsconsole.simulate.report import COLUMNS, Table

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 64, 16, 150, 40
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7f3c8d", "#a5732a", "#4b4b4b", "#e73f74",
    "#11a579", "#3969ac", "#80ba5a", "#f2b701", "#666666",
)  # fmt: skip
MISSES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.05rem;margin:2.2rem 0 .2rem}p{margin:.1rem 0;color:#555}"
    "table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}"
    "td,th{padding:.12rem .6rem;text-align:right;border-bottom:1px solid #e4e4e4}"
    "td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}svg{max-width:100%;height:auto}"
)


class _Axes(NamedTuple):
    """From values to places on the picture."""

    low: float
    high: float
    most: float  # misses, at the foot
    least: float

    def x(self, ratio: float) -> float:
        share = (math.log(ratio) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, attainment: float) -> float:
        missed = min(self.most, max(self.least, 1.0 - attainment))
        share = (math.log(missed) - math.log(self.least)) / (math.log(self.most) - math.log(self.least))
        return TOP + share * (HEIGHT - TOP - BOTTOM)


def page(tables: Sequence[Table], title: str, above: Sequence[str] = ()) -> str:
    """The whole file."""
    parts = [f"<h1>{escape(title)}</h1>", *above]
    for table in tables:
        head, *rest = table.heading()
        parts.append(f"<h2>{escape(head)}</h2>")
        parts += [f"<p>{escape(line)}</p>" for line in rest]
        parts.append(picture(table))
        parts.append(grid(COLUMNS, table.rows()))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def picture(table: Table) -> str:
    """The Pareto picture of one table."""
    oracle = table.oracle_hours or min((c.outcome["gpu_hours"] for c in table.cells), default=1.0) or 1.0
    ratios = [max(1e-3, c.outcome["gpu_hours"] / oracle) for c in table.cells] or [1.0]
    axes = _Axes(min(0.9, *ratios, 0.9), max(2.0, *ratios, 2.0) * 1.05, 0.5, 0.0005)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
        f'aria-label="GPU-hours and attainment of each law">',
        *_frame(axes, table.slo.target),
    ]
    for number, name in enumerate(dict.fromkeys(c.policy for c in table.cells)):
        parts += _law(table, name, COLOURS[number % len(COLOURS)], number, axes, oracle)
    parts.append("</svg>")
    return "".join(parts)


def _frame(axes: _Axes, target: float) -> list[str]:
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for missed in MISSES:
        y = axes.y(1.0 - missed)
        strong = abs(missed - (1.0 - target)) < 1e-9
        colour = "#c33" if strong else "#e4e4e4"
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{100 * (1 - missed):g} %", "end"))
    for ratio in (0.5, 0.7, 1.0, 1.25, 1.5, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0):
        if axes.low <= ratio <= axes.high:
            x = axes.x(ratio)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{foot}" stroke="#f0f0f0"/>')
            parts.append(_text(x, foot + 16, f"{ratio:g}", "middle"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 6, "GPU-hours, times the clairvoyant schedule's", "middle"))
    return parts


def _law(table: Table, name: str, colour: str, number: int, axes: _Axes, oracle: float) -> list[str]:
    cells = [c for c in table.cells if c.policy == name]
    places = {
        id(c): (axes.x(max(1e-3, c.outcome["gpu_hours"] / oracle)), axes.y(c.outcome["attainment"] or 0.0))
        for c in cells
    }
    curve = [(axes.x(max(1e-3, p.gpu_hours / oracle)), axes.y(p.attainment)) for p in front([c.point for c in cells])]
    parts = []
    if len(curve) > 1:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for cell in cells:
        x, y = places[id(cell)]
        fill = colour if cell.knob is None else "#fff"
        told = f"{name} {'as published' if cell.knob is None else f'{cell.knob:g}'}: "
        told += f"{100 * (cell.outcome['attainment'] or 0.0):.2f} %, {cell.outcome['gpu_hours']:,.0f} GPU-hours"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
            f"<title>{escape(told)}</title></circle>"
        )
    y = TOP + 8 + 18 * number
    parts.append(f'<circle cx="{WIDTH - RIGHT + 14}" cy="{y}" r="4" fill="{colour}"/>')
    parts.append(_text(WIDTH - RIGHT + 24, y + 4, name, "start"))
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="#444" text-anchor="{anchor}" '
        f'font-family="system-ui,sans-serif">{escape(words)}</text>'
    )
