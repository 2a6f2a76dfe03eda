"""`status` through a real Prometheus server and through Kubernetes discovery says what a direct look says."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.client.agent import AgentClient
from opsconsole.clock import SystemClock
from opsconsole.domain.records import ReplicaView
from opsconsole.errors import AgentUnavailable, OpsConsoleError
from tests.opsconsole.commands.test_serve import Engine, engine, wait_ready
from tests.opsconsole.observe.pods_server import FakeApi, pod, serving_pods
from tests.opsconsole.observe.prometheus_server import scraping

PAGES = Path(__file__).parents[2] / "data" / "pages"
CLOCK = SystemClock()
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 900ms}}
scrape_configs:
  - job_name: ours
    static_configs:
      - {{targets: ["{ours}"], labels: {{pod: "ours-0"}}}}
      - {{targets: ["127.0.0.1:9"], labels: {{pod: "gone-0"}}}}
  - job_name: vllm
    metrics_path: /vllm-0.32.0-served.txt
    static_configs: [{{targets: ["{recorded}"], labels: {{pod: "vllm-0"}}}}]
  - job_name: llamacpp
    metrics_path: /{llama}
    static_configs: [{{targets: ["{recorded}"], labels: {{pod: "llama-0"}}}}]
  - job_name: node-exporter
    static_configs: [{{targets: ["127.0.0.1:9"], labels: {{pod: "not-an-engine"}}}}]
"""


