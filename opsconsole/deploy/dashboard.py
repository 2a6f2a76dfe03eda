"""A Grafana dashboard of the daemon's own metrics, from the names the daemon exposes.

Pure; a test holds every name in it to what the daemon's page really has. The trap: a panel on a
name that does not exist shows "No data", which reads like an idle fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: its title, the unit as Grafana names it, and queries by legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Fleet",
        (
            Panel(
                "Replicas by state",
                "short",
                (("{{state}}", 'max by (pool, state) (opsconsole_replicas{pool=~"$pool"})'),),
            ),
            Panel(
                "Wanted, decided, published",
                "short",
                (
                    ("wanted {{pool}}", 'max by (pool) (opsconsole_pool_wanted_replicas{pool=~"$pool"})'),
                    ("decided {{pool}}", 'max by (pool) (opsconsole_pool_target_replicas{pool=~"$pool"})'),
                    ("published {{pool}}", 'max by (pool) (opsconsole_desired_replicas{pool=~"$pool"})'),
                ),
            ),
            Panel(
                "Decisions",
                "short",
                (
                    (
                        "{{pool}} {{direction}}",
                        'sum by (pool, direction) (increase(opsconsole_decisions_total{pool=~"$pool"}[5m]))',
                    ),
                ),
            ),
        ),
    ),
    (
        "What acting did",
        (
            Panel(
                "Acts by outcome", "short", (("{{status}}", "sum by (status) (increase(opsconsole_acts_total[5m]))"),)
            ),
            Panel("Streams cut", "short", (("cut", "sum(increase(opsconsole_streams_cut_total[1h]))"),)),
            Panel("Alerts firing", "short", (("{{severity}}", "max by (severity) (opsconsole_alerts_firing)"),)),
        ),
    ),
    (
        "The daemon itself",
        (
            Panel("Age of the newest tick", "s", (("{{pod}}", "time() - opsconsole_last_tick_timestamp_seconds"),)),
            Panel(
                "Tick, p99 by step",
                "s",
                (
                    (
                        "{{step}}",
                        "histogram_quantile(0.99, sum by (le, step) (rate(opsconsole_tick_step_seconds_bucket[5m])))",
                    ),
                ),
            ),
            Panel("Sources", "short", (("{{source}}", "min by (source) (opsconsole_source_ok)"),)),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    for row, (title, charts) in enumerate(ROWS):
        top = row * 9
        panels.append({"type": "row", "title": title, "id": len(panels) + 1, "gridPos": _at(0, top, 24, 1)})
        for column, chart in enumerate(charts):
            panels.append(_panel(chart, len(panels) + 1, _at(column * 8, top + 1, 8, 8)))
    return {
        "uid": "opsconsole",
        "title": "opsconsole",
        "tags": ["llm", "inference"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), _pools()]},
        "panels": panels,
    }


def expressions() -> list[str]:
    """Every query, for the check of its names."""
    return [query for _, charts in ROWS for chart in charts for _, query in chart.queries]


def _panel(chart: Panel, number: int, position: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend}
        for index, (legend, query) in enumerate(chart.queries)
    ]
    return {
        "id": number,
        "type": chart.kind,
        "title": chart.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": chart.unit}, "overrides": []},
        "gridPos": position,
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _pools() -> dict[str, Any]:
    return {
        "name": "pool",
        "label": "Pool",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": {"query": "label_values(opsconsole_replicas, pool)", "refId": "pools"},
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _at(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}
