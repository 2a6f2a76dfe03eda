"""The command line: finds the command asked for, imports only that one, and turns our errors into sentences.

It knows the names of the commands and nothing of what they do. Trap: a module named here is imported when its help is
listed too, so command modules keep heavy imports inside their functions.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperGroup

from opsconsole import __version__
from opsconsole.errors import OpsConsoleError, UsageError

if TYPE_CHECKING:
    from typer._click.core import Command, Context


class CommandSpec(NamedTuple):
    """Where a command lives, and under which heading the help lists it."""

    module: str  # in opsconsole.commands
    panel: str


SERVE, SEE, DECIDE, IMPROVE, HOUSE = "Serve", "See", "Decide and act", "Measure and improve", "House"

COMMANDS: dict[str, CommandSpec] = {
    "up": CommandSpec("up", SERVE),
    "serve": CommandSpec("serve", SERVE),
    "status": CommandSpec("status", SEE),
    "watch": CommandSpec("watch", SEE),
    "doctor": CommandSpec("doctor", SEE),
    "record": CommandSpec("record", SEE),
    "replay": CommandSpec("replay", SEE),
    "shot": CommandSpec("shot", SEE),
    "web": CommandSpec("web", SEE),
    "autoscale": CommandSpec("autoscale", DECIDE),
    "explain": CommandSpec("explain", DECIDE),
    "pause": CommandSpec("byhand", DECIDE),
    "resume": CommandSpec("byhand", DECIDE),
    "pin": CommandSpec("byhand", DECIDE),
    "manifests": CommandSpec("manifests", DECIDE),
    "forecast": CommandSpec("forecast", DECIDE),
    "simulate": CommandSpec("simulate", IMPROVE),
    "bench": CommandSpec("bench", IMPROVE),
    "lint": CommandSpec("lint", IMPROVE),
    "plan": CommandSpec("plan", IMPROVE),
    "config": CommandSpec("config_cmd", HOUSE),
}


def _exists(spec: CommandSpec) -> bool:
    return importlib.util.find_spec(f"opsconsole.commands.{spec.module}") is not None


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [name for name, spec in COMMANDS.items() if _exists(spec)]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        spec = COMMANDS.get(cmd_name)
        if spec is None or not _exists(spec):
            return None
        module = importlib.import_module(f"opsconsole.commands.{spec.module}")
        return _as_command(module, cmd_name, spec.panel)


def _as_command(module: Any, name: str, panel: str) -> Command:
    group = getattr(module, "app", None)
    if isinstance(group, typer.Typer):
        command = typer.main.get_command(group)
    else:
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name)(getattr(module, name))
        command = typer.main.get_command(single)
    command.name = name
    command.rich_help_panel = panel  # type: ignore[attr-defined]
    return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="See, forecast and scale LLM inference replicas. Without a command: the console on what it finds here.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opsconsole {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def console(
    ctx: typer.Context,
    attach: str = typer.Option("", "--attach", metavar="URL", help="The agent to show: a URL or a socket's path."),
    demo: bool = typer.Option(False, "--demo", help="A synthetic fleet with failures, clearly labelled."),
    read_only: bool = typer.Option(False, "--read-only", help="Offer no action that changes anything."),
    theme: str = typer.Option("", "--theme", help="dark, light, contrast, cvd or mono."),
    glyphs: str = typer.Option("", "--glyphs", help="block or ascii."),
    no_mouse: bool = typer.Option(False, "--no-mouse", help="Leave the mouse to the terminal, to select text."),
    lean: bool = typer.Option(False, "--lean", help="For a slow line: ASCII, and few repaints."),
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """See, forecast and scale LLM inference replicas.

    Without a command: the console on what it finds here, which is an agent that runs, sources in the configuration,
    or engines that answer on loopback.

    Examples:

      opsconsole --demo --theme light

      opsconsole up --load burst      one machine: engine, router, agent and console

      opsconsole watch http://10.0.0.7:8000

      opsconsole lint prompts.jsonl
    """
    if ctx.invoked_subcommand is not None:
        if attach or demo or read_only or theme or glyphs or lean or no_mouse:
            raise UsageError(
                f"The console's options belong behind the command: opsconsole {ctx.invoked_subcommand} ..."
            )
        return
    from opsconsole.commands import tui_cmd

    code = tui_cmd.run(
        attach or None, demo=demo, read_only=read_only, theme=theme or None, glyphs=glyphs or None, lean=lean,
        no_mouse=no_mouse,
    )  # fmt: skip
    raise typer.Exit(code)


def main() -> None:
    """Run the command line; errors of ours become one sentence and exit code 2."""
    try:
        app()
    except OpsConsoleError as error:
        typer.secho(f"opsconsole: {error}", err=True, fg=None if "NO_COLOR" in os.environ else typer.colors.RED)
        sys.exit(2)
    except BrokenPipeError:
        # `opsconsole status | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
