"""Loads from files as others lay them out, and errors that name the row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from opsconsole.errors import UsageError
from opsconsole.simulate.importers import read_trace
from opsconsole.simulate.traces import Kind


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_equal_bins_with_tokens_are_read(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.agg10s.csv.gz",
        "t_seconds,requests,prompt_tokens,output_tokens\n0,2,200,20\n10,0,0,0\n20,4,1000,40\n",
    )
    trace = read_trace(file)
    assert trace.kind is Kind.REAL
    assert trace.step == 10.0
    assert trace.requests.tolist() == [2, 0, 4]
    assert trace.prompt is not None
    assert trace.prompt.tolist() == [200, 0, 1000]
    assert trace.name == "a.agg10s"


def test_a_trace_called_recon_is_labelled_so(tmp_path: Path) -> None:
    file = write(tmp_path / "m.recon_agg10s.csv", "t_seconds,requests\n0,1\n10,1\n")
    assert read_trace(file).label == "m.recon_agg10s [RECON]"


def test_bins_without_tokens_say_so(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.csv", "t_seconds,wall_clock,requests\n0,x,5\n300,x,6\n600,x,7\n"))
    assert not trace.has_tokens
    assert trace.step == 300.0


def test_columns_of_clients_are_rates_that_add_up(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.csv", "t_seconds,client_0,client_1\n0,0.5,0.25\n600,1,\n"))
    assert trace.requests.tolist() == [450.0, 600.0]


def test_columns_of_clients_are_not_added_to_a_count_of_their_requests(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.csv", "t_seconds,requests,client_0\n0,5,9\n600,7,9\n"))
    assert trace.requests.tolist() == [5.0, 7.0]


def test_a_column_that_names_the_client_of_a_request_is_no_rate(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.csv", "t_seconds,prompt_tokens,output_tokens,client_id\n0,5,9,x\n6,7,9,y\n"))
    assert trace.single is not None


def test_coefficients_of_variation_are_no_rates(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.client_cv10min\.csv holds coefficients of variation"):
        read_trace(write(tmp_path / "a.client_cv10min.csv", "t_seconds,client_0\n0,1\n600,1\n"))


def test_bins_that_were_not_recorded_are_silence_and_the_name_says_how_many(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.recon.csv", "t_seconds,requests\n0,5\n10,5\n20,5\n50,5\n60,5\n"))
    assert trace.requests.tolist() == [5, 5, 5, 0, 0, 5, 5]
    assert trace.label == "a.recon (2 of 7 bins missing, taken as silence) [RECON]"


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:14.0,110,0\n"
AZURE_2024 = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
AZURE_2024 += "2024-05-10 02:00:10+02:00,2399,6\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
BURST += "45,GPT-4,1087,230,1317,API log\n"
OWN = "t_seconds,prompt_tokens,output_tokens,hash_ids\n0.5,600,5,7 8\n1.0,600,6,7 9\n"


@pytest.mark.parametrize(
    ("text", "times", "prompts", "outputs"),
    [
        pytest.param(AZURE, [0.0, 10.02004], [4808, 110], [10, 1], id="Azure: a failed answer still costs its prompt"),
        pytest.param(AZURE_2024, [0.0, 9.99007], [2162, 2399], [5, 6], id="Azure's later files tell the zone"),
        pytest.param(BURST, [0.0, 40.0], [472, 1087], [18, 230], id="BurstGPT"),
        pytest.param(OWN, [0.0, 0.5], [600, 600], [5, 6], id="single requests with prefix blocks"),
    ],
)
def test_single_requests_are_read(
    tmp_path: Path, text: str, times: list[float], prompts: list[int], outputs: list[int]
) -> None:
    trace = read_trace(write(tmp_path / "a.csv", text))
    assert trace.single is not None
    assert trace.single.times.tolist() == pytest.approx(times, abs=1e-4)
    assert trace.single.prompt.tolist() == prompts
    assert trace.single.output.tolist() == outputs
    assert trace.requests.sum() == len(times)


def test_mooncake_lines_keep_their_blocks(tmp_path: Path) -> None:
    lines = [
        {"timestamp": 0, "input_length": 1000, "output_length": 50, "hash_ids": [1, 2]},
        {"timestamp": 3000, "input_length": 2000, "output_length": 60, "hash_ids": [1, 3]},
    ]
    trace = read_trace(write(tmp_path / "m.jsonl", "\n".join(map(json.dumps, lines))))
    assert trace.single is not None
    assert trace.single.blocks == ((1, 2), (1, 3))
    assert trace.single.times.tolist() == [0.0, 3.0]


def test_a_servegen_directory_is_re_created_with_its_rates_and_lengths(tmp_path: Path) -> None:
    folder = tmp_path / "m-tiny"
    folder.mkdir()
    write(folder / "chunk-0-trace.csv", "".join(f"{600 * i},10,1.0,Gamma,1,1\n" for i in range(20)))
    write(folder / "chunk-1-trace.csv", "".join(f"{600 * i},5,3.0,Gamma,1,1\n" for i in range(20)))
    for number, length in ((0, 100), (1, 400)):
        table = {"0": {"input_tokens": f"{{{length}: 1.0}}", "output_tokens": "{20: 0.5, 40: 0.5}"}}
        write(folder / f"chunk-{number}-dataset.json", json.dumps(table))
    trace = read_trace(folder)
    again = read_trace(folder)
    assert trace.kind is Kind.RECON
    assert trace.prompt is not None
    assert trace.output is not None
    assert trace.requests.mean() / 10 == pytest.approx(15.0, rel=0.05)
    assert trace.prompt.sum() / trace.requests.sum() == pytest.approx(200.0, rel=0.1)
    assert trace.output.sum() / trace.requests.sum() == pytest.approx(30.0)
    # 100 requests a bin at cv 1 and 50 at cv 3: the variance is 100 x 1 + 50 x 9.
    assert trace.requests.var() == pytest.approx(550.0, rel=0.25)
    assert np.array_equal(trace.requests, again.requests)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param("0,1,1\n600,nan,1\n", "row 2: 600,nan,1 must not be negative or endless", id="unknown rate"),
        pytest.param("0,1,1\n600,2,inf\n", "row 2: 600,2,inf must not be", id="endless burstiness"),
        pytest.param("0,1,1\n600,2,-3\n", "row 2: 600,2,-3 must not be", id="negative burstiness"),
        pytest.param("0,1e300,1\n600,2,1\n", r"row 1: 0,1e\+300,1 must not be", id="endless rate"),
        pytest.param("0,1,1\n600,2,1\n1800,2,1\n", "of equal lengths", id="a window is missing"),
        pytest.param("0,1,1\n604,2,1\n", "of equal lengths that 10 s divide", id="windows of odd seconds"),
        pytest.param("0,1,1\n-600,2,1\n", "row 2: -600,2,1 must not be", id="before the start"),
        pytest.param("600,1,1\n0,2,1\n", "one after another", id="unsorted"),
        pytest.param("0,1,1\n", "needs two windows or more", id="one window"),
        pytest.param("0,1,1\n1e9,1,1\n", "spans 200000000 bins of 10 s and at most 5000000", id="endless windows"),
        pytest.param(f"0,{'1' * 200_000},1\n", "cannot be read", id="endless number"),
        pytest.param("0,many,1\n", "row 1: '0,many,1' is not time, rate, cv", id="no number"),
    ],
)
def test_a_servegen_client_that_cannot_be_is_named(tmp_path: Path, rows: str, words: str) -> None:
    write(tmp_path / "chunk-0-trace.csv", rows)
    with pytest.raises(UsageError, match=words):
        read_trace(tmp_path)


LENGTHS = '{"0": {"input_tokens": "%s", "output_tokens": "{5: 1}"}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{}", "it has none", id="no window"),
        pytest.param("[]", "it has none", id="a list"),
        pytest.param('{"0": {}}', "a window has no 'input_tokens'", id="no lengths"),
        pytest.param('{"0": []}', "is no ServeGen data set", id="a list for a window"),
        pytest.param('{"-600": {}}', "start of -600 must not", id="before the start"),
        pytest.param('{"0": {"input_tokens": [1, 2]}}', "does not give lengths their weights", id="a list of lengths"),
        pytest.param('{"0": {"input_tokens": 7}}', "'7' does not give lengths", id="a number for lengths"),
        pytest.param(LENGTHS % "{10: 1e400}", "a weight of inf must not be", id="endless weight"),
        pytest.param(LENGTHS % "{10: -1}", "a weight of -1 must not be", id="negative weight"),
        pytest.param(LENGTHS % "{-10: 1}", "a length of -10 must not be", id="negative length"),
        pytest.param(LENGTHS % "{10: [1]}", "is no ServeGen data set", id="a list for a weight"),
        pytest.param(LENGTHS % ("(" * 5000), "is no ServeGen data set", id="deep"),
        pytest.param("[" * 200_000, "is no ServeGen data set", id="deep JSON"),
    ],
)
def test_lengths_of_a_servegen_client_that_cannot_be_are_named(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path / "chunk-0-trace.csv", "0,1,1\n600,1,1\n")
    write(tmp_path / "chunk-0-dataset.json", text)
    with pytest.raises(UsageError, match=words) as told:
        read_trace(tmp_path)
    assert "chunk-0-dataset.json" in str(told.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("t_seconds,requests\n0,1\n10,2\n5,3\n", "row 3: time 5 s comes after 10 s", id="unsorted"),
        pytest.param("t_seconds,requests\n-10,1\n0,2\n", "row 1: time -10 s must not be negative", id="negative time"),
        pytest.param("t_seconds,requests\n0,1\n10,-2\n", "row 2: a count of -2 must not", id="negative count"),
        pytest.param("t_seconds,requests\n0,1\n10,two\n", "row 2: '10,two' is not numbers", id="no number"),
        pytest.param("t_seconds,requests\n0,1\n10,1\n20,1\n27,1\n", "row 4: t_seconds 27 is not on", id="off the grid"),
        pytest.param("when,what\n0,1\n", "which is no layout known here", id="unknown layout"),
        pytest.param("t_seconds,requests\n", "has 0 rows", id="empty"),
        pytest.param(
            "t_seconds,prompt_tokens,output_tokens\n0,-5,1\n",
            "row 1: a count of -5 must not be negative",
            id="negative tokens",
        ),
        pytest.param(
            "t_seconds,prompt_tokens,output_tokens\n0,1e18,1\n", r"row 1: 1e\+18 tokens are no request", id="no request"
        ),
        pytest.param("t_seconds,requests\n0,1\n10,1e308\n", r"row 2: a count of 1e\+308 must not", id="huge count"),
        pytest.param("t_seconds,requests\n0,1\n1e13,2\n", r"spans 2e\+12 bins of 10 s", id="few bins of ages"),
        pytest.param("t_seconds,requests\n0,1\n1e300,2\n", r"spans 2e\+299 bins of 10 s", id="endless bins"),
        pytest.param(
            "t_seconds,requests\n0,1\n.001,1\n.002,1\n9999,2\n", "spans 9999001 bins of 0.001 s", id="fine bins"
        ),
        pytest.param("t_seconds,client_0,client_1\n0,1,1\n600,-1,3\n", "row 2: a count of -1 must", id="negative rate"),
        pytest.param("t_seconds,prompt_tokens,output_tokens\n0,1,1\n1e300,1,1\n", "bins of 10 s and", id="ages apart"),
        pytest.param('{"timestamp": 1}\n', "line 1: .* is no request", id="broken JSON line"),
        pytest.param('{"timestamp": 1, "input_length": 1e400, "output_length": 1}', "line 1: .* is no", id="endless"),
        pytest.param(
            '{"timestamp": 1, "input_length": 1' + "0" * 400 + ', "output_length": 1}', "line 1: .* is no", id="long"
        ),
        pytest.param('{"timestamp": ' + "[" * 200_000, "line 1: .* is no request", id="deep JSON line"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_trace(write(tmp_path / "a.csv", text))


def test_a_broken_archive_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"t_seconds,requests\n0,1\n10,2\n")[:-12])
    with pytest.raises(UsageError, match=r"a\.csv\.gz cannot be read as a trace"):
        read_trace(path)


def test_a_missing_file_says_what_may_be_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist: give a trace's file"):
        read_trace(tmp_path / "none.csv")


def test_a_directory_without_clients_is_no_servegen_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is no ServeGen directory"):
        read_trace(tmp_path)
