"""`opsconsole replay FILE`: the console on a recording, or every tick of it as JSON.

It must not play anything itself: an agent over the recording does, in a process of its own, and the console is that
agent's client as of any other. The trap: `--at 14:03` is a time of day of the recording, not of today, so times count
from the recording's end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opsconsole.errors import RecordingError, UsageError

if TYPE_CHECKING:
    from opsconsole.control.replay import Span


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written by `record`, or an agent's opsconsole.db.")],
    at: Annotated[str, typer.Option("--at", metavar="T", help="Begin here: 14:03, -5m (before its end), a date.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="T", help="End here. Default: its end.")] = "",
    speed: Annotated[str, typer.Option("--speed", metavar="N", help="10x. Default: 1x; with --output, at once.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="json: no screen, one line a tick.")] = "",
    config: Annotated[Path | None, typer.Option("--config", help="Pools and policies other than those then.")] = None,
    theme: Annotated[str, typer.Option("--theme", help="dark, light, contrast, cvd or mono.")] = "",
    glyphs: Annotated[str, typer.Option("--glyphs", help="block or ascii.")] = "",
) -> None:
    """Play a recording: the same screens and the same decisions, on what was seen then.

    Nothing is asked of the engines and nothing is changed; decisions are made anew by the policies of today.

    Examples:

      opsconsole replay day.rec --at 14:03 --speed 10x

      opsconsole replay ~/.local/state/opsconsole/agent/opsconsole.db --at -30m

      opsconsole replay day.rec --output json | jq -c '.decisions[] | [.at, .pool, .target]'
    """
    if output not in ("", "json"):
        raise UsageError(f"--output {output}: give json, or leave it out for the screen.")
    span = _span(file, at, until, _speed(speed), headless=bool(output))
    if output:
        raise typer.Exit(_print(file, span, config))
    raise typer.Exit(_show(file, span, config, theme or None, glyphs or None))


def _speed(text: str) -> float | None:
    """`10x`, `0.5x` or `10`."""
    if not text:
        return None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)x?", text.strip().lower())
    value = float(found[1]) if found else 0.0
    if not 0.01 <= value <= 1000:
        raise UsageError(f"--speed {text}: give 10x, between 0.01x and 1000x.")
    return value


def _span(file: Path, at: str, until: str, speed: float | None, *, headless: bool) -> Span:
    from opsconsole.commands.moments import moment, shown
    from opsconsole.control.replay import Span
    from opsconsole.history.reader import Reader

    reader = Reader(file)
    try:
        bounds, first = reader.bounds(), reader.replicas_since()
    finally:
        reader.close()
    if bounds is None or first is None:
        raise RecordingError(f"{file} has no replicas recorded: nothing can be played.")
    last = bounds.last
    begin, end = (moment(at, last) if at else first), (moment(until, last) if until else last)
    reach = f"it reaches from {shown(first)} to {shown(last)}"
    if begin < first - 1.0 or begin > last:
        older = ", and has totals only before that" if bounds.first <= begin < first else ""
        raise UsageError(f"{file} has no replicas at {shown(begin)}: {reach}{older}.")
    if end < begin:
        raise UsageError(f"--until {until} is before the beginning, {shown(begin)}; {reach}.")
    return Span(max(begin, first), min(end, last), speed if speed or headless else 1.0)


def _print(file: Path, span: Span, config: Path | None) -> int:
    """One line a tick: `{"snapshot": ..., "decisions": [...]}`."""
    import asyncio
    import json

    from opsconsole.config import load
    from opsconsole.control.replay import play_through
    from opsconsole.domain.records import TickRecord
    from opsconsole.domain.wire import to_json

    def line(record: TickRecord) -> None:
        told = {"snapshot": to_json(record.snapshot), "decisions": to_json(record.decisions)}
        typer.echo(json.dumps(told, ensure_ascii=False))

    asyncio.run(play_through(file, span, None if config is None else load(config), line))
    return 0


def _show(file: Path, span: Span, config: Path | None, theme: str | None, glyphs: str | None) -> int:
    from opsconsole.commands import tui_cmd
    from opsconsole.commands.scratch import scratch

    if config is not None:
        from opsconsole.config import load

        load(config)  # a wrong file is said before a screen opens
    tui_cmd.check_terminal()
    with scratch("replay") as folder:
        words = ["--data-dir", str(folder), "--start", f"{span.start!r}", "--end", f"{span.end!r}"]
        words += ["--speed", f"{span.speed or 1.0!r}", *(["--config", str(config)] if config else [])]
        with tui_cmd.companion("opsconsole.control.replay", [*words, str(file.resolve())], folder):
            return tui_cmd.show(str(folder / "agent.sock"), True, theme, glyphs)
