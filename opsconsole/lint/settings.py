"""Settings of the linter: from pyproject.toml or opsconsole.toml, nearest file first, unknown keys refused.

Knows the keys and their types. The trap: a wrong key that is silently ignored checks something else than the author
meant, so each mistake is an error that names file and line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from opsconsole.errors import ConfigError
from opsconsole.lint.model import Severity
from opsconsole.lint.rules.table import default_codes, matching


@dataclass(frozen=True, slots=True)
class LintSettings:
    """Everything that steers a run; the names with dashes are the keys of the configuration."""

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fixable: tuple[str, ...] = ("ALL",)
    unfixable: tuple[str, ...] = ()
    severity: dict[str, str] = field(default_factory=dict)
    fail_on: str = "error"
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    min_tokens: int = 64
    min_share: float = 0.05
    min_requests: float = 0.2
    max_bad_records: float = 0.5
    engine: str = "vllm"
    block_size: int | None = None
    provider: str | None = None
    kv_budget: int | None = None
    ttl: float | None = None
    sinks: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    ignore_values: tuple[str, ...] = ()
    require_reason: bool = False
    active_parameters: float | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    peak_tflops: float | None = None
    mfu: float = 0.4
    tokens_per_gpu_second: float | None = None
    price_per_million: float | None = None

    @property
    def codes(self) -> frozenset[str]:
        """The rules that report."""
        chosen = matching(self.select, "select") if self.select else default_codes()
        chosen |= matching(self.extend_select, "extend-select")
        return chosen - matching(self.ignore, "ignore")

    @property
    def may_fix(self) -> frozenset[str]:
        return matching(self.fixable, "fixable") - matching(self.unfixable, "unfixable")

    @property
    def threshold(self) -> Severity:
        return Severity(self.fail_on)

    def patterns(self) -> list[re.Pattern[str]]:
        """Values never reported."""
        return [re.compile(pattern) for pattern in self.ignore_values]


_KEYS = {item.name.replace("_", "-"): item for item in fields(LintSettings)}


def load(start: Path, explicit: Path | None = None) -> tuple[LintSettings, Path | None]:
    """The settings for a place: a named file, or the nearest one upwards that has a lint table."""
    if explicit is not None:
        if not explicit.is_file():
            raise ConfigError(f"PX905 {explicit}: no such configuration file; check --config.")
        return parse(explicit, _table(explicit) or {}), explicit
    here = start if start.is_dir() else start.parent
    for folder in (here.resolve(), *here.resolve().parents):
        for name in ("opsconsole.toml", "pyproject.toml"):
            file = folder / name
            if file.is_file():
                table = _table(file)
                if table is not None:
                    return parse(file, table), file
        if (folder / ".git").exists():
            break
    return LintSettings(), None


def _table(file: Path) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise ConfigError(f"PX905 {file}:{found[1] if found else 1}: not valid TOML ({error}).") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"PX905 {file}:1: cannot be read ({error}).") from error
    holder = data if file.name != "pyproject.toml" else data.get("tool", {}).get("opsconsole", {})
    table = holder.get("lint")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"PX905 {file}:1: lint must be a table.")
    return table


def parse(file: Path, table: Mapping[str, Any]) -> LintSettings:
    """Settings from a table; every mistake is a ConfigError with file and line."""
    given: dict[str, Any] = {}
    text = file.read_text(encoding="utf-8")
    for key, value in table.items():
        item = _KEYS.get(key)
        where = f"PX905 {file}:{_line(text, key)}: {key}"
        if item is None:
            raise ConfigError(f"{where} is not a setting of lint; known are {', '.join(sorted(_KEYS))}.")
        given[item.name] = _typed(where, str(item.type), value)
    settings = LintSettings(**given)
    check(settings, lambda key: f"PX905 {file}:{_line(text, key)}: {key}")
    return settings


def _typed(where: str, kind: str, value: Any) -> Any:
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{where} must be a list of texts.")
        return tuple(value)
    if kind.startswith("dict[str, tuple"):
        if not isinstance(value, dict) or not all(isinstance(item, list) for item in value.values()):
            raise ConfigError(f"{where} must be a table of lists.")
        return {name: tuple(str(code) for code in item) for name, item in value.items()}
    if kind.startswith("dict"):
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table.")
        return {str(name): str(item) for name, item in value.items()}
    wanted: tuple[type[Any], ...] = (bool,) if kind == "bool" else (str,) if kind.startswith("str") else (int,)
    if kind.startswith("float"):
        wanted = (int, float)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{where} has the wrong type ({type(value).__name__}); it must be {kind.split(' ')[0]}.")
    return float(str(value)) if kind.startswith("float") else value


def check(settings: LintSettings, where: Any) -> None:
    """Values that have the right type and mean nothing."""
    for key, selectors in (
        ("select", settings.select),
        ("extend-select", settings.extend_select),
        ("ignore", settings.ignore),
        ("fixable", settings.fixable),
        ("unfixable", settings.unfixable),
    ):
        matching(selectors, where(key))
    if not settings.codes:
        raise ConfigError(f"{where('ignore')}: leaves no rule of those selected; nothing would be reported.")
    for codes in settings.per_file_ignores.values():
        matching(codes, where("per-file-ignores"))
    for pattern in settings.ignore_values:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"{where('ignore-values')}: {pattern!r} is not a regular expression ({error})."
            ) from error
    for value in (settings.fail_on, *settings.severity.values()):
        if value not in ("error", "warning", "info", "off"):
            raise ConfigError(f"{where('fail-on')}: {value!r} is not a severity; use error, warning or info.")
    matching(settings.severity, where("severity"))
    for name, code in settings.sources.items():
        if code not in matching((code,), where("sources")):
            raise ConfigError(f"{where('sources')}: {name} needs one full code.")


def _line(text: str, key: str) -> int:
    found = re.search(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=|^\s*\[[\w.]*lint\.{re.escape(key)}\]", text, re.M)
    return (
        text.count("\n", 0, found.start()) + (1 if found and text[found.start() : found.start() + 1] != "\n" else 2)
        if found
        else 1
    )


def merged(settings: LintSettings, **overrides: Any) -> LintSettings:
    """Settings with the command line on top; None means not given."""
    given = {key: value for key, value in overrides.items() if value not in (None, (), [])}
    made = replace(settings, **given)
    check(made, lambda key: f"--{key}")
    return made
