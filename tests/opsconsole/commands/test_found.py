"""What the console finds when nobody names anything: sockets, configuration, engines on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from opsconsole.commands import found
from opsconsole.config import Config
from opsconsole.errors import ConfigError, UsageError

VLLM = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 3\n'
OTHER = b"# TYPE go_goroutines gauge\ngo_goroutines 7\n"


@contextmanager
def serving(page: bytes, status: int = 200) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *words: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def holding(listen: bool) -> Iterator[int]:
    """A port that accepts and then says nothing, or that refuses."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if listen:
            held.listen()
        yield held.getsockname()[1]


def test_engines_are_found_by_their_metrics_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "PATIENCE_S", 0.2)
    with ExitStack() as stack:
        engine, other = stack.enter_context(serving(VLLM)), stack.enter_context(serving(OTHER))
        broken, empty = stack.enter_context(serving(VLLM, 503)), stack.enter_context(serving(b""))
        page = stack.enter_context(serving(b"<html></html>"))
        silent, closed = stack.enter_context(holding(True)), stack.enter_context(holding(False))
        assert found.engines((closed, other, silent, page, engine, broken, empty)) == (f"127.0.0.1:{engine}",)


def test_the_ports_to_ask_can_be_named_or_none() -> None:
    assert found.ports({}) == found.PORTS
    assert found.ports({"OPSCONSOLE_PORTS": "8000, 9000"}) == (8000, 9000)
    assert found.engines(found.ports({"OPSCONSOLE_PORTS": ""})) == ()
    for wrong in ("eighty", "0", "70000"):
        with pytest.raises(UsageError, match="no list of ports"):
            found.ports({"OPSCONSOLE_PORTS": wrong})


def test_a_socket_left_behind_by_a_dead_agent_is_not_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("OPSCONSOLE_AGENT", raising=False)
    path = tmp_path / "opsconsole" / "agent" / "agent.sock"
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        assert found.find_agent() is None
        agent.listen()
        assert found.find_agent() == str(path)
    assert path.exists() and found.find_agent() is None
    monkeypatch.setenv("OPSCONSOLE_AGENT", "http://elsewhere:9400")
    assert found.find_agent() == "http://elsewhere:9400"


def test_a_configuration_counts_from_a_file_or_from_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert found.configuration({"HOME": str(tmp_path)}) is None
    given = found.configuration({"HOME": str(tmp_path), "OPSCONSOLE_SOURCES__TARGETS": "10.0.0.7:8000"})
    assert given is not None and given.sources.targets == ("10.0.0.7:8000",)
    Path("opsconsole.toml").write_text('[agent]\nfleet = "ours"\n')
    given = found.configuration({"HOME": str(tmp_path)})
    assert given is not None and given.agent.fleet == "ours"
    Path("opsconsole.toml").write_text("[agnet]\n")
    with pytest.raises(ConfigError, match="agnet"):
        found.configuration({"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("tables", "has"),
    [
        ({}, False),
        ({"pool": {"chat": {}}}, False),
        ({"tui": {"theme": "light"}}, False),
        ({"pool": {"chat": {"targets": ["10.0.0.7:8000"]}}}, True),
        ({"pool": {"chat": {"selector": "app=vllm"}}}, True),
        ({"sources": {"dns": ["vllm:8000"]}}, True),
        ({"sources": {"prometheus": {"url": "http://prometheus:9090"}}}, True),
        ({"sources": {"kubernetes": {"selector": "app=vllm"}}}, True),
    ],
)
def test_only_a_configuration_that_names_sources_is_worth_an_agent(tables: dict[str, object], has: bool) -> None:
    assert found.names_sources(Config.model_validate(tables)) is has


def test_an_agent_in_a_folder_of_the_configurations_is_found_while_it_runs(tmp_path: Path) -> None:
    config = Config.model_validate({"agent": {"data_dir": str(tmp_path)}})
    assert found.configured_agent(Config()) is None and found.configured_agent(config) is None
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent.sock"))
        agent.listen()
        assert found.configured_agent(config) == str(tmp_path / "agent.sock")
