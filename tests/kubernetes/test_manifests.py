"""What `opsconsole manifests` prints, taken by a real API server with every field checked."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.deploy.daemon import Daemon, objects
from opsconsole.deploy.handover import Handover, autoscaler
from tests.kubernetes.plane import Cluster


def collection(item: dict[str, Any]) -> str:
    """Where an object of its kind is created."""
    api = "api/v1" if item["apiVersion"] == "v1" else f"apis/{item['apiVersion']}"
    place = f"namespaces/{item['metadata']['namespace']}/" if "namespace" in item["metadata"] else ""
    return f"/{api}/{place}{item['kind'].lower()}s"


@pytest.mark.parametrize("act", [False, True])
def test_the_api_server_takes_every_object_and_knows_every_field(cluster: Cluster, namespace: str, act: bool) -> None:
    of = Daemon("opsconsole", namespace, "opsconsole:1", "[act]\n", acts=act, sees_nodes=True, keda=True)
    for item in objects(of):
        made = cluster.create(f"{collection(item)}?dryRun=All&fieldValidation=Strict", item)
        assert made["metadata"]["name"] == item["metadata"]["name"]


def test_the_hpa_is_one_that_the_api_server_takes(cluster: Cluster, namespace: str) -> None:
    of = Handover("chat", "Deployment", "vllm", "apps/v1", namespace, 0, 8, "")
    made = cluster.create(f"{collection(autoscaler(of))}?dryRun=All&fieldValidation=Strict", autoscaler(of))
    assert made["spec"]["metrics"][0]["external"]["target"]["averageValue"] == "1"


@pytest.mark.parametrize(
    ("act", "verb", "group", "resource", "allowed"),
    [
        (False, "list", "", "pods", True),
        (False, "patch", "apps", "deployments/scale", False),
        (False, "patch", "", "pods", False),
        (True, "patch", "apps", "deployments/scale", True),
        (True, "update", "coordination.k8s.io", "leases", True),
        (True, "create", "", "events", True),
        (True, "delete", "", "pods", False),
        (True, "get", "", "secrets", False),
        (True, "patch", "apps", "deployments", False),
    ],
)
def test_the_account_may_what_its_role_says_and_no_more(
    cluster: Cluster, namespace: str, act: bool, verb: str, group: str, resource: str, allowed: bool
) -> None:
    of = Daemon("opsconsole", namespace, "opsconsole:1", "[act]\n", acts=act)
    for item in objects(of):
        if item["kind"] in ("Role", "RoleBinding"):
            cluster.create(collection(item), item)
    kind, _, sub = resource.partition("/")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": kind, "subresource": sub}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{namespace}:opsconsole", "resourceAttributes": asked},
    }
    answer = cluster.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is allowed
