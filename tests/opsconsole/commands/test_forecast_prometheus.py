"""A forecast from a real Prometheus server that holds three hours, and from answers that are none."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.clock import SystemClock
from opsconsole.commands.forecast_prometheus import Question, read_prometheus
from opsconsole.errors import UsageError
from opsconsole.observe.promql import Answer, PrometheusClient
from tests.opsconsole.observe.prometheus_server import scraping

HOURS, EVERY_S, RATE = 3, 15, 5.0
HOLE = (100 * 60.0, 110 * 60.0)  # seconds from the start, in which nothing was scraped
QUERY = 'sum(rate(vllm:prompt_tokens_total{pool="chat"}[1m]))'
run = CliRunner()


@pytest.fixture(scope="module")
def start() -> float:
    """Three hours ago, on a minute."""
    return (SystemClock().now() // 60) * 60 - HOURS * 3600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start: float) -> Iterator[str]:
    """A server whose database holds steady counters of two pools."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package `prometheus`)")
    folder = tmp_path_factory.mktemp("prometheus")
    lines = []
    for name, scale in (("vllm:time_to_first_token_seconds_count", 1.0), ("vllm:prompt_tokens_total", 100.0)):
        lines.append(f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'unknown'}")
        for pool, share in (("chat", 0.8), ("batch", 0.2)):
            for at in range(0, HOURS * 3600, EVERY_S):
                if not HOLE[0] <= at < HOLE[1]:
                    lines.append(f'{name}{{pool="{pool}"}} {RATE * scale * share * at:g} {start + at:.0f}')
    (folder / "metrics.txt").write_text("\n".join([*lines, "# EOF", ""]))
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "metrics.txt", "prometheus-data"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with scraping("global: {}\n", folder) as url:
        yield url


def said(*words: str) -> dict[str, object]:
    result = run.invoke(app, ["forecast", *words, "--output", "json"])
    assert result.exit_code == 0, (result.output, result.exception)
    found: dict[str, object] = json.loads(result.stdout)
    return found


def middle(found: dict[str, object]) -> list[float]:
    levels, rows = found["levels"], found["quantiles"]
    assert isinstance(levels, list) and isinstance(rows, list)
    return [row[levels.index(0.5)] for row in rows]


def test_the_whole_fleet_is_forecast_without_a_query_and_a_pool_by_one(server: str, start: float) -> None:
    end = str(start + HOURS * 3600 - 60)
    assert middle(said(server, "--at", end, "--history", "3h")) == pytest.approx([RATE] * 8, rel=0.01)
    found = said(server, "--at", end, "--history", "3h", "--query", QUERY)
    assert middle(found) == pytest.approx([400.0] * 8, rel=0.01)
    assert any("history is missing" in str(warning) for warning in found["warnings"])  # type: ignore[attr-defined]


def test_each_step_is_the_rate_before_it_and_a_hole_is_a_gap(server: str, start: float) -> None:
    asked = Question(server, QUERY, start + HOURS * 3600, HOURS * 3600.0, 60.0)
    series, warnings = read_prometheus(asked)
    assert warnings == () and series.step == 60.0
    by_minute = dict(zip((series.start + 60.0 * i - start for i in range(len(series))), series.known, strict=True))
    assert by_minute[99 * 60.0] and by_minute[112 * 60.0]
    assert not any(by_minute[minute * 60.0] for minute in range(102, 109))
    assert series.end == start + HOURS * 3600


def test_nothing_later_than_asked_for_is_read(server: str, start: float) -> None:
    series, _ = read_prometheus(Question(server, QUERY, start + 3600.0, 1800.0, 60.0))
    assert (series.end, len(series)) == (start + 3600.0, 30)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("rate(vllm:prompt_tokens_total[1m])", "2 series"),
        ("sum(rate(nothing_total[1m]))", "has nothing for"),
        ("sum(rate(", "parse error"),
        ("-sum(vllm:prompt_tokens_total)", "never negative"),
    ],
)
def test_what_is_no_load_is_refused_in_a_sentence(server: str, start: float, query: str, says: str) -> None:
    result = run.invoke(app, ["forecast", server, "--at", str(start + 3600), "--history", "1h", "--query", query])
    assert isinstance(result.exception, UsageError) and says in str(result.exception), result.output


def test_no_server_no_whole_step_and_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for words, says in (
        (["http://127.0.0.1:1"], "nothing answers"),
        (["http://127.0.0.1:1", "--step", "1500ms"], "whole seconds"),
        (["http://127.0.0.1:1", "--pool", "chat"], "by a label"),
        (["http://127.0.0.1:1", "--unit", "apples"], "unknown"),
        ([str(tmp_path / "trace.csv"), "--query", "up"], "for a Prometheus URL"),
    ):
        result = run.invoke(app, ["forecast", *words])
        assert isinstance(result.exception, UsageError) and says in str(result.exception), (words, result.output)


def lying(monkeypatch: pytest.MonkeyPatch, points: list[tuple[float, float]]) -> Question:
    """A question of an hour to a server that answers with these points."""

    async def answer(self: PrometheusClient, query: str, start: float, end: float, step: float) -> Answer:
        return Answer((({}, tuple(points)),))

    monkeypatch.setattr(PrometheusClient, "range", answer)
    return Question("http://127.0.0.1:1", "up", 7200.0, 3600.0, 60.0)


def test_what_a_server_sends_beyond_the_question_is_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [(60.0 * i, 2.0) for i in range(1, 121)]
    later = [(60.0 * i, 9_999.0) for i in range(121, 200)]
    series, _ = read_prometheus(lying(monkeypatch, points + later))
    assert (series.start, series.end) == (3600.0, 7200.0)
    assert set(series.values.tolist()) == {2.0}


@pytest.mark.parametrize("step", [-1, 0])
def test_points_out_of_order_are_told(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    points = [(7200.0 + step * 60.0 * i, 2.0) for i in range(20)]
    with pytest.raises(UsageError, match="answers up out of order: row 2"):
        read_prometheus(lying(monkeypatch, points))
