"""What `[tui]` in the configuration may say, and where it is looked for.

    [tui]
    theme = "dark"              # dark light contrast cvd mono
    glyphs = "block"            # block ascii
    utc = false                 # times of day in UTC instead of this machine's zone
    production = ["prod-*"]     # fleets where an action is confirmed by typing its target
    columns = ["replica", "st", "kv"]
    sort = "risk"
    [tui.keys]
    quit = ["q", "ctrl+q"]

It must not import what costs start-up time, so it is a plain dataclass with its own checks. The trap: an unknown key
is an error that names it and the file; silence about a misspelt key costs an evening.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsconsole.errors import ConfigError
from opsconsole.tui import actions
from opsconsole.tui.state import SORTS
from opsconsole.tui.theme import GLYPHS, THEMES


@dataclass(frozen=True, slots=True)
class TuiSettings:
    """How this user wants the console."""

    theme: str | None = None
    glyphs: str | None = None
    utc: bool = False
    production: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sort: str = "risk"
    read_only: bool = False
    bell: bool = True  # a new alert rings once
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def config_path(environ: Mapping[str, str]) -> Path:
    """`$OPSCONSOLE_CONFIG`, `./opsconsole.toml`, else the XDG place: the same file that the agent takes."""
    if environ.get("OPSCONSOLE_CONFIG"):
        return Path(environ["OPSCONSOLE_CONFIG"])
    if (here := Path("opsconsole.toml")).is_file():
        return here
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "opsconsole" / "config.toml"


def load(path: Path | None = None) -> TuiSettings:
    """The `[tui]` table of the configuration file; defaults where there is no file."""
    path = path or config_path(os.environ)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tui", {})
    except (FileNotFoundError, NotADirectoryError):
        return TuiSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return parse(table, str(path))


def parse(table: Mapping[str, Any], where: str) -> TuiSettings:
    """A checked `[tui]` table."""
    names = set(TuiSettings.__slots__)
    for key in table:
        if key not in names:
            raise ConfigError(f"{where}: [tui] {key} is not known; it may have {', '.join(sorted(names))}.")
    _one_of(table, "theme", THEMES, where)
    _one_of(table, "glyphs", GLYPHS, where)
    _one_of(table, "sort", SORTS, where)
    for key in ("utc", "read_only", "bell"):
        if not isinstance(table.get(key, False), bool):
            raise ConfigError(f"{where}: [tui] {key} must be true or false.")
    return TuiSettings(
        table.get("theme"),
        table.get("glyphs"),
        table.get("utc", False),
        _words(table, "production", where),
        _columns(table, where),
        table.get("sort", "risk"),
        table.get("read_only", False),
        table.get("bell", True),
        _keys(table.get("keys", {}), where),
    )


def _one_of(table: Mapping[str, Any], key: str, options: Any, where: str) -> None:
    if key in table and table[key] not in options:
        raise ConfigError(f"{where}: [tui] {key} = {table[key]!r} is not one of {', '.join(options)}.")


def _words(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where}: [tui] {key} must be a list of words.")
    return tuple(value)


def _columns(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    words = _words(table, "columns", where)
    if words:
        from opsconsole.tui.viewmodel.columns import COLUMNS

        if unknown := next((word for word in words if word not in COLUMNS), ""):
            raise ConfigError(f"{where}: [tui] columns: {unknown!r} is not one of {', '.join(COLUMNS)}.")
    return words


def _keys(table: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: [tui.keys] must be a table of action = [keys].")
    for name in table:
        if name not in actions.BY_ID:
            raise ConfigError(f"{where}: [tui.keys] {name} is no action; `?` in the console lists them.")
    keys = {name: _words(table, name, where) for name in table}
    if found := actions.clashes(keys):
        raise ConfigError(f"{where}: [tui.keys]: {found[0]}.")
    return keys
