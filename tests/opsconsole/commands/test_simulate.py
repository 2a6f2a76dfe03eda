"""`opsconsole simulate` at the command line: same bytes for the same seed, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from opsconsole.commands.forecast_source import read_history
from opsconsole.commands.simulate import app
from opsconsole.errors import ConfigError, UsageError

RUN = CliRunner()


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of a wave, re-created by name."""
    counts = np.random.default_rng(1).poisson(300 + 150 * np.sin(np.arange(720) / 80.0))
    path = tmp_path_factory.mktemp("load") / "wave.recon.csv"
    path.write_text("t_seconds,requests\n" + "".join(f"{10 * i},{n}\n" for i, n in enumerate(counts)))
    return path


def run(*words: str) -> str:
    result = RUN.invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_a_table_says_what_it_rests_on(load: Path, tmp_path: Path) -> None:
    page = tmp_path / "front.html"
    text = run("backtest", str(load), "--policy", "oracle,keda-epp", "--cold-start", "60s,120s", "--html", str(page))
    assert "wave.recon [RECON], cold start 60 s, estimated (fluid, 10 s bins)" in text
    assert "20.0 replicas" in text
    assert "no token counts: log-normal, mean 1000 prompt and 100 output tokens" in text
    assert "120 s cut to 60 s is worth" in text
    assert "<svg" in page.read_text()


def test_the_same_seed_gives_the_same_bytes(load: Path) -> None:
    words = ("backtest", str(load), "--policy", "oracle,predictive", "--cold-start", "60s", "-o", "json")
    first, second = run(*words), run(*words)
    assert first == second
    cells = json.loads(first)["tables"][0]["cells"]
    assert [cell["policy"] for cell in cells] == ["oracle", "predictive"]
    assert cells[0]["relative_to_oracle"] == 1.0
    assert {"attainment", "gpu_hours_starting", "streams_cut", "ttft_p99", "shortage_s"} <= set(cells[1])


def test_request_by_request_answers_with_the_same_record(load: Path) -> None:
    words = ("backtest", str(load), "--window", "0s,1200s", "--fleet", "2", "--policy", "static", "-o", "json")
    fluid, request = (json.loads(run(*words, "--fidelity", f))["tables"][0] for f in ("fluid", "request"))
    assert not request["estimated"]
    assert request["cells"][0]["gpu_hours"] == pytest.approx(fluid["cells"][0]["gpu_hours"], rel=0.03)
    assert abs(request["cells"][0]["attainment"] - fluid["cells"][0]["attainment"]) < 0.02


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(("--policy", "magic"), "policy 'magic' is unknown: use one of bound", id="policy"),
        pytest.param(("--cold-start", "soon"), "no duration", id="cold start"),
        pytest.param(("--fidelity", "exact"), "give fluid or request", id="fidelity"),
        pytest.param(("--target", "lots"), "is no share", id="target"),
        pytest.param(("--scale", "-1"), "must be above 0", id="scale"),
        pytest.param(("--fleet", "0"), "must be 1 or more", id="fleet"),
        pytest.param(("--fleet", "1e9"), "more than the 10,000 replicas", id="endless fleet"),
        pytest.param(("--scale", "1e9"), "replicas at its peak: give a smaller --scale", id="endless demand"),
        pytest.param(("--html", "/no/such/folder/x.html"), "there is no folder /no/such/folder", id="page"),
        pytest.param(("--html", "/"), "--html / is a folder: name a file in it", id="page's folder"),
        pytest.param(("--cache", "/dev/null/x"), "--cache /dev/null/x cannot be used", id="drawer"),
        pytest.param(("--window", "5s"), "give FROM,TO", id="window"),
        pytest.param(("--window", "0s,60s"), "needs 600 s or more", id="too short"),
        pytest.param(("--output", "csv"), "give table or json", id="output"),
    ],
)
def test_bad_options_are_sentences(load: Path, words: tuple[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run("backtest", str(load), *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(("--ttft", "0s"), "SLO ttft is 0 s: set it above 0 s", id="bound"),
        pytest.param(("--minimum", "9", "--maximum", "3"), "minimum 9 is above maximum 3", id="limits"),
    ],
)
def test_impossible_settings_are_sentences_before_any_load_is_read(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        run("backtest", "no-such-file.csv", "--policy", "static", *words)


def test_a_window_shorter_than_two_scrapes_is_told_by_the_name_that_was_typed() -> None:
    with pytest.raises(UsageError, match="--down-window 5s is shorter than the 15 s between two scrapes"):
        run("backtest", "no-such-file.csv", "--policy", "static", "--down-window", "5s")


def test_a_page_that_cannot_be_written_after_all_is_an_error_beside_the_report(load: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "gone" / "page.html")
    result = RUN.invoke(app, ["backtest", str(load), "--policy", "static", "--html", str(tmp_path / "page.html")])
    assert isinstance(result.exception, UsageError) and "cannot be written" in str(result.exception)
    assert "static" in result.stdout


@pytest.mark.parametrize(
    ("law", "window", "needed"),
    [
        ("predictive", "0s,1490s", "has to be 10: give 25 min"),
        ("dynamo-arima", "0s,2240s", "has to be 15: give 37.5 min"),
    ],
)
def test_a_law_whose_forecast_has_nothing_to_learn_from_is_refused(
    load: Path, law: str, window: str, needed: str
) -> None:
    words = ("--policy", f"static,{law}", "--window", window)
    with pytest.raises(UsageError, match=f"{law} learns from the first 40 % .* {needed} of trace or more") as told:
        run("backtest", str(load), *words)
    assert str(told.value).endswith(f"or leave {law} out of --policy.")
    with pytest.raises(UsageError, match=needed):
        run("agreement", str(load), *words)


def test_a_short_history_is_told_once_and_only_of_the_law_that_reads_it(load: Path) -> None:
    words = ("backtest", str(load), "--cold-start", "60s,120s", "--policy")
    text = run(*words, "static,predictive")
    assert text.count("short history: predictive learnt from 0.8 h of wave.recon [RECON]; below 15 h") == 1
    notes = [table["notes"] for table in json.loads(run(*words, "static,predictive", "-o", "json"))["tables"]]
    assert [len(some) for some in notes] == [1, 1]
    assert "short history" not in run(*words, "static")


def test_a_seed_below_zero_is_a_usage_error() -> None:
    result = RUN.invoke(app, ["backtest", "synthetic:bursts", "--seed", "-1"])
    assert result.exit_code == 2 and "greater than or equal to 0" in result.output


@pytest.mark.parametrize(
    "rows", ["0,1\n60,-2\n", "-60,1\n0,2\n", "0,1\n60,2\n30,3\n", "0,1\n60,many\n", "0,1\nnan,2\n"]
)
def test_a_bad_row_is_told_in_the_same_words_by_a_forecast(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(f"t_seconds,requests\n{rows}")
    with pytest.raises(UsageError) as told:
        run("backtest", str(path), "--policy", "static")
    with pytest.raises(UsageError) as said:
        read_history(str(path), "requests")
    assert str(said.value) == str(told.value)


def test_a_trace_whose_scored_part_is_silent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "early.csv"
    path.write_text("t_seconds,requests\n" + "".join(f"{10 * i},{int(i == 0)}\n" for i in range(100)))
    with pytest.raises(UsageError, match="early holds no requests in the last 60 %"):
        run("backtest", str(path), "--policy", "static")


def test_a_long_trace_request_by_request_names_the_limit() -> None:
    with pytest.raises(UsageError, match="request by request is for 6 h or less"):
        run("backtest", "synthetic:diurnal", "--fidelity", "request", "--policy", "static")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("agreement", "synthetic:diurnal", "--fleet", "nan"), "--fleet nan must be 1 or more"),
        (("agreement", "synthetic:diurnal", "--fleet", "0"), "--fleet 0 must be 1 or more"),
        (("agreement", "synthetic:diurnal", "--window", "0h,24h"), "request by request is for 6 h or less"),
        (("agreement", "synthetic:diurnal", "--policy", "magic"), "policy 'magic' is unknown"),
        (("proof", "/tmp", "--cold-start", ","), "a proof needs at least one --policy and one --cold-start"),
        (("proof", "/tmp", "--policy", ","), "a proof needs at least one --policy and one --cold-start"),
    ],
)
def test_what_cannot_be_compared_or_proved_is_a_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run(*words)


