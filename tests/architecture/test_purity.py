"""Time, chance and sleep come from the clock object or as arguments; nobody reads them on the side."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    ("time", "time"), ("time", "monotonic"), ("time", "sleep"), ("time", "time_ns"), ("time", "monotonic_ns"),
    ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"),
    ("random", "random"), ("random", "randint"), ("random", "choice"), ("random", "shuffle"), ("random", "uniform"),
    ("random", "expovariate"), ("random", "seed"), ("random", "gauss"),
}  # fmt: skip
# Where a process begins, somebody has to bring the real clock; each place says why.
ALLOWED = {
    "opsconsole/clock.py": "the clock itself",
    "engine/server.py": "the engine may not import the console, so its server brings the monotonic clock",
}


def readers_of_time() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for package in ("opsconsole", "forecaster", "engine", "policies"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute)):
                    continue
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if (owner, node.attr) in FORBIDDEN:
                    found.setdefault(path.relative_to(ROOT).as_posix(), []).append(f"{node.lineno} {owner}.{node.attr}")
    return found


def test_only_the_clock_reads_time() -> None:
    assert {k: v for k, v in readers_of_time().items() if k not in ALLOWED} == {}


def test_from_imports_do_not_smuggle_time_in() -> None:
    smuggled = []
    for package in ("opsconsole", "forecaster", "engine", "policies"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module in ("time", "random"):
                    smuggled += [f"{path.name}: {a.name}" for a in node.names if (node.module, a.name) in FORBIDDEN]
    assert smuggled == []
