"""Doctor's findings as text: what it is, what was read and from which family, what is unknown and why.

It must not judge; every word comes from the report. The trap: an unknown value is printed as such, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.observe.diagnosis import GPU_FACTS, HISTOGRAMS, MAPPINGS, NUMBERS, QUANTILES, RATES, hints

_WIDTH = 26
_ERRORS = {"not_exposition": "this is not a metrics page"}


def as_text(report: Mapping[str, Any]) -> str:
    """A few lines a person reads top to bottom."""
    lines = [str(report["target"]), *_head(report)]
    for title, names in (("Levels and counters", (*NUMBERS, *MAPPINGS, *GPU_FACTS)), ("Over the pages", tuple(RATES))):
        rows = [_row(name, report[name], report) for name in names if _is_told(report.get(name))]
        if rows:
            lines += ["", title, *rows]
    latencies = [_latency(name, report) for name in HISTOGRAMS if report[name] is not None]
    if latencies:
        lines += ["", "Latencies, seconds" + (" (over the pages)" if report["pages"] > 1 else " (since the start)")]
        lines += latencies
    unknown = {**report["missing"], **report["unknown"]}
    if unknown:
        lines += ["", "Unknown, and why", *(f"  {name:<{_WIDTH}}{why}" for name, why in unknown.items())]
    if report["bad_lines"]:
        lines += ["", "Lines that could not be read", *(f"  {b['line']}: {b['text']}" for b in report["bad_lines"])]
    said = hints(report)
    if said:
        lines += ["", "To know", *(f"  {hint}" for hint in said)]
    return "\n".join(lines)


def _head(report: Mapping[str, Any]) -> list[str]:
    lines = []
    if report["error"]:
        lines.append(f"  error      {_ERRORS.get(report['error'], report['error'])}: {report['error_detail']}")
    engine = report["title"] or "none that is known"
    lines.append(f"  engine     {engine}" + (f", version {report['versions']}" if report["versions"] else ""))
    for name in ("model", "ranks", "wrapped_by"):
        if report[name] is not None:
            lines.append(f"  {name:<11}{report[name]}")
    if report["beside"]:
        lines.append(f"  beside it  {', '.join(report['beside'])}")
    if report["flags"]:
        lines.append(f"  flags      {', '.join(report['flags'])}")
    if report["restarts"]:
        lines.append(f"  restarts   {report['restarts']}")
    return lines


def _is_told(value: Any) -> bool:
    return value is not None


def _row(name: str, value: Any, report: Mapping[str, Any]) -> str:
    family = report["read_from"].get(name.removesuffix("_total"), report["read_from"].get(name, ""))
    return f"  {name:<{_WIDTH}}{_value(value):<22}{family if name in NUMBERS + MAPPINGS else ''}".rstrip()


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def _latency(name: str, report: Mapping[str, Any]) -> str:
    shown = [f"{q} {_value(report[f'{name}_{q}'])}" for q in ("mean", *QUANTILES) if report[f"{name}_{q}"] is not None]
    at_least = "  (at least: beyond the last bucket)" if report[f"{name}_lower_bound"] else ""
    return f"  {name:<{_WIDTH}}{'  '.join(shown) or 'nothing observed'}{at_least}"
