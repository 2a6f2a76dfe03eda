"""autoscale, explain, pause, resume, pin, status and config as a person types them, against a real agent process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opsconsole.clock import SystemClock

CLOCK = SystemClock()
PAGE = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 500
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 40
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 10
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} 40
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 40
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 8
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 40
"""
SERVER = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = open(sys.argv[1], "rb").read()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
sys.stdout.write(f"{server.server_port}\\n")
sys.stdout.flush()
server.serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a shell with a home of their own."""

    home: Path

    def types(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "opsconsole", *words],
            env=self.env(**more),
            capture_output=True,
            text=True,
            cwd=self.home,
        )

    def env(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPSCONSOLE", "XDG"))}
        return {**kept, "HOME": str(self.home), "NO_COLOR": "1", "USER": "ann", "LOGNAME": "ann", **more}


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def engine(person: Person) -> Iterator[str]:
    """The address of something that answers like a vLLM."""
    page = person.home / "page"
    page.write_text(PAGE)
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(page)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"127.0.0.1:{process.stdout.readline().strip()}"
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="module")
def agent(person: Person, engine: str) -> Iterator[Path]:
    """A daemon on that engine, in the person's default place; its data folder."""
    words = ["autoscale", engine, "--interval", "0.2s", "--allow-intents"]
    with (person.home / "agent.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "opsconsole", *words], env=person.env(), cwd=person.home, stderr=log
        )
    folder = person.home / ".local" / "state" / "opsconsole" / "agent"
    until = CLOCK.monotonic() + 30
    while CLOCK.monotonic() < until and person.types("status").returncode != 0:
        asyncio.run(CLOCK.sleep(0.3))
    yield folder
    process.terminate()
    assert process.wait(15) == 0, (person.home / "agent.log").read_text()


def test_status_looks_for_itself_and_shows_what_the_engine_counted(person: Person, engine: str) -> None:
    done = person.types("status", engine, "--over", "0.3s", "--output", "json")
    assert done.returncode == 0, done.stderr
    (replica,) = json.loads(done.stdout)["replicas"]
    assert (replica["running"], replica["waiting"], replica["kv_usage"]) == (3, 1, 0.5)
    totals = replica["totals"]
    assert (totals["requests_finished"], totals["prompt_tokens"], totals["output_tokens"]) == (40, 1000, 500)
    assert 0.1 <= totals["ttft"]["p50"] <= 0.5


def test_status_as_a_table_marks_what_is_since_the_start(person: Person, engine: str) -> None:
    done = person.types("status", engine, "--over", "0.3s")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith(engine))
    assert "vllm" in row and "ms*" in row
    assert "* since the engine's start" in done.stdout
    assert "pool default: 1 ready, 1 waiting" in done.stdout


def test_status_says_what_is_wrong_and_exits_1(person: Person) -> None:
    done = person.types("status", "127.0.0.1:9", "--over", "0.1s")
    assert done.returncode == 1
    assert "127.0.0.1:9 is DOWN" in done.stdout and "refused" in done.stdout


