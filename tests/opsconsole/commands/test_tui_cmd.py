"""The console's own command: its options, what it opens on, and the terminal it needs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.clock import SystemClock
from opsconsole.commands import found, tui_cmd, up
from opsconsole.errors import OpsConsoleError, UsageError

CLOCK = SystemClock()


class Stream(StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def streams(monkeypatch: pytest.MonkeyPatch, stdin: bool, stdout: bool, stderr: bool) -> None:
    for name, is_terminal in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
        monkeypatch.setattr(sys, name, Stream(is_terminal))
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the command line asks of the console."""
    calls: list[tuple[Any, ...]] = []

    def run(address: str | None, **options: Any) -> int:
        calls.append((address, options))
        return 0

    monkeypatch.setattr(tui_cmd, "run", run)
    return calls


def test_the_options_reach_the_console(asked: list[tuple[Any, ...]]) -> None:
    words = ["--demo", "--read-only", "--theme", "light", "--glyphs", "ascii"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, ["--attach", "http://agent:9400"]).exit_code == 0
    assert CliRunner().invoke(app, ["--lean", "--no-mouse"]).exit_code == 0
    plain = {"demo": False, "read_only": False, "theme": None, "glyphs": None, "lean": False, "no_mouse": False}
    assert asked == [
        (
            None,
            {"demo": True, "read_only": True, "theme": "light", "glyphs": "ascii", "lean": False, "no_mouse": False},
        ),
        ("http://agent:9400", plain),
        (None, {**plain, "lean": True, "no_mouse": True}),
    ]


def test_lean_asks_textual_for_few_frames_and_leaves_what_the_user_set() -> None:
    environ = {"TEXTUAL_FPS": "10"}
    tui_cmd.go_lean(environ)
    assert environ["TEXTUAL_FPS"] == "10" and environ["TEXTUAL_ANIMATIONS"] == "none"


def test_last_times_choices_are_taken_up_unless_a_fresh_console_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OPSCONSOLE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "opsconsole").mkdir()
    (tmp_path / "opsconsole" / "console.json").write_text('{"sort": "kv", "theme": "light"}')
    made = tui_cmd.build(None)
    assert (made.session.state.sort, made.look_name) == ("kv", "light")
    fresh = tui_cmd.build(None, fresh=True)
    assert (fresh.session.state.sort, fresh.look_name) == ("risk", "dark")


