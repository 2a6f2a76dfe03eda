"""`opsconsole explain` on a database: which decisions are shown, and what is said where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from opsconsole.commands.explain import explain
from opsconsole.commands.moments import shown
from opsconsole.domain.records import DecisionView, FleetSnapshot, PoolView
from opsconsole.errors import UsageError
from opsconsole.history.store import DecisionRow, Store

START = 1_700_000_040.0
MOVES = {"chat": (20, 50), "code": (50,), "idle": ()}
APP = typer.Typer()
APP.command()(explain)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A minute of three pools that move at the seconds above."""
    store = Store(tmp_path / "o.db")
    for i in range(60):
        at = START + i
        made = [DecisionView(at, pool, 2, 3 if i in when else 2, "queue", "why") for pool, when in MOVES.items()]
        pools = tuple(PoolView(pool) for pool in MOVES)
        store.write_tick(FleetSnapshot(i + 1, at, "t", "act", pools=pools), [DecisionRow(d) for d in made])
    store.close()
    return tmp_path / "o.db"


def told(*words: str) -> list[tuple[float, str]]:
    """When, and which pool's."""
    result = CliRunner().invoke(APP, [*words, "--output", "json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return [(one["at"] - START, one["decision"]["pool"]) for one in json.loads(result.stdout)]


def test_the_last_move_comes_without_pools_that_stood_still(database: Path) -> None:
    where = ("--db", str(database))
    assert told(*where, "--at", str(START + 30)) == [(30, "chat"), (30, "code"), (30, "idle")]
    assert told(*where, "--moved") == [(50, "chat"), (50, "code")]
    assert told(*where, "--moved", "--at", str(START + 40)) == [(20, "chat")]
    assert told(*where, "--moved", "--pool", "code") == [(50, "code")]


def test_where_nothing_moved_the_reach_of_the_file_is_said(database: Path) -> None:
    reach = f"{database} reaches from {shown(START)} to {shown(START + 59)}."
    with pytest.raises(UsageError) as early:
        told("--db", str(database), "--moved", "--at", str(START + 10))
    assert str(early.value) == f"No decision before {shown(START + 10)} changed anything; {reach}"
    with pytest.raises(UsageError) as idle:
        told("--db", str(database), "--moved", "--at", str(START + 59), "--pool", "idle")
    assert str(idle.value) == f"No decision for pool 'idle' before {shown(START + 59)} changed anything; {reach}"


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--moved",), "--moved reads a database"), (("--db", "x.db"), "--db reads a database")],
)
def test_what_an_agent_elsewhere_cannot_be_asked_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        told("--attach", "http://elsewhere:9400", *words)
