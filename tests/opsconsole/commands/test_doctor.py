"""`opsconsole doctor`: files as scrapes of one replica, addresses as replicas, words for what is missing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from opsconsole.cli import app
from opsconsole.errors import UsageError

PAGES = Path(__file__).parents[2] / "data" / "pages"
IDLE, SERVED = str(PAGES / "vllm-0.32.0-idle.txt"), str(PAGES / "vllm-0.32.0-served.txt")


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def report(*arguments: str) -> Any:
    return json.loads(doctor(*arguments, "--output", "json").stdout)


def test_a_page_of_a_real_vllm_is_read_whole() -> None:
    found = report(SERVED)
    # three requests of five prompt tokens each, thirty tokens out
    assert (found["engine"], found["model"], found["versions"], found["ranks"]) == ("vllm", "m", ">=0.32", 1)
    assert (found["prompt_tokens"], found["generation_tokens"], found["finished_total"]) == (15, 90, 3)
    assert found["finished"] == {"stop": 3, "length": 0, "abort": 0, "error": 0, "repetition": 0}
    assert (found["running"], found["waiting"], found["kv_usage"]) == (0, 0, 0)
    assert (found["block_size"], found["num_blocks"], found["kv_capacity_tokens"]) == (128, 728, 93184)
    assert found["ttft"]["count"] == 3 and found["tpot_mean"] == pytest.approx(0.0316, rel=0.01)
    assert found["missing"] == {} and found["flags"] == [] and found["error"] is None


def test_an_idle_page_has_zeros_where_zero_is_known_and_unknown_latencies() -> None:
    found = report(IDLE)
    assert (found["running"], found["finished_total"]) == (0, 0)
    assert (found["ttft_mean"], found["ttft_p50"]) == (None, None)


def test_a_page_of_a_real_llama_server_tells_tokens_and_says_what_it_does_not_tell() -> None:
    # three completions of 14 prompt tokens and 8 answered ones each; twice 6 of the prompt were cached
    found = report(str(PAGES / "llamacpp-0.5.0-dev-served.txt"))
    assert (found["engine"], found["flags"], found["bad_lines"]) == ("llamacpp", [], [])
    assert (found["prompt_tokens"], found["prompt_tokens_computed"], found["generation_tokens"]) == (42, 30, 24)
    assert (found["prefix_hits"], found["prefix_queries"]) == (12, 42)
    assert (found["waiting"], found["running"]) == (0, 0)
    assert found["missing"].keys() >= {"kv_usage", "ttft", "tpot", "e2e"}
    idle = report(str(PAGES / "llamacpp-0.5.0-dev-idle.txt"))
    assert (idle["prompt_tokens"], idle["generation_tokens"]) == (0, 0)


@pytest.mark.parametrize(
    "times", [("--times", "100,110"), ("--times", "100 110"), ("--times", "100", "--times", "110")]
)
def test_two_files_with_times_give_rates(times: tuple[str, ...]) -> None:
    found = report(IDLE, SERVED, *times)
    assert found["completion_rate"] == pytest.approx(0.3)
    assert found["generation_tokens_per_s"] == pytest.approx(9.0)
    assert found["increases"]["prompt_tokens"] == 15


def test_without_times_rates_are_unknown_and_increases_are_not() -> None:
    found = report(IDLE, SERVED)
    assert found["completion_rate"] is None and found["increases"]["generation_tokens"] == 90


def test_the_text_says_what_was_read_and_from_where() -> None:
    done = doctor(SERVED)
    assert done.exit_code == 0
    for words in ("vLLM, version >=0.32", "vllm_num_requests_waiting", "ttft", "93,184"):
        assert words in done.stdout


def test_the_text_says_what_is_unknown_and_why(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("# TYPE tgi_queue_size gauge\ntgi_queue_size 7\ntgi_batch_current_size x\n")
    done = doctor(str(page))
    assert "a line of it could not be read" in done.stdout or "batch_current_size" in done.stdout
    assert "Hugging Face TGI does not tell it" in done.stdout
    assert "3: tgi_batch_current_size x" in done.stdout


@pytest.mark.parametrize(
    ("body", "error"), [(b"", "empty"), (b"[]", "not_exposition"), (b"<html></html>", "not_exposition"),
     (b"\xff\xfe", "not_exposition")]
)  # fmt: skip
def test_what_is_no_page_is_an_error_and_exit_one(tmp_path: Path, body: bytes, error: str) -> None:
    page = tmp_path / "page"
    page.write_bytes(body)
    done = doctor(str(page), "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["error"] == error and found["engine"] is None and found["running"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((SERVED, "--output", "yaml"), "text or json"),
        ((IDLE, SERVED, "--times", "1"), "1 times for 2 files"),
        ((IDLE, SERVED, "--times", "2,1"), "backwards"),
        ((IDLE, "--times", "x"), "give seconds"),
        (("/no/such/file",), "cannot be read"),
        (("127.0.0.1:1", "--header", "nonsense"), "Name: value"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], words: str) -> None:
    done = doctor(*arguments)
    assert isinstance(done.exception, UsageError) and words in str(done.exception)


@pytest.fixture
def replica() -> Iterator[str]:
    """A server that gives the served page to who has the token."""
    with serving(lambda headers: headers.get("Authorization") == "Bearer t") as place:
        yield place


@contextmanager
def serving(allows: Callable[[Message], bool]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = allows(self.headers)
            body = Path(SERVED).read_bytes() if allowed else b""
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_asked_with_the_headers_given(replica: str) -> None:
    assert report(replica)["error"] == "auth"
    found = report(
        f"http://{replica}/metrics", "--header", "Authorization: Bearer t", "--scrapes", "2", "--every", "0.1"
    )
    assert (found["engine"], found["pages"], found["completion_rate"]) == ("vllm", 2, 0.0)


def test_several_addresses_are_several_reports(replica: str) -> None:
    found = report(replica, "127.0.0.1:1", "--timeout", "2")
    assert [entry["error"] for entry in found] == ["auth", "refused"]


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "page.txt").write_text(text)
    return str(tmp_path / "page.txt")


def test_a_file_cut_within_its_last_value_does_not_give_that_value(tmp_path: Path) -> None:
    whole = "vllm:num_requests_running 3.0\nvllm:kv_cache_usage_perc 0.5\nvllm:num_requests_waiting 12.0"
    assert report(written(tmp_path, whole))["waiting"] == 12
    for cut in (1, 2, 3):
        found = report(written(tmp_path, whole[:-cut]))
        assert found["running"] == 3 and found["waiting"] is None and "truncated" in found["flags"]
    parts = (
        'vllm:num_requests_waiting{engine="0"} 4.0',
        "vllm:kv_cache_usage_perc 0.5",
        'vllm:num_requests_waiting{engine="1"} 1',
    )
    several = "\n".join(parts)
    assert report(written(tmp_path, several))["waiting"] is None  # a sum without a part is not a sum


def test_a_quantile_beyond_the_last_bucket_is_flagged_as_at_least(tmp_path: Path) -> None:
    text = "".join(
        f'vllm:time_to_first_token_seconds_bucket{{le="{le}"}} {n}\n'
        for le, n in (("1.0", 50), ("10.0", 80), ("+Inf", 100))
    )
    found = report(written(tmp_path, text + "vllm:time_to_first_token_seconds_sum 900\n"))
    assert (found["ttft_p50"], found["ttft_p99"]) == (1.0, 10.0)
    assert "ttft_lower_bound" in found["flags"]


def test_gpu_facts_are_shown_and_blank_ones_are_not(tmp_path: Path) -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 97\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 9.223372036854776e+18\n'
    found = report(written(tmp_path, text))
    assert found["gpu_util"] == {"0": 0.97} and found["gpu_temperature_c"] is None
    assert found["engine"] is None and found["beside"] == ["dcgm"] and "blank_values" in found["flags"]


def test_a_user_and_password_in_an_address_are_sent_and_not_shown() -> None:
    with basic_auth() as place:
        found = doctor(f"http://u:s3cret@{place}/metrics", "--output", "json")
        wrong = doctor(f"http://u:wr0ng@{place}", f"http://{place}/metrics")
    assert json.loads(found.stdout)["engine"] == "vllm" and "s3cret" not in found.stdout
    assert "auth" in wrong.stdout and "duplicate" in wrong.stdout and "wr0ng" not in wrong.stdout


def basic_auth() -> AbstractContextManager[str]:
    return serving(lambda headers: headers.get("Authorization") == "Basic dTpzM2NyZXQ=")
