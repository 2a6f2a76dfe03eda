"""The chart and the printed manifests are one thing: shared files are equal, a real helm renders the same rights."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsconsole.config import load
from opsconsole.control.meter import Meter
from opsconsole.deploy.__main__ import files
from opsconsole.deploy.daemon import Daemon, environment, objects
from opsconsole.deploy.dashboard import dashboard, expressions

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "opsconsole"
KUBE = ("--kube-version", "1.36.0")  # a helm built from source believes in 1.20


@pytest.mark.parametrize(("name", "text"), files().items())
def test_the_charts_files_are_what_this_package_writes(name: str, text: str) -> None:
    told = "python -m opsconsole.deploy deploy/helm/opsconsole/files"
    assert (CHART / "files" / name).read_text(encoding="utf-8") == text, f"run: {told}"


def test_every_name_on_the_dashboard_is_one_that_the_daemon_exposes() -> None:
    families = {family.name for family in Meter().registry.collect()}
    for expression in expressions():
        for name in re.findall(r"opsconsole_\w+", expression):
            assert re.sub(r"_(total|bucket)$", "", name) in families, name


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    found = os.environ.get("OPSCONSOLE_HELM") or shutil.which("helm")
    if not found:
        pytest.skip("no helm: name one by OPSCONSOLE_HELM (docs/kubernetes.md says how to build it)")
    return subprocess.run([found, *words], capture_output=True, text=True, check=False)


def rendered(*values: str) -> list[dict[str, Any]]:
    done = helm("template", "opsconsole", str(CHART), *KUBE, "--namespace", "llm", *(f"--set={v}" for v in values))
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["advise", "act"])
def test_helm_renders_what_manifests_prints(mode: str) -> None:
    of = Daemon("opsconsole", "llm", "opsconsole:0.1.0", "", acts=mode == "act", keda=True, sees_nodes=True)
    ours = {item["kind"]: item for item in objects(of)}
    theirs = {item["kind"]: item for item in rendered(f"mode={mode}", "keda=true", "nodes=true")}
    assert theirs.keys() == ours.keys()
    for kind in ("Role", "ClusterRole"):
        assert theirs[kind]["rules"] == ours[kind]["rules"]
    pods = [side["Deployment"]["spec"]["template"]["spec"] for side in (ours, theirs)]
    assert pods[0] == pods[1]
    told = {e["name"]: e["value"] for e in pods[1]["containers"][0]["env"] if "value" in e}
    assert told == environment(of)
    assert ours["Service"]["spec"] == theirs["Service"]["spec"]


def test_helm_refuses_values_that_the_schema_does_not_know() -> None:
    done = helm("template", "opsconsole", str(CHART), *KUBE, "--set", "mode=yolo", "--set", "replica=3")
    assert done.returncode != 0
    assert "mode" in done.stderr and "replica" in done.stderr


def test_helm_puts_the_dashboard_and_the_monitor_there_when_asked() -> None:
    kinds = {(item["kind"], item["metadata"]["name"]): item for item in rendered("monitor=true", "dashboard=true")}
    found = kinds["ConfigMap", "opsconsole-dashboard"]["data"]["opsconsole.json"]
    assert json.loads(found) == dashboard()
    assert ("ServiceMonitor", "opsconsole") in kinds


def test_the_charts_example_configuration_is_one_that_is_taken(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "opsconsole.toml"
    path.write_text(values["config"], encoding="utf-8")
    assert list(load(path, env={}).config.pool) == ["chat"]
