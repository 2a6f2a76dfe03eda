"""`opsconsole manifests` as a person runs it: YAML that is read back, refusals that say what to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.errors import OpsConsoleError

CONFIG = """
[slo.chat]
ttft = "1s"

[pool.chat]
minimum = 0
maximum = 6
via = "keda"
slo = ["chat"]

[pool.batch]
via = "hpa"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "fleet.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def run(*words: str) -> Any:
    done = CliRunner().invoke(app, ["manifests", *words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_daemon_is_printed_with_the_configuration_it_was_made_from(config: str) -> None:
    kinds = {item["kind"]: item for item in yaml.safe_load_all(run("daemon", "--config", config, "-n", "llm", "--act"))}
    assert kinds["ConfigMap"]["data"]["opsconsole.toml"] == CONFIG
    assert {item["metadata"]["namespace"] for item in kinds.values()} == {"llm"}
    assert "ServiceMonitor" not in kinds and "ClusterRole" not in kinds


def test_json_is_one_list(config: str) -> None:
    found = json.loads(run("daemon", "--config", config, "--monitor", "-o", "json"))
    assert found["kind"] == "List" and found["items"][-1]["kind"] == "ServiceMonitor"


def test_keda_takes_bounds_from_the_pool(config: str) -> None:
    spec = yaml.safe_load(run("keda", "--config", config, "--pool", "chat", "--workload", "sts/vllm", "-n", "llm"))[
        "spec"
    ]
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "vllm"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 6)
    assert spec["triggers"][0]["metadata"]["scalerAddress"] == "opsconsole.llm.svc:6000"


def test_an_hpa_and_the_adapters_rule_name_one_metric(config: str) -> None:
    words = ("hpa", "--config", config, "--pool", "batch", "--workload", "deployment/vllm")
    named = yaml.safe_load(run(*words))["spec"]["metrics"][0]["external"]["metric"]["name"]
    assert yaml.safe_load(run(*words, "--adapter"))["externalRules"][0]["name"]["matches"] == named


def test_the_dashboard_is_json() -> None:
    assert json.loads(run("dashboard"))["title"] == "opsconsole"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keda", "--pool", "none", "--workload", "deployment/vllm"), "it has: batch, chat"),
        (("hpa", "--pool", "chat", "--workload", "deployment/vllm"), 'via = "hpa"'),
        (("keda", "--pool", "chat", "--workload", "vllm"), "KIND/NAME"),
        (("keda", "--pool", "chat", "--workload", "widgets.v1.example.com/vllm"), "custom kind"),
        (("daemon", "-o", "xml"), "yaml or json"),
        (("hpa", "--pool", "batch", "--workload", "deployment/vllm", "-n", "Bad_NS"), "--namespace Bad_NS: .*RFC 1123"),
        (("keda", "--pool", "chat", "--workload", "deployment/Bad_Name"), "--workload Bad_Name"),
        (("daemon", "-n", "x" * 64), "--namespace x+: "),
        (("daemon", "--name", "-ops"), "--name -ops: "),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_to_write(config: str, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(OpsConsoleError, match=said):
        run(words[0], "--config", config, *words[1:])


def test_a_daemon_without_a_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(OpsConsoleError, match="--config FILE"):
        run("daemon")