def test_an_option_that_a_command_would_not_see_is_refused(asked: list[tuple[Any, ...]]) -> None:
    done = CliRunner().invoke(app, ["--read-only", "config", "show"])
    assert isinstance(done.exception, UsageError) and "belong behind the command" in str(done.exception)
    assert asked == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"theme": "pink"}, "--theme pink is not one of dark, light"),
        ({"glyphs": "runes"}, "--glyphs runes is not one of"),
        ({"address": "http://agent:9400", "demo": True}, "not both"),
    ],
)
def test_what_cannot_be_shown_is_said_before_a_screen_opens(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tui_cmd.run(options.pop("address", None), **options)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing runs and nothing is configured."""
    for name in [name for name in os.environ if name.startswith("OPSCONSOLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCONSOLE_PORTS", "")
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Arguments of the agents that the console started for itself."""
    seen: list[tuple[str, ...]] = []

    @contextmanager
    def companion(module: str, arguments: list[str], folder: Path) -> Iterator[None]:
        seen.append((module, *arguments[2:]))
        yield

    monkeypatch.setattr(tui_cmd, "companion", companion)
    return seen


def opened(address: str | None = None) -> str | None:
    with tui_cmd.anything(address) as socket:
        return socket


def test_nothing_at_all_is_an_empty_fleet(here: Path, started: list[tuple[str, ...]]) -> None:
    assert opened() is None and started == []
    assert opened("/run/agent.sock") == "/run/agent.sock"


def test_an_agent_comes_before_a_configuration_and_that_before_engines(
    here: Path, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = "opsconsole.commands.watch_agent"
    monkeypatch.setattr(found, "engines", lambda ports: ("127.0.0.1:8000",))
    assert str(opened()).endswith("agent.sock")
    Path("opsconsole.toml").write_text('[agent]\nfleet = "ours"\n[sources]\ntargets = ["10.0.0.7:8000"]\n')
    assert str(opened()).endswith("agent.sock")
    assert started == [
        (watcher, "--fleet", "loopback", "127.0.0.1:8000"),
        (watcher, "--configured", "--fleet", "ours"),
    ]
    monkeypatch.setattr(found, "configured_agent", lambda config: "/its/agent.sock")
    assert opened() == "/its/agent.sock"
    monkeypatch.setenv("OPSCONSOLE_AGENT", "/named/agent.sock")
    assert opened() == "/named/agent.sock" and len(started) == 2


def test_the_agent_on_a_configuration_looks_at_its_sources_and_may_do_nothing(here: Path) -> None:
    Path("opsconsole.toml").write_text(
        '[agent]\nfleet = "ours"\ninterval = "1s"\n[act]\nmode = "act"\nallow_intents = true\n'
        '[pool.chat]\ntargets = ["127.0.0.1:1"]\n'
    )

    async def first(address: str) -> Any:
        from opsconsole.client.agent import AgentClient

        end = CLOCK.monotonic() + 20
        async with AgentClient(address) as client:
            while True:
                try:
                    return await client.snapshot()
                except OpsConsoleError:
                    assert CLOCK.monotonic() < end, (Path(address).parent / "agent.log").read_text()
                    await CLOCK.sleep(0.1)

    with tui_cmd.anything(None) as address:
        assert address is not None
        snapshot = asyncio.run(first(address))
    assert (snapshot.fleet, snapshot.mode, snapshot.can_act) == ("ours", "advise", False)
    assert [replica.pool for replica in snapshot.replicas] == ["chat"]


def test_with_standard_error_in_a_file_the_screen_is_drawn_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    streams(monkeypatch, stdin=True, stdout=True, stderr=False)
    up._screen()
    assert sys.__stderr__ is sys.stdout


@pytest.mark.parametrize(("stdin", "stdout"), [(False, True), (True, False)])
def test_up_refuses_a_screen_that_nobody_would_see(monkeypatch: pytest.MonkeyPatch, stdin: bool, stdout: bool) -> None:
    streams(monkeypatch, stdin, stdout, stderr=False)
    with pytest.raises(UsageError, match="needs a terminal"):
        up._screen()


def test_no_mouse_reaches_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def show(*given: object) -> int:
        shown.append(os.environ["OPSCONSOLE_NO_MOUSE"])
        return 0

    monkeypatch.setenv("OPSCONSOLE_NO_MOUSE", "")
    monkeypatch.setattr(tui_cmd, "check_terminal", lambda: None)
    monkeypatch.setattr(tui_cmd, "show", show)
    assert tui_cmd.run("/run/agent.sock", no_mouse=True) == 0
    assert shown == ["1"]


@pytest.mark.parametrize(("term", "called"), [("dumb", "vt100"), ("unknown", "vt100"), ("screen-256color",) * 2])
def test_a_terminal_without_a_name_still_has_a_size_and_says_no_colour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, term: str, called: str
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    app = tui_cmd.build(None, fresh=True)
    assert os.environ["TERM"] == called
    assert not app.console.is_dumb_terminal
    assert (app.look_name == "mono") is (term == "dumb")


@pytest.mark.parametrize(("own", "code"), [(0, 0), (1, 1), (None, 0)])
def test_an_error_that_ended_the_screen_is_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: int | None, code: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    app = tui_cmd.build(None, fresh=True)
    app._return_code = own
    monkeypatch.setattr(app, "run", lambda mouse: None)
    monkeypatch.setattr(tui_cmd, "build", lambda address, **how: app)
    assert tui_cmd.show(None, True, None, None) == code
