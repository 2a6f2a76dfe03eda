"""A drawer of finished cells: what a run came to, filed under a digest of everything it was made from.

The digest covers the trace, the law and its knob, the start, the settings and the code that can change the figure, so a
stale cell is never read and a stopped run goes on where it was. The trap: a law's own file must count and another
law's must not, or every tweak throws all away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import forecaster
import opsconsole.simulate as house
import policies
from policies.registry import REGISTRY

SHARED = ("situation", "memory", "outlook", "decision", "drain", "wording", "registry")
PHYSICS = (
    "fluid", "brink", "fluid_signals", "fluid_tally", "glimpse", "latency", "settings", "steptime", "traces",
    "backtest", "outlooks",
)  # fmt: skip
REQUEST = ("fleet", "members", "replica", "router", "score", "sequence", "signals", "kv_counts", "run")
OURS = ("reactive", "predictive")
FORESIGHT = ("predictive", "hindsight", "headroom", "quantile")  # of ours; without them it is the reactive law


def code_version(law: str, fidelity: str = "fluid") -> str:
    """Of the files whose change can change this law's figure."""
    simulate, rules = _folder(house), _folder(policies)
    files = [simulate / f"{name}.py" for name in PHYSICS + (REQUEST if fidelity == "request" else ())]
    files += _ours(rules, law) if law in OURS else [rules / f"{name}.py" for name in SHARED]
    files += [] if law in OURS else sorted((rules / "baselines").glob("*.py"))
    return _digest(tuple(files)) + _read_version(law)


def _ours(rules: Path, law: str) -> list[Path]:
    return [file for file in sorted(rules.glob("*.py")) if law == "predictive" or file.stem not in FORESIGHT]


def _read_version(law: str) -> str:
    """Of what makes the forecasts that the law reads."""
    if law == "predictive":
        return forecast_version()
    return _digest((_folder(forecaster) / "planners.py",)) if REGISTRY[law].needs else ""


def forecast_version() -> str:
    """Of the forecaster as it is walked over a trace: without what runs in workers only."""
    return _digest(tuple(f for f in sorted(_folder(forecaster).glob("*.py")) if f.stem not in ("ets", "worker")))


def _folder(package: Any) -> Path:
    return Path(next(iter(package.__path__)))


@lru_cache(maxsize=64)
def _digest(files: tuple[Path, ...]) -> str:
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:12]


class Drawer:
    """Files of one cell each in a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        path = self._path(inputs)
        if path is None or not path.is_file():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["outcome"]
        except (ValueError, KeyError, TypeError):
            return None  # cut short by a disk that filled up: it is run again
        return found

    def keep(self, inputs: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
        path = self._path(inputs)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"inputs": inputs, "outcome": outcome}, sort_keys=True), encoding="utf-8")
        part.replace(path)

    def _path(self, inputs: Mapping[str, Any]) -> Path | None:
        if self._folder is None:
            return None
        text = json.dumps(inputs, sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
