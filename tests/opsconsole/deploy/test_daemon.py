"""What a cluster is given: least rights, a closed API, nothing written outside the one volume."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opsconsole.config import load
from opsconsole.deploy import rules
from opsconsole.deploy.daemon import DATA, Daemon, environment, monitor, objects

WRITES = {"create", "update", "patch", "delete", "deletecollection", "*"}


def made(**given: Any) -> dict[str, dict[str, Any]]:
    of = Daemon("opsconsole", "llm", "opsconsole:1", "[slo.default]\nttft = '1s'\n", **given)
    return {item["kind"]: item for item in objects(of)}


def granted(found: list[rules.Rule]) -> set[tuple[str, str, str]]:
    return {(g, r, v) for rule in found for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def test_a_daemon_that_only_watches_may_write_nothing() -> None:
    assert not {verb for _, _, verb in granted(made()["Role"]["rules"])} & WRITES


def test_a_daemon_that_acts_writes_scales_pods_marks_events_and_its_lease_only() -> None:
    found = granted(made(acts=True)["Role"]["rules"])
    written = {(group, resource) for group, resource, verb in found if verb in WRITES}
    scales = {(g, f"{kind}/scale") for g, kinds in rules.SCALABLE.items() for kind in kinds}
    assert written == scales | {
        ("", "pods"),
        ("", "pods/status"),
        ("", "events"),
        ("coordination.k8s.io", "leases"),
    }
    assert ("", "pods", "patch") in found and ("", "pods", "delete") not in found
    assert not any(resource == "secrets" or "*" in (resource, verb) for _, resource, verb in found)


def test_nodes_are_read_only_through_a_cluster_role_that_was_asked_for() -> None:
    assert "ClusterRole" not in made()
    asked = made(sees_nodes=True)
    assert granted(asked["ClusterRole"]["rules"]) == {("", "nodes", "get")}
    assert asked["ClusterRoleBinding"]["roleRef"]["name"] == asked["ClusterRole"]["metadata"]["name"]


def test_the_pod_is_nobody_with_a_read_only_file_system_and_one_place_to_write() -> None:
    pod = made()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")] == [DATA]
    named = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == named


def test_labels_select_the_pods_and_ports_are_the_ones_served() -> None:
    kinds = made(keda=True)
    pod = kinds["Deployment"]["spec"]["template"]
    assert kinds["Deployment"]["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert kinds["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in kinds["Service"]["spec"]["ports"]} == ports == {"api", "keda"}


@pytest.mark.parametrize(("acts", "mode"), [(False, "advise"), (True, "act")])
def test_the_variables_are_ones_that_the_configuration_takes(acts: bool, mode: str) -> None:
    of = Daemon("opsconsole", "llm", "opsconsole:1", "", acts=acts, keda=True)
    config = load(None, env={**environment(of), "XDG_CONFIG_HOME": "/nonexistent"}).config
    assert config.act.mode == mode
    assert config.agent.listen == "0.0.0.0:9400" and config.agent.tls_cert is not None
    assert {(token.name, token.role) for token in config.agent.tokens} == {("read", "read"), ("operate", "operate")}
    assert config.act.keda_listen == "0.0.0.0:6000"


def test_the_monitor_asks_with_the_reading_token_over_tls() -> None:
    of = Daemon("opsconsole", "llm", "opsconsole:1", "")
    (endpoint,) = monitor(of)["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["authorization"]["credentials"] == {"name": of.token_secret, "key": "read"}
    json.dumps(monitor(of))
