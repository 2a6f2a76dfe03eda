"""Every way an engine's page can be wrong is a named status in `status`, `watch` and `doctor`; the others go on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.client.agent import AgentClient
from opsconsole.clock import SystemClock
from opsconsole.domain.records import ReplicaView
from opsconsole.errors import AgentUnavailable
from tests.opsconsole.commands.conftest import Start
from tests.opsconsole.observe.conftest import PAGE, Misbehaving, text

CLOCK = SystemClock()
BAD = {
    "html": "not-metrics",
    "json": "not-metrics",
    "empty": "empty",
    "endless": "too-large",
    "announced": "too-large",
    "bomb": "too-large",
    "slow": "too-slow",
    "hang": "timeout",
    "loop": "redirect",
    "401": "auth",
    "500": "http-status",
    "cut": "truncated",
}
QUICK = '[sources]\ntimeout = "2s"\n[agent]\ninterval = "5s"\n'


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """A configuration that waits two seconds and no longer."""
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return str(path)


def status(*words: str) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["status", *words, "--over", "0.2s", "--output", "json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout)


def named(document: Any) -> dict[str, Any]:
    """Replicas by the last part of their address."""
    return {view["replica"].rpartition("/")[2]: view for view in document["replicas"]}


def test_status_names_each_and_reads_the_good_ones_as_if_nothing_were(misbehaving: Misbehaving, quick: str) -> None:
    paths = ("ok", *BAD, "gzip")
    code, document = status(*(f"{misbehaving.url}/{path}" for path in paths), "--config", quick)
    found = named(document)
    assert code == 1 and set(found) == set(paths)
    for path, kind in BAD.items():
        view = found[path]
        assert view["error"].startswith(f"{kind}: "), (path, view["error"])
        assert view["state"] == "DOWN" and kind in view["why"]
        assert view.get("running") is None and view["totals"] is None  # unknown, not zero
    for good in ("ok", "gzip"):
        assert (found[good]["running"], found[good]["waiting"], found[good]["state"]) == (3, 1, "OK")
        assert found[good].get("error") is None
    (pool,) = document["pools"]
    assert (pool["ready"], pool["down"], pool["running"]) == (2, len(BAD), 6)
    (source,) = document["sources"]
    assert f"{len(BAD)} of {len(paths)} targets fail" in source["error"]


def test_status_as_a_table_says_the_same_in_words(misbehaving: Misbehaving, quick: str) -> None:
    words = [f"{misbehaving.url}/{path}" for path in ("ok", "html", "401")]
    done = CliRunner().invoke(app, ["status", *words, "--config", quick, "--over", "0.1s"])
    assert done.exit_code == 1
    assert "html is DOWN: never answered: not-metrics: " in done.stdout
    assert "401 is DOWN: never answered: auth: answered 401" in done.stdout
    assert "2 of 3 targets fail" in done.stdout and "0 waiting" not in done.stdout


def test_status_names_dns_refusal_and_tls(
    start: Start, misbehaving: Misbehaving, certificate: tuple[Path, Path], quick: str
) -> None:
    secure = start(certificate)
    addresses = ["http://no-such-name.invalid:80/dns", "http://127.0.0.1:9/refused", f"{secure.url}/tls"]
    _, document = status(f"{misbehaving.url}/ok", *addresses, "--config", quick)
    kinds = {name: (view.get("error") or "").partition(":")[0] for name, view in named(document).items()}
    assert kinds == {"ok": "", "dns": "dns", "refused": "refused", "tls": "tls"}


def test_a_target_named_twice_is_counted_once_and_said(misbehaving: Misbehaving, quick: str) -> None:
    url = f"{misbehaving.url}/ok"
    _, document = status(url, url, "--config", quick)
    first, second = sorted(document["replicas"], key=lambda view: len(view["replica"]))
    assert first["state"] == "OK" and first["running"] == 3
    assert second["error"].startswith("duplicate: ") and second.get("running") is None
    assert document["pools"][0]["running"] == 3


def test_a_clock_far_off_is_said_and_the_page_is_read(misbehaving: Misbehaving, quick: str) -> None:
    _, document = status(f"{misbehaving.url}/skewed", "--config", quick)
    (view,) = document["replicas"]
    assert view["error"].startswith("clock-skew: ") and (view["running"], view["state"]) == (3, "OK")
    words = CliRunner().invoke(app, ["status", f"{misbehaving.url}/skewed", "--config", quick, "--over", "0.1s"])
    assert words.exit_code == 0 and "/skewed: clock-skew: its clock is " in words.stdout


def test_an_engine_that_changes_under_its_address_is_said(misbehaving: Misbehaving, quick: str) -> None:
    change_after(misbehaving, 1)
    _, document = status(f"{misbehaving.url}/changing", "--config", quick)
    (view,) = document["replicas"]
    assert view["error"].startswith("engine-changed: was vllm, now answers as sglang")
    assert view["running"] == 7 and view["engine"] == "sglang"


def change_after(server: Misbehaving, answers: int) -> None:
    """The path /changing answers as a vLLM so often, then as an SGLang."""
    count = 0

    async def changing(request: Any) -> Any:
        nonlocal count
        count += 1
        return text(PAGE if count <= answers else "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 7\n")

    server._changing = changing  # type: ignore[attr-defined]


def test_doctor_names_each_and_still_reads_the_good_one(misbehaving: Misbehaving) -> None:
    paths = ("ok", *BAD)
    words = [f"{misbehaving.url}/{path}" for path in paths]
    done = CliRunner().invoke(app, ["doctor", *words, "--timeout", "2", "--output", "json"])
    assert done.exit_code == 1
    found = {report["target"].rpartition("/")[2]: report for report in json.loads(done.stdout)}
    # here a page has no name in common with a scrape's status: "not-metrics" is what it is not
    wanted = {path: kind.replace("-", "_").replace("not_metrics", "not_exposition") for path, kind in BAD.items()}
    assert {path: found[path]["error"] for path in BAD} == wanted
    assert all(found[path]["running"] is None and found[path]["error_detail"] for path in BAD)
    assert (found["ok"]["error"], found["ok"]["running"], found["ok"]["engine"]) == (None, 3, "vllm")


def test_doctor_names_dns_refusal_tls_change_of_engine_duplicates_and_skew(
    start: Start, misbehaving: Misbehaving, certificate: tuple[Path, Path]
) -> None:
    secure = start(certificate)
    change_after(misbehaving, 1)
    url = f"{misbehaving.url}/ok"
    words = ["http://no-such-name.invalid:80/dns", "http://127.0.0.1:9/refused", f"{secure.url}/tls", url, url]
    words += [f"{misbehaving.url}/skewed", f"{misbehaving.url}/changing"]
    done = CliRunner().invoke(
        app, ["doctor", *words, "--timeout", "2", "--scrapes", "2", "--every", "0.1", "-o", "json"]
    )
    found = {report["target"].rpartition("/")[2]: report for report in json.loads(done.stdout)}
    assert {name: found[name]["error"] for name in ("dns", "refused", "tls")} == {
        "dns": "dns", "refused": "refused", "tls": "tls",
    }  # fmt: skip
    assert found["ok"]["flags"] == ["duplicate"] and found["ok"]["pages"] == 2
    assert "clock_skew" in found["skewed"]["flags"] and found["skewed"]["running"] is not None
    assert "engine_changed" in found["changing"]["flags"] and found["changing"]["engine"] == "sglang"


def test_watch_shows_the_same_through_its_agent(
    start: Start, misbehaving: Misbehaving, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    secure = start(certificate)
    change_after(misbehaving, 1)
    kinds = {**BAD, "skewed": "clock-skew", "changing": "engine-changed", "dns": "dns", "tls": "tls", "": "duplicate"}
    words = [f"{misbehaving.url}/{path}" for path in ("ok", *BAD, "skewed", "changing", "ok")]
    words += ["http://no-such-name.invalid:80/dns", f"{secure.url}/tls"]
    command = [sys.executable, "-m", "opsconsole.commands.watch_agent", "--data-dir", str(tmp_path), *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        found = asyncio.run(settled(str(tmp_path / "agent.sock"), kinds))
    finally:
        process.terminate()
        process.communicate(timeout=20)
    told = {name: (found[name].error or "").partition(":")[0] for name in found}
    assert told == {**kinds, "ok": ""}
    for path, view in found.items():
        known = {"ok": 3, "skewed": 3, "changing": 7}.get(path)
        assert view.running == known, path
    assert found["ok"].state.value == "OK"


async def settled(socket: str, kinds: dict[str, str]) -> dict[str, ReplicaView]:
    """Replicas by the last part of their address ("" is the one named again), once each is told as what it is."""
    found: dict[str, ReplicaView] = {}
    for _ in range(200):
        try:
            async with AgentClient(socket) as client:
                async for snapshot in client.stream():
                    found = {_path(view.replica): view for view in snapshot.replicas}
                    told = {name: (found[name].error or "").partition(":")[0] for name in kinds if name in found}
                    if told == kinds or snapshot.tick >= 60:
                        return found
        except AgentUnavailable:
            await CLOCK.sleep(0.1)
    raise AssertionError("the agent did not answer")


def _path(replica: str) -> str:
    return "" if replica.endswith("(again)") else replica.rpartition("/")[2]
