"""A backtest in words and JSON: one row a law and start, what the figures rest on above them.

It runs nothing and knows no terminal. The trap: fluid figures are estimates and a re-created trace is no real one;
both are said in the heading of every table, and the JSON carries the same words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opsconsole.simulate.backtest import REFERENCE_START_S, WARM_SHARE, Stage
from opsconsole.simulate.knobs import KNOBS
from opsconsole.simulate.settings import SloBounds
from opsconsole.simulate.sweep import Cell
from opsconsole.simulate.taught import short_history

COLUMNS = (
    "policy", "knob", "attained", "GPU-h", "starting", "draining", "x oracle", "events", "cut", "TTFT p99", "shortage",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """One trace at one cold start."""

    trace: str  # with its label
    lengths: str
    scale: float
    fleet: float  # replicas the clairvoyant schedule holds at the reference start
    cold_s: float
    fidelity: str
    slo: SloBounds
    span_s: float
    cells: tuple[Cell, ...]
    pending: tuple[str, ...] = ()  # laws that have not been run yet
    notes: tuple[str, ...] = ()  # what to keep in mind when reading it

    @property
    def oracle_hours(self) -> float | None:
        return next((c.outcome["gpu_hours"] for c in self.cells if c.policy == "oracle"), None)

    def heading(self) -> tuple[str, ...]:
        estimated = "estimated (fluid, 10 s bins)" if self.fidelity == "fluid" else "request by request"
        return (
            f"{self.trace}, cold start {self.cold_s:g} s, {estimated}",
            f"scored: the last {100 * (1 - WARM_SHARE):.0f} %, {self.span_s / 86400:.2f} days",
            f"demand x {self.scale:.4g}, so that the clairvoyant schedule needs {self.fleet:.1f} replicas on "
            f"average at {REFERENCE_START_S:g} s",
            f"lengths: {self.lengths}; SLO: TTFT {self.slo.ttft:g} s, TPOT {1000 * self.slo.tpot:g} ms, "
            f"{100 * self.slo.target:g} % of requests",
            *((f"not run yet: {', '.join(self.pending)}",) if self.pending else ()),
        )

    def rows(self) -> list[tuple[str, ...]]:
        oracle = self.oracle_hours
        return [_row(cell, oracle) for cell in self.cells]

    def to_json(self) -> dict[str, Any]:
        return {
            "trace": self.trace,
            "lengths": self.lengths,
            "scale": self.scale,
            "clairvoyant_replicas_at_reference": self.fleet,
            "cold_start_s": self.cold_s,
            "fidelity": self.fidelity,
            "estimated": self.fidelity == "fluid",
            "slo": {"ttft_s": self.slo.ttft, "tpot_s": self.slo.tpot, "target": self.slo.target},
            "span_s": self.span_s,
            "pending": list(self.pending),
            "notes": list(self.notes),
            "cells": [
                {"knob": cell.knob, **cell.outcome, "relative_to_oracle": _ratio(cell, self.oracle_hours)}
                for cell in self.cells
            ],
        }


def table_of(
    stage: Stage, cold_s: float, fidelity: str, slo: SloBounds, cells: Sequence[Cell], pending: Sequence[str] = ()
) -> Table:
    skip = round(stage.warm_up_s / stage.load.trace.step)
    label, taught_s = stage.load.trace.label, stage.begins + stage.warm_up_s
    note = short_history(label, taught_s, [c.policy for c in cells])
    return Table(
        label,
        stage.load.words,
        stage.scale,
        round(float(stage.oracle(REFERENCE_START_S)[skip:].mean()), 3),
        cold_s,
        fidelity,
        slo,
        stage.load.trace.seconds - stage.warm_up_s,
        tuple(cells),
        tuple(pending),
        () if note is None else (note,),
    )


def _ratio(cell: Cell, oracle: float | None) -> float | None:
    return None if not oracle else cell.outcome["gpu_hours"] / oracle


def _row(cell: Cell, oracle: float | None) -> tuple[str, ...]:
    found = cell.outcome
    ratio, ttft, attained = _ratio(cell, oracle), found["ttft_p99"], found["attainment"]
    knob = KNOBS.get(cell.policy)
    return (
        cell.policy,
        "published" if cell.knob is None or knob is None else f"{cell.knob:g} {knob.unit}",
        "-" if attained is None else f"{100 * attained:.2f} %",
        f"{found['gpu_hours']:,.0f}",
        f"{found['gpu_hours_starting']:,.0f}",
        f"{found['gpu_hours_draining']:,.1f}",
        "-" if ratio is None else f"{ratio:.2f}",
        str(found["scale_ups"] + found["scale_downs"]),
        str(found["streams_cut"]),
        "-" if ttft is None else f"{ttft:.2f} s",
        f"{found['shortage_s'] / 3600:.2f} h",
    )


def as_text(tables: Sequence[Table], prices: Sequence[str] = ()) -> str:
    """Aligned columns, fit for a terminal and for a document; what is to be kept in mind of several tables once."""
    parts = []
    for table in tables:
        rows = [COLUMNS, *table.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = list(table.heading())
        for row in rows:
            cells = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
            lines.append("  ".join(cells).rstrip())
        parts.append("\n".join(lines))
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    if notes:
        parts.append("\n".join(notes))
    if prices:
        parts.append("\n".join(("what the cold start costs", *prices)))
    return "\n\n".join(parts)


def as_json(tables: Sequence[Table], extra: Mapping[str, Any] | None = None) -> str:
    """Same inputs, same bytes."""
    return json.dumps({"tables": [t.to_json() for t in tables], **(extra or {})}, indent=1, sort_keys=True)