def test_the_token_that_is_typed_wins_over_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def asked(url: str, query: str, span: float, *, token: str) -> None:
        sent.append(token)
        raise UsageError("no server")

    monkeypatch.setattr("opsconsole.simulate.prometheus_history.read_prometheus", asked)
    monkeypatch.setenv("OPSCONSOLE_PROMETHEUS_TOKEN", "kept")
    for words in ((), ("--token", "typed")):
        with pytest.raises(UsageError, match="no server"):
            run("backtest", "prometheus:http://prom:9090", "--query", "q", "--policy", "static", *words)
    assert sent == ["kept", "typed"]


def test_an_address_without_its_kind_is_explained() -> None:
    with pytest.raises(UsageError, match="write prometheus:http://prom:9090 and give --query"):
        run("backtest", "http://prom:9090", "--policy", "static")


def test_a_proof_without_traces_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPSCONSOLE_TRACES", raising=False)
    with pytest.raises(UsageError, match="set OPSCONSOLE_TRACES"):
        run("proof")


def test_the_fidelities_agree_on_a_short_window() -> None:
    window = ("--window", "0s,1200s", "--fleet", "3", "--policy", "static", "--seeds", "2")
    row = run("agreement", "synthetic:diurnal", *window).splitlines()[1]
    assert row.endswith("yes") and " to " in row


def test_agreement_is_told_with_all_digits() -> None:
    window = ("--window", "0s,1200s", "--fleet", "3", "--policy", "static")
    found = json.loads(run("agreement", "synthetic:diurnal", *window, "-o", "json"))
    (row,) = found["rows"]
    assert (row["policy"], row["agrees"], len(row["request"]), len(row["fluid"])) == ("static", True, 1, 1)
    assert abs(row["points"]) <= found["bars"]["points"]


def test_a_proof_prints_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def proved(folder: Path, cache: Path, out: Path, *_: object) -> str:
        out.mkdir()
        (out / "proof.json").write_text('{"verdicts": []}\n')
        return "in words"

    monkeypatch.setattr("opsconsole.simulate.proof.run_proof", proved)
    words = ("proof", str(tmp_path), "--out")
    assert run(*words, str(tmp_path / "a"), "-o", "json") == '{"verdicts": []}\n'
    assert run(*words, str(tmp_path / "b")) == "in words\n"


@pytest.mark.parametrize("command", [("proof", "/tmp"), ("agreement", "synthetic:walk"), ("validate",)])
def test_an_output_that_there_is_not_is_refused_before_anything_is_run(command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--output csv: give text or json"):
        run(*command, "--output", "csv")
