"""The decision that the README shows is the one that is printed, and its forecast is told in JSON too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app

ROOT = Path(__file__).parents[3]
COMMAND = "$ opsconsole autoscale --config tests/data/fleet/fleet.toml --recording tests/data/fleet/morning.rec --once"


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def printed(monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, [*COMMAND.split()[2:], *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_readme_shows_what_is_printed(utc: None, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = readme.split(f"{COMMAND} --explain\n")[1].split("\n```")[0]
    assert printed(monkeypatch, "--explain").rstrip() == shown


def test_json_has_the_forecast_beside_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(printed(monkeypatch, "--output", "json"))
    assert [f["unit"] for f in told["forecasts"]] == ["requests/s", "prompt tokens/s", "output tokens/s"]
    (decision,) = told["decisions"]
    assert decision["target"] == 4 and decision["counterfactual"]["reactive"] == 3
