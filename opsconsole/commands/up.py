"""`opsconsole up`: one machine, from nothing to a measured, scaled service, with the console in front.

Turns options into settings and hands them to the session. Trap: everything that can be refused is refused before the
first process starts: a bad option, a folder in use, a port in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from opsconsole.local.session import Screen


def up(
    workers: str = typer.Option("1:2", "--workers", metavar="MIN:MAX", help="Engine workers; threads are cores / MAX."),
    port: int = typer.Option(8000, "--port", min=1, max=65535, help="The OpenAI-compatible port."),
    host: str = typer.Option("127.0.0.1", "--host", help="Where to listen; other than loopback needs --api-key."),
    model: str = typer.Option("", "--model", metavar="PATH", help="A GGUF or a Hugging Face folder; default SmolLM2."),
    slo: str = typer.Option("", "--slo", metavar="BOUNDS", help="ttft=1s,tpot=80ms,target=95%; default: calibrated."),
    load: str = typer.Option("", "--load", metavar="NAME|FILE", help="steady, diurnal, burst, or a trace's CSV."),
    day: str = typer.Option("4m", "--day", metavar="TIME", help="How long a day of --load diurnal is."),
    seconds: str = typer.Option("", "--for", metavar="TIME", help="End by itself, counted after calibration."),
    no_tui: bool = typer.Option(False, "--no-tui", help="No console; a line now and then."),
    output: str = typer.Option("text", "--output", "-o", help="The summary at the end: text or json."),
    devices: str = typer.Option("", "--devices", metavar="LIST", help="Accelerators, one a worker; cpu for none."),
    data_dir: str = typer.Option("", "--data-dir", metavar="DIR", help="Database, logs, sockets; default: XDG state."),
    policy: str = typer.Option(
        "", "--policy", help="The law that decides how many; default: predictive with --load diurnal, else reactive."
    ),
    stabilise: str = typer.Option("10s", "--stabilise", metavar="TIME", help="Calm needed before a drain."),
    start_delay: str = typer.Option(
        "0s", "--cold-start-delay", metavar="TIME", help="Added to each start, to show what slower ones cost."
    ),
    sustained: float = typer.Option(
        0.0, "--sustained", metavar="RATE", min=0.0, help="Requests/s one worker sustains; default: measured."
    ),
    drain_deadline: str = typer.Option("60s", "--drain-deadline", metavar="TIME", help="Longest wait for streams."),
    api_key: str = typer.Option("", "--api-key", envvar="OPSCONSOLE_API_KEY", help="Asked of every user."),
    capture: bool = typer.Option(False, "--capture", help="Keep redacted requests for `lint`, in captured.jsonl."),
    seed: int = typer.Option(-1, "--seed", help="Of the built-in load; default: a fresh one."),
    engine_arg: list[str] = typer.Option([], "--engine-arg", metavar="ARG", help="Passed on to `serve`; repeatable."),
) -> None:
    """Serve a model on this machine: engine workers, a router, the agent that scales them, and the console.

    Starts the first worker, calibrates on it, then serves on one OpenAI-compatible port. Ends with Ctrl-C and leaves no
    process behind. Without a terminal and without --for it runs a bounded demo and prints its summary.

    Examples:

      opsconsole up

      opsconsole up --workers 1:2 --load burst --for 90s --no-tui --output json

      opsconsole up --load diurnal --for 8m

      opsconsole up --model ~/models/Qwen2.5-0.5B-Instruct --slo ttft=500ms,tpot=50ms,target=99%
    """
    options: dict[str, Any] = dict(locals())
    from opsconsole.commands.up_options import prepare, run_session

    settings, run_options, wants_screen = prepare(options)
    run_session(settings, run_options, _screen() if wants_screen else None, output)


def _screen() -> Screen:
    """The console on our own agent; refused before anything starts where there is nothing to draw on."""
    import os

    from opsconsole.commands.tui_cmd import build, check_terminal

    check_terminal()

    async def screen(address: str) -> None:
        await build(address).run_async(mouse=not os.environ.get("OPSCONSOLE_NO_MOUSE"))

    return screen
