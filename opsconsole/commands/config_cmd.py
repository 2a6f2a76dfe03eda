"""`opsconsole config init | show | validate`: write a first file, show what is in force and from where, check one.

It knows how to print values and not what they mean. The trap: secrets are never printed, whoever gave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opsconsole.errors import UsageError

if TYPE_CHECKING:
    from opsconsole.config import Loaded

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True, help="The configuration file.")
TEMPLATE = Path(__file__).with_name("config_template.toml")
Named = Annotated[Path | None, typer.Option("--config", help="The file; default: the one that is in force.")]


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write.")] = Path("opsconsole.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a file with every key, its default and what it is for.

    Examples:

      opsconsole config init

      opsconsole config init ~/.config/opsconsole/config.toml
    """
    if path.exists() and not force:
        raise UsageError(f"{path} exists: name another place, or replace it with --force.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEMPLATE.read_text("utf-8"), "utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    typer.echo(f"{path} written; check it with `opsconsole config validate --config {path}`.")


@app.command()
def show(
    config: Named = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Print every value in force and where it comes from: file, variable or default.

    Examples:

      opsconsole config show

      OPSCONSOLE_ACT__MODE=off opsconsole config show --output json
    """
    import json

    from opsconsole.config import load

    if output not in ("text", "json"):
        raise UsageError(f"--output {output}: give text or json.")
    loaded = load(config)
    values = _hidden(loaded.config.model_dump(mode="json"))
    if output == "json":
        document = {
            "file": str(loaded.path) if loaded.path else None,
            "values": values,
            "origins": dict(loaded.origins),
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    typer.echo(f"file: {loaded.path or 'none'}")
    for key, value in _flat(values):
        typer.echo(f"{key} = {json.dumps(value, ensure_ascii=False)}  ({_origin(loaded, key)})")


@app.command()
def validate(config: Named = None) -> None:
    """Check a file: syntax, keys, values, and that what they name exists. Exit code 2 when something is wrong.

    Examples:

      opsconsole config validate

      opsconsole config validate --config fleet.toml
    """
    from opsconsole.config import load
    from opsconsole.control.configured import agent_settings

    loaded = load(config)
    if loaded.path is None:
        raise UsageError("There is no configuration file: name one with --config, or write one with `config init`.")
    settings = agent_settings(loaded)
    _check_sources(loaded)
    _check_others(loaded)
    if settings.listen is not None:
        from opsconsole.control.server import check_listen

        check_listen(settings.listen, settings.tokens)
    pools = len(settings.pools)
    typer.echo(f"{loaded.path} is right: {pools} {'pool' if pools == 1 else 'pools'}, mode {settings.mode.value}.")


def _check_sources(loaded: Loaded) -> None:
    """Addresses, secrets and files that the sources name; nobody is asked."""
    from opsconsole.clock import SystemClock
    from opsconsole.commands.found import names_sources
    from opsconsole.control.configured import sources
    from opsconsole.control.credentials import where
    from opsconsole.errors import ConfigError

    table = loaded.config.sources
    named = [("sources.files", Path(name)) for name in table.files]
    named += [("sources.ca_file", table.ca_file)] if table.ca_file else []
    for key, path in named:
        if not path.expanduser().is_file():
            raise ConfigError(f"{where(loaded, key)}: {key}: there is no file {path}.")
    if names_sources(loaded.config):
        list(sources(loaded, SystemClock()))


def _check_others(loaded: Loaded) -> None:
    """The tables that belong to the console and to the linter, by their own rules."""
    assert loaded.path is not None
    from opsconsole.lint.settings import parse as parse_lint
    from opsconsole.tui.settings import parse as parse_tui

    if loaded.config.tui:
        parse_tui(loaded.config.tui, str(loaded.path))
    if loaded.config.lint:
        parse_lint(loaded.path, loaded.config.lint)


_LOGIN = re.compile(r"(?<=//)[^/@\s]+(?=@)|^[^/@\s]+:[^/@\s]*(?=@)")  # user and password in an address


def _hidden(data: Any, name: str = "") -> Any:
    if isinstance(data, dict):
        return {key: _hidden(value, key) for key, value in data.items()}
    if isinstance(data, list):
        return [_hidden(item) for item in data]
    if name.lower() in ("secret", "authorization", "x-api-key", "cookie", "proxy-authorization") and data is not None:
        return "(hidden)"
    return _LOGIN.sub("(hidden)", data) if isinstance(data, str) else data


def _flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _origin(loaded: Loaded, key: str) -> str:
    found = loaded.origins.get(key) or loaded.origins.get(key.lower())
    if found is None:
        return "default"
    return "file" if found == str(loaded.path) else found
