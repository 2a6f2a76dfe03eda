"""`opsconsole forecast` over traces: right on good files, one sentence on bad ones, blind to what comes later."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.commands.forecast_source import read_history
from opsconsole.commands.forecast_text import number
from opsconsole.control.journal import Journal
from opsconsole.domain.records import FleetSnapshot, PoolView
from opsconsole.domain.wire import dumps
from opsconsole.errors import UsageError
from opsconsole.history.store import Store
from opsconsole.simulate.importers import read_trace

run = CliRunner()


def trace(path: Path, minutes: int = 300, step: int = 10, later: float = 1.0) -> Path:
    """Counts around 5 a second; those of the last hour times `later`."""
    random = np.random.default_rng(2)
    n = minutes * 60 // step
    counts = random.poisson(5.0 * step, n).astype(float)
    counts[-3600 // step :] *= later
    lines = ["t_seconds,requests,prompt_tokens", *(f"{i * step},{c:g},{c * 100:g}" for i, c in enumerate(counts))]
    data = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data.encode()))
    else:
        path.write_text(data)
    return path


def refused(*arguments: str) -> str:
    result = run.invoke(app, ["forecast", *arguments])
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_text_shows_plot_quantiles_and_backtest(tmp_path: Path) -> None:
    result = run.invoke(app, ["forecast", str(trace(tmp_path / "a.csv.gz"))])
    assert result.exit_code == 0, result.output
    assert "Forecast of requests/s" in result.output and "skill vs last value" in result.output
    assert "░" in result.output and "now" in result.output


def test_json_is_complete_and_near_the_truth(tmp_path: Path) -> None:
    result = run.invoke(app, ["forecast", str(trace(tmp_path / "a.csv")), "--output", "json"])
    said = json.loads(result.output)
    middle = said["levels"].index(0.5)
    assert all(4.5 < row[middle] < 5.5 for row in said["quantiles"])
    assert {lead["lead"] for lead in said["backtest"]["leads"]} >= {120.0, 300.0, 600.0}


def test_nothing_later_than_the_moment_asked_for_is_read(tmp_path: Path) -> None:
    calm, wild = trace(tmp_path / "a.csv"), tmp_path / "b.csv"
    lines = calm.read_text().splitlines()
    wrong = tmp_path / "c.csv"
    wild.write_text("\n".join([*lines[: 1 + 4 * 360], "14400,99999,1", "this is no row"]) + "\n")
    wrong.write_text("\n".join([*lines[: 1 + 4 * 360], "14400,-3,many"]) + "\n")
    outputs = [
        json.loads(run.invoke(app, ["forecast", str(p), "--at", "14400", "--output", "json"]).output)
        for p in (calm, wild, wrong)
    ]
    for said in outputs:
        said.pop("source")
    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0]["at"] == 14400.0


def test_a_spreadsheets_mark_before_the_first_name_is_no_part_of_it(tmp_path: Path) -> None:
    plain = trace(tmp_path / "a.csv", minutes=20)
    marked = tmp_path / "b.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    assert np.array_equal(
        read_history(str(marked), "requests").series.values, read_history(str(plain), "requests").series.values
    )
    assert np.array_equal(read_trace(marked).requests, read_trace(plain).requests)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.12345, "0.123"), (999.9, "1e+03"), (1234.5, "1234"), (12345678.0, "12345678"), (3e15, "3e+15")],
)
def test_a_number_fits_its_column_whatever_its_size(value: float, shown: str) -> None:
    assert number(value) == shown
    assert len(number(1.7e308)) < 10


def test_rolling_writes_every_origin_lead_and_quantile(tmp_path: Path) -> None:
    arguments = ["--rolling", "--step", "60s", "--leads", "2m,5m,10m", "--quantiles", ".5,.9,.99", "--output", "csv"]
    result = run.invoke(app, ["forecast", str(trace(tmp_path / "a.csv", minutes=60)), *arguments])
    rows = list(csv.DictReader(io.StringIO(result.output)))
    assert len(rows) == 60 * 3 * 3
    assert rows[0]["origin"] == "60" and rows[-1]["origin"] == "3600"
    assert {row["lead"] for row in rows} == {"120", "300", "600"}
    assert all(float(row["value"]) >= 0 for row in rows)


def test_requests_one_a_row_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("t_seconds,prompt_tokens,output_tokens\n" + "".join(f"{i * 0.5},100,7\n" for i in range(4000)))
    said = json.loads(run.invoke(app, ["forecast", str(path), "--output", "json"]).output)
    assert said["quantiles"][0][said["levels"].index(0.5)] == pytest.approx(2.0)
    tokens = json.loads(run.invoke(app, ["forecast", str(path), "--unit", "output_tokens", "-o", "json"]).output)
    assert tokens["quantiles"][0][tokens["levels"].index(0.5)] == pytest.approx(14.0)


def test_rates_of_clients_add_up_to_the_load(tmp_path: Path) -> None:
    path = tmp_path / "m.client_rate10min.csv"
    path.write_text("t_seconds,client_0,client_7\n" + "".join(f"{i * 600},1.5,{i % 2 or ''}\n" for i in range(20)))
    found = read_history(str(path), "requests")
    assert found.series.step == 600.0
    assert found.series.values.tolist() == [1.5, 2.5] * 10
    assert found.series.values.mean() == pytest.approx(read_trace(path).requests.mean() / 600.0)
    assert "no column output_tokens: give --unit requests" in refused(str(path), "--unit", "output_tokens")


def test_coefficients_of_variation_are_no_load(tmp_path: Path) -> None:
    path = tmp_path / "m.client_cv10min.csv"
    path.write_text("t_seconds,client_0\n" + "".join(f"{i * 600},1\n" for i in range(20)))
    assert "m.client_cv10min.csv holds coefficients of variation" in refused(str(path))


def begun(path: Path, start: float, *, single: bool) -> Path:
    """Two requests a second for an hour, from `start` on, in rows of one request or of ten seconds."""
    rows = (
        [f"{start + i * 0.5:.1f},100" for i in range(7200)] if single else [f"{start + i * 10},20" for i in range(360)]
    )
    path.write_text("\n".join([f"t_seconds,{'prompt_tokens' if single else 'requests'}", *rows]) + "\n")
    return path


@pytest.mark.parametrize("single", [True, False])
def test_a_trace_counts_from_its_own_start_whenever_that_is(tmp_path: Path, single: bool) -> None:
    late = begun(tmp_path / "late.csv", 100_000.0, single=single)
    for until, seconds in ((None, 3540.0 if single else 3600.0), (1800.0, 1800.0)):
        found = read_history(str(late), "requests", until=until)
        assert (found.series.start, found.series.end, found.clock) == (0.0, seconds, False)
        assert set(found.series.values.tolist()) == {2.0}


@pytest.mark.parametrize("single", [True, False])
def test_unix_times_stay_what_they_are_and_may_be_asked_for_in_words(tmp_path: Path, single: bool) -> None:
    path = begun(tmp_path / "unix.csv", 1.7e9, single=single)
    said = [
        json.loads(run.invoke(app, ["forecast", str(path), "--at", at, "-o", "json"]).output)
        for at in ("1700001600", "2023-11-14T22:40:00Z")
    ]
    assert said[0] == said[1]
    assert said[0]["at"] == 1.7e9 + 1560  # the last whole minute
    assert "no rows before 3600 s (it begins at 1700000000 s)" in refused(str(path), "--at", "3600")
    assert "unix.csv ends at 2023-11-1" in refused(str(path), "--at", "2023-11-17T00:00:00Z")


def test_a_moment_after_the_end_is_refused_with_the_end(tmp_path: Path) -> None:
    for single in (True, False):
        path = begun(tmp_path / "a.csv", 0.0, single=single)
        assert refused(str(path), "--at", "100000").endswith("a.csv ends at 3600 s.")
        assert run.invoke(app, ["forecast", str(path), "--at", "3600"]).exit_code == 0
    data = database(tmp_path / "a.db", 120)
    assert "a.db ends at 2027-01-1" in refused(str(data), "--at", str(1.8e9 + 9 * 3600))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("", "no column t_seconds"),
        ("t_seconds,requests\n", "at least 10 minutes"),
        ("t_seconds,requests\n0,1\n60,2\n30,3\n", "row 3"),
        ("t_seconds,requests\n0,1\n60,-2\n", "row 2"),
        ("t_seconds,requests\n-60,1\n0,2\n", "row 1"),
        ("t_seconds,requests\n0,1\n60,many\n", "row 2"),
        ("t_seconds,requests\n0,1\n60,2\n75,2\n135,2\n", "grid"),
        ("t_seconds,requests\n0,1\n60,1e308\n", "row 2"),
        ("t_seconds,requests\n0,1\n1,1\n2,1\n1e9,1\n", "spans 1000000001 bins of 1 s"),
        ("t_seconds,prompt_tokens\n0,1\n1e300,1\n", "bins of 60 s and at most 5000000"),
        ("t_seconds,client_0\n0,1\n60,-2\n", "row 2"),
        ("t_seconds,requests\n0,1\n60,2\n120,2\n", "3.0 min of history; a forecast needs 10"),
    ],
)
def test_a_bad_trace_is_refused_by_name_and_row(rows: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(rows)
    said = refused(str(path))
    assert "bad.csv" in said and says in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--at", "120"], "needs 10"),
        (["--at", "2026-11-30T14:00:00Z"], "seconds from its own start"),
        (["--at=-100"], "give 0 or more of them"),
        (["--unit", "joules"], "joules"),
        (["--unit", "output_tokens"], "no column output_tokens"),
        (["--output", "csv"], "text or json"),
        (["--rolling", "--leads", "5h"], "1200"),
        (["--leads", "2m"], "--leads 2m goes with --rolling"),
        (["--quantiles", ".9"], "--quantiles .9 goes with --rolling"),
        (["--rolling", "--quantiles", ".5,1.5"], "0.995"),
        (["--rolling", "--step", "5s"], "10s or more"),
        (["--step", "25s"], "no whole multiple"),
        (["--time-scale", "0"], "above 0"),
        (["--time-scale", "1e9"], "give 360 or less"),
        (["--pool", "chat"], "--pool is for an agent's database"),
    ],
)
def test_an_impossible_wish_is_refused_with_what_is_possible(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in refused(str(trace(tmp_path / "a.csv", minutes=30)), *arguments)


def test_damaged_gzip_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.csv.gz")
    path.write_bytes(path.read_bytes()[:500])
    assert "cannot be read" in refused(str(path))
    assert "does not exist" in refused(str(tmp_path / "none.csv"))


def database(path: Path, minutes: int, pool: str = "chat", later: int = 0) -> Path:
    """Five requests a second, every third ten minutes seen by half; then `later` minutes of more."""
    store = Store(path)
    journal = Journal(store)
    for tick in range(minutes + later):
        at, whole = 1.8e9 + 60.0 * tick, tick // 10 % 3 < 2
        rate = 500.0 if tick >= minutes else 5.0 + (tick % 7) / 10 if whole else 2.5
        seen = FleetSnapshot(tick + 1, at, "f", "advise", (), (PoolView(pool, covered=whole, request_rate=rate),), ())
        journal.write(seen, (), (), {}, dumps(seen))
    store.close()
    return path


def test_demand_that_was_not_seen_whole_is_a_gap_in_a_database(tmp_path: Path) -> None:
    found = read_history(str(database(tmp_path / "a.db", 120)), "requests").series
    assert found.known.mean() == pytest.approx(2 / 3, abs=0.05)
    assert found.values[found.known].min() >= 5.0


def test_nothing_later_than_the_moment_asked_for_is_read_from_a_database(tmp_path: Path) -> None:
    short, long = database(tmp_path / "a.db", 120), database(tmp_path / "b.db", 120, later=30)
    at = str(1.8e9 + 119 * 60)
    said = [json.loads(run.invoke(app, ["forecast", str(p), "--at", at, "-o", "json"]).output) for p in (short, long)]
    assert [s.pop("source") for s in said] == ["a.db", "b.db"]
    assert said[0] == said[1]
    assert said[0]["at"] == 1.8e9 + 119 * 60


def test_a_pool_that_a_database_lacks_is_named_with_those_it_has(tmp_path: Path) -> None:
    assert "no pool code: it holds chat" in refused(str(database(tmp_path / "a.db", 20)), "--pool", "code")
