"""Dated tables of engines and providers, read from data files and extended by configuration.

No number of a cache rule stands in code. The trap: a provider's minimum depends on the model, by the longest start of
its name.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from opsconsole.errors import ConfigError
from opsconsole.lint.reuse import EngineRule


@dataclass(frozen=True, slots=True)
class Provider:
    """What a hosted cache asks for and costs."""

    name: str
    minimum: int
    unit: int
    ttl_s: float | None
    read: float
    write: float
    breakpoints: bool
    max_breakpoints: int = 4
    lookback: int = 20
    models: dict[str, int] = field(default_factory=dict)
    source: str = ""

    def minimum_for(self, model: str) -> int:
        """Least cacheable prefix for a model."""
        starts = [start for start in self.models if model.startswith(start)]
        return self.models[max(starts, key=len)] if starts else self.minimum


@cache
def _table(name: str) -> dict[str, Any]:
    text = resources.files("opsconsole.lint").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def engine_rule(name: str, block_size: int | None = None, ttl_s: float | None = None) -> EngineRule:
    """The matching rule of an engine by its name."""
    table = _table("engines")
    if name not in table:
        raise ConfigError(f"engine: unknown engine {name!r}; known are {', '.join(sorted(table))}.")
    entry = table[name]
    return EngineRule(
        unit=block_size or int(entry["unit"]), ttl_s=ttl_s, last_token_computed=bool(entry["last_token_computed"])
    )


def provider(name: str) -> Provider:
    """A provider by its name."""
    table = _table("providers")
    if name not in table:
        raise ConfigError(f"provider: unknown provider {name!r}; known are {', '.join(sorted(table))}.")
    entry = {key: value for key, value in table[name].items() if key != "seen"}
    return Provider(name=name, **entry)
