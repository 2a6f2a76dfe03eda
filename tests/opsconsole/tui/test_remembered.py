"""Choices come back the next time, never against the configuration, and a bad file is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opsconsole.tui import remembered
from opsconsole.tui.settings import TuiSettings
from opsconsole.tui.state import ViewState

CHOSEN = ViewState(
    sort="kv", reverse=True, columns=("replica", "kv"), group="node", wide=True, bare=True, window="long"
)


def test_what_was_chosen_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "state" / "console.json"
    remembered.save(file, CHOSEN, "light")
    held = remembered.load(file)
    assert remembered.applied(held, ViewState(), TuiSettings()) == CHOSEN and held["theme"] == "light"
    assert [child.name for child in file.parent.iterdir()] == ["console.json"]


def test_the_configuration_wins(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    remembered.save(file, CHOSEN, "light")
    settings = TuiSettings(columns=("replica", "st"), sort="ttft")
    state = remembered.applied(remembered.load(file), ViewState(sort="ttft", columns=("replica", "st")), settings)
    assert (state.sort, state.columns, state.group) == ("ttft", ("replica", "st"), "node")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"sort": 3, "columns": "kv", "group": null, "wide": "yes", "window": "week"}',
             '{"columns": ["replica", "colour"]}', '{"sort": "colour"}'],
)  # fmt: skip
def test_a_file_that_makes_no_sense_changes_nothing(text: str, tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    file.write_text(text)
    assert remembered.applied(remembered.load(file), ViewState(), TuiSettings()) == ViewState()


def test_no_file_and_no_place_for_one_are_no_matter(tmp_path: Path) -> None:
    assert remembered.load(tmp_path / "none.json") == {}
    (tmp_path / "file").write_text("")
    remembered.save(tmp_path / "file" / "console.json", CHOSEN, "dark")
    assert not (tmp_path / "file").is_dir()


def test_it_is_kept_where_the_users_state_is() -> None:
    assert remembered.path({"XDG_STATE_HOME": "/s"}) == Path("/s/opsconsole/console.json")
    assert remembered.path({"HOME": "/home/ana"}) == Path("/home/ana/.local/state/opsconsole/console.json")


def test_the_file_is_plain_enough_to_be_edited(tmp_path: Path) -> None:
    remembered.save(tmp_path / "c.json", ViewState(), "dark")
    assert json.loads((tmp_path / "c.json").read_text())["sort"] == "risk"