def test_status_without_addresses_asks_the_running_agent(person: Person, agent: Path) -> None:
    done = person.types("status", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["replicas"][0]["engine"] == "vllm"


def test_record_writes_down_what_a_running_agent_sees(person: Person, agent: Path) -> None:
    sock = str(agent / "agent.sock")
    done = person.types("record", "--attach", sock, "seen.rec", "--for", "2s")
    assert done.returncode == 0 and "1 replicas of which 1 answered" in done.stderr, done.stderr
    lines = [
        json.loads(line)["snapshot"]
        for line in person.types("replay", "seen.rec", "-o", "json").stdout.split("\n")
        if line
    ]
    assert len(lines) >= 3
    for line in lines:
        (view,) = line["replicas"]
        assert (view["running"], view["waiting"], view["engine"]) == (3, 1, "vllm")


def test_once_explain_prints_every_rule(person: Person, engine: str) -> None:
    done = person.types("autoscale", engine, "--once", "--explain")
    assert done.returncode == 0, done.stderr
    for word in ("rules, in the order they were asked:", "queue", "kv", "stabilise", "mode advise", engine):
        assert word in done.stdout
    assert not (person.home / "opsconsole.db").exists()


def test_once_decides_nothing_where_no_source_answers(person: Person) -> None:
    done = person.types("autoscale", "--prometheus", "http://127.0.0.1:9", "--once")
    assert done.returncode == 1 and "fails" in done.stdout
    assert "how many replicas there are is unknown" in done.stdout and "0 -> 1" not in done.stdout


def test_orders_are_given_shown_and_lifted(person: Person, agent: Path) -> None:
    pinned = person.types("pin", "2", "--for", "2h", "--note", "launch at noon")
    assert pinned.returncode == 0, pinned.stderr
    assert pinned.stdout == "every pool is pinned at 2 or more for 2 h by ann: launch at noon\n"
    paused = person.types("pause", "default", "--for", "30m")
    assert "default is paused for 30 min by ann" in paused.stdout
    resumed = person.types("resume")
    assert resumed.stdout == "No order is in force.\n"
    wrong = person.types("pause", "nowhere")
    assert wrong.returncode == 2 and "There is no pool 'nowhere' here: default" in wrong.stderr


def test_explain_reads_the_journal_now_and_then(person: Person, agent: Path) -> None:
    now = person.types("explain")
    assert now.returncode == 0, now.stderr
    assert "rules, in the order they were asked:" in now.stdout and "what was seen: 1 replicas" in now.stdout
    document = json.loads(person.types("explain", "--output", "json").stdout)
    assert document[0]["decision"]["pool"] == "default" and document[0]["situation"]["replicas"][0]["waiting"] == 1
    early = person.types("explain", "--at", "-30d")
    assert early.returncode == 2 and "No decision by then" in early.stderr
    remote = person.types("explain", "--attach", str(agent / "agent.sock"))
    assert "rules, in the order they were asked:" in remote.stdout


def test_a_recording_is_decided_at_any_moment_of_it(person: Person, agent: Path) -> None:
    done = person.types("autoscale", "--recording", str(agent / "opsconsole.db"), "--once", "--explain", "-o", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["decisions"][0]["pool"] == "default"
    assert document["snapshot"]["replicas"][0]["running"] == 3
    early = person.types("autoscale", "--recording", str(agent / "opsconsole.db"), "--once", "--at", "-1d")
    assert early.returncode == 2 and "no replicas recorded" in early.stderr


def test_config_is_written_checked_and_shown(person: Person) -> None:
    file = person.home / "made.toml"
    assert person.types("config", "init", str(file)).returncode == 0
    again = person.types("config", "init", str(file))
    assert again.returncode == 2 and "--force" in again.stderr
    good = person.types("config", "validate", "--config", str(file))
    assert good.stdout == f"{file} is right: 1 pool, mode advise.\n", good.stderr
    shown = person.types("config", "show", "--config", str(file), OPSCONSOLE_ACT__MODE="off")
    assert 'act.mode = "off"  (OPSCONSOLE_ACT__MODE)' in shown.stdout
    assert 'agent.fleet = "fleet"  (file)' in shown.stdout and "agent.interval = 5.0  (default)" in shown.stdout
    file.write_text('[tui]\ntheme = "purple"\n')
    bad = person.types("config", "validate", "--config", str(file))
    assert bad.returncode == 2 and "purple" in bad.stderr
    missing = person.types("config", "validate")
    assert missing.returncode == 2 and "no configuration file" in missing.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("autoscale", "h:1", "--explain"), "belong to --once"),
        (("autoscale", "--once"), "names no source"),
        (("autoscale", "h:1", "--mode", "act"), "--mode: act.mode: nothing here can be acted on"),
        (("autoscale", "h:1", "--listen", "0.0.0.0:9400"), "needs at least one token"),
        (("status", "h:1", "--output", "xml"), "give table or json"),
        (("status", "h:1", "--attach", "x"), "leave it out"),
        (("record", "--attach", "/no/agent.sock", "y.rec"), "No agent answers at /no/agent.sock"),
        (("record", "--attach", "x", "h:1", "y.rec"), "leave out addresses"),
        (("record", "--attach", "x", "--every", "2s", "y.rec"), "at its own pace"),
        (("explain", "--db", "missing.db"), "missing.db does not exist"),
        (("explain", "--db", "missing.db", "--at", "teatime"), "'teatime' is no time"),
        (("pause", "--attach", "/no/agent.sock"), "No agent answers at /no/agent.sock"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_2(person: Person, words: tuple[str, ...], said: str) -> None:
    done = person.types(*words)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (person.home / "y.rec").exists()


def test_status_with_nothing_to_look_at_says_what_to_type(person: Person, tmp_path: Path) -> None:
    done = person.types("status", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2 and "give addresses, as in `opsconsole status http://HOST:8000`" in done.stderr
    (tmp_path / "empty.toml").write_text("[agent]\nfleet = 'x'\n")
    done = person.types("status", "--config", str(tmp_path / "empty.toml"))
    assert done.returncode == 2 and "empty.toml names no source: give [sources] targets" in done.stderr
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "none.toml").write_text(f'[sources]\nfiles = ["{tmp_path / "none.json"}"]\n')
    done = person.types("status", "--config", str(tmp_path / "none.toml"), "--over", "0.1s")
    assert done.returncode == 0 and "No replica was found: check the selector, the name or the file" in done.stdout
