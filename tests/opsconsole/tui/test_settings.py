"""`[tui]` in the configuration: what it may say, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsconsole.errors import ConfigError
from opsconsole.tui.settings import TuiSettings, config_path, load, parse


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == TuiSettings()


def test_a_whole_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[tui]\ntheme = "cvd"\nglyphs = "ascii"\nutc = true\nproduction = ["prod-*"]\nsort = "kv"\nread_only = true\n'
        "bell = false\n"
        '[tui.keys]\nfilter = ["f"]\n'
    )
    found = load(path)
    assert (found.theme, found.glyphs, found.utc, found.production) == ("cvd", "ascii", True, ("prod-*",))
    assert (found.sort, found.read_only, found.bell, found.keys) == ("kv", True, False, {"filter": ("f",)})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"them": "dark"}, "[tui] them is not known"),
        ({"theme": "pink"}, "'pink' is not one of dark, light"),
        ({"utc": "yes"}, "must be true or false"),
        ({"production": "prod"}, "must be a list of words"),
        ({"columns": ["replica", "speed"]}, "'speed' is not one of replica"),
        ({"keys": {"fly": ["f"]}}, "fly is no action"),
        ({"keys": {"filter": ["o"]}}, "o would mean both filter and sort"),
        ({"keys": []}, "must be a table"),
    ],
)
def test_a_mistake_names_the_key_and_the_file(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.toml") as caught:
        parse(table, "some.toml")
    assert said in str(caught.value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[tui\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(path)


def test_the_file_is_looked_for_where_xdg_says() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/opsconsole/config.toml")
    assert config_path({"HOME": "/home/a"}) == Path("/home/a/.config/opsconsole/config.toml")
    assert config_path({"OPSCONSOLE_CONFIG": "/etc/o.toml"}) == Path("/etc/o.toml")


def test_the_file_that_config_init_writes_shows_every_key_with_a_value_that_is_accepted(tmp_path: Path) -> None:
    template = (Path(__file__).parents[3] / "opsconsole" / "commands" / "config_template.toml").read_text("utf-8")
    table = template.partition("[tui]\n")[2].partition("\n[")[0]
    path = tmp_path / "config.toml"
    path.write_text("[tui]\n" + "\n".join(line.removeprefix("# ") for line in table.splitlines()))
    assert load(path).production == ("prod-*",)
    shown = {line.removeprefix("# ").partition(" ")[0].partition(".")[0] for line in table.splitlines() if line}
    assert shown == set(TuiSettings.__slots__)