def status(*words: str, **env: str) -> tuple[int, Any]:
    """As a person types it, in a process of its own."""
    command = [sys.executable, "-m", "opsconsole", "status", *words, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def by_name(document: Any) -> dict[str, Any]:
    return {view["replica"]: view for view in document["replicas"]}


@pytest.fixture(scope="module")
def served() -> Iterator[Engine]:
    """The embedded engine's server, with five requests behind it."""
    with engine("--served-model-name", "m") as started:
        with httpx.Client(base_url=started.url, timeout=30.0) as client:
            wait_ready(client)
            for _ in range(5):
                asked = {"model": "m", "prompt": [1, 2, 3, 4], "max_tokens": 7, "ignore_eos": True}
                assert client.post("/v1/completions", json=asked).status_code == 200
        yield started


@pytest.fixture(scope="module")
def recorded() -> Iterator[str]:
    """Pages of real engines, as files on an HTTP server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(PAGES))

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_prometheus_shows_each_engine_as_a_direct_look_does(served: Engine, recorded: str, tmp_path: Path) -> None:
    llama = next(PAGES.glob("llamacpp-*-served.txt")).name
    ours = served.url.removeprefix("http://")
    with scraping(CONFIG.format(ours=ours, recorded=recorded, llama=llama), tmp_path) as url:
        code, found = eventually(lambda: status("--prometheus", url, "--over", "1.2s"), {"ours-0", "vllm-0", "llama-0"})
    direct = [f"http://{recorded}/vllm-0.32.0-served.txt", f"http://{recorded}/{llama}", served.url]
    _, looked = status(*direct, "--over", "0.2s")
    views = by_name(found)
    here = {view["engine"]: view for view in looked["replicas"]}
    for name, engine_name in (("ours-0", "opsconsole"), ("vllm-0", "vllm"), ("llama-0", "llamacpp")):
        there = views[name]
        assert there["engine"] == engine_name
        for fact in ("running", "waiting", "kv_usage", "model", "totals"):
            assert there.get(fact) == here[engine_name].get(fact), (name, fact)
        assert there["sample"].get("ttft") == here[engine_name]["sample"].get("ttft")
        assert there["age"] < 15
    assert views["ours-0"]["totals"]["requests_finished"] == 5 and views["ours-0"]["totals"]["output_tokens"] == 35
    assert code == 1 and views["gone-0"]["error"].startswith("refused: ") and views["gone-0"].get("running") is None
    assert {view["pool"] for view in views.values()} == {"ours", "vllm", "llamacpp"}


def eventually(ask: Callable[[], tuple[int, Any]], names: set[str]) -> tuple[int, Any]:
    """The first answer in which all of these replicas have a page: a server needs a scrape or two."""
    until = CLOCK.monotonic() + 60
    while True:
        code, found = ask()
        answered = {view["replica"] for view in found["replicas"] if view["totals"] is not None}
        if names <= answered:
            return code, found
        assert CLOCK.monotonic() < until, found


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://no-such-name.invalid:9090"])
def test_a_prometheus_that_cannot_be_asked_is_said_and_is_no_empty_fleet(address: str) -> None:
    code, found = status("--prometheus", address, "--over", "0.1s")
    (source,) = found["sources"]
    assert code == 1 and not source["ok"] and source["error_kind"] in ("refused", "dns") and source["error"]


@pytest.fixture
def cluster() -> Iterator[tuple[FakeApi, asyncio.AbstractEventLoop]]:
    """The pods API on a loop of its own, since the command is another process."""
    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[FakeApi] = []

    async def run() -> None:
        async with serving_pods() as fake:
            found.append(fake)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(20)
    yield found[0], loop
    loop.call_soon_threadsafe(stop.set)
    thread.join(20)
    loop.close()


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user: dict[str, Any] = {"name": "u", "user": {}}
    text = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "users": [user]}
    path.write_text(json.dumps({**text, "current-context": "x"}))
    return str(path)


def test_kubernetes_pods_are_found_read_and_placed(
    served: Engine, cluster: tuple[FakeApi, asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    fake, loop = cluster
    host, _, port = served.url.removeprefix("http://").partition(":")
    notes = {"prometheus.io/port": port}
    pods = [
        pod("ours-0", status__podIP=host, metadata__annotations=notes),
        pod("starting-0", ready=False, running=False, status__podIP=None, metadata__annotations=notes),
        pod("dead-0", status__podIP="127.0.0.1", metadata__annotations={"prometheus.io/port": "9"}),
    ]
    for each in pods:
        loop.call_soon_threadsafe(fake.set, "ADDED", each)
    env = {"KUBECONFIG": kubeconfig(tmp_path, fake.url), "HOME": str(tmp_path)}
    code, found = status("--kubernetes", "app=vllm", "--over", "0.2s", **env)
    views = by_name(found)
    assert code == 1 and set(views) == {"ours-0", "starting-0", "dead-0"}
    ours = views["ours-0"]
    assert (ours["engine"], ours["node"], ours["totals"]["output_tokens"]) == ("opsconsole", "node-1", 35)
    assert views["starting-0"]["state"] == "WARM" and views["starting-0"].get("running") is None
    assert views["dead-0"]["error"].startswith("refused: ")
    assert fake.asked[0]["labelSelector"] == "app=vllm"


def test_watch_follows_pods_as_status_does(
    served: Engine, cluster: tuple[FakeApi, asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    fake, loop = cluster
    host, _, port = served.url.removeprefix("http://").partition(":")
    found = pod("ours-0", status__podIP=host, metadata__annotations={"prometheus.io/port": port})
    loop.call_soon_threadsafe(fake.set, "ADDED", found)
    command = [sys.executable, "-m", "opsconsole.commands.watch_agent", "--data-dir", str(tmp_path)]
    env = {**os.environ, "KUBECONFIG": kubeconfig(tmp_path, fake.url), "HOME": str(tmp_path)}
    process = subprocess.Popen([*command, "--kubernetes", "app=vllm"], env=env, stderr=subprocess.PIPE)
    try:
        view = asyncio.run(first_page(str(tmp_path / "agent.sock"), "ours-0"))
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert (view.engine, view.node, view.sample and view.sample.output_tokens) == ("opsconsole", "node-1", 35)


async def first_page(socket: str, name: str) -> ReplicaView:
    """A replica as the agent shows it, once it has read its page."""
    for _ in range(300):
        try:
            async with AgentClient(socket) as client:
                async for snapshot in client.stream():
                    view = snapshot.replica(name)
                    if view is not None and view.sample is not None:
                        return view
                    assert snapshot.tick < 60, snapshot
        except AgentUnavailable:
            await CLOCK.sleep(0.1)
    raise AssertionError("the agent did not answer")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Nothing to watch: give addresses, as in `opsconsole watch http://HOST:8000`"),
        (("--prometheus", "http://p:9090", "--slo", "ttft=1s"), r"write \[slo.NAME\] into the file"),
        (("--config", "no-such.toml"), "no-such.toml"),
        (("ftp://x",), "'ftp://x' is not an address"),
    ],
)
def test_what_cannot_be_watched_is_said_before_a_screen_opens(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, ["watch", *words])
    assert isinstance(done.exception, OpsConsoleError) and re.search(said, str(done.exception)), done.exception


def test_a_cluster_that_refuses_is_said(cluster: tuple[FakeApi, asyncio.AbstractEventLoop], tmp_path: Path) -> None:
    cluster[0].status = 403
    env = {"KUBECONFIG": kubeconfig(tmp_path, cluster[0].url), "HOME": str(tmp_path)}
    code, found = status("--kubernetes", "app=vllm", "--over", "0.1s", **env)
    (source,) = found["sources"]
    assert code == 1 and source["error_kind"] == "auth" and "403" in source["error"]
