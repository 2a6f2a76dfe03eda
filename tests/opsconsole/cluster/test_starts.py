"""Start times learned from pods, and workloads as operators name them."""

from __future__ import annotations

import pytest

from opsconsole.cluster.pods import PodFacts
from opsconsole.cluster.starts import StartTimes
from opsconsole.cluster.workload import workload
from opsconsole.errors import ConfigError


def pod(name: str, node: str, created: float, schedule: float, pull: float, load: float) -> PodFacts:
    scheduled = created + schedule
    return PodFacts(
        name, name, node, ready=True, image="vllm", created_at=created, scheduled_at=scheduled,
        running_at=scheduled + pull, ready_at=scheduled + pull + load,
    )  # fmt: skip


def test_phases_are_learned_once_a_pod_and_apart_for_warm_nodes() -> None:
    cold, warm = pod("a", "n1", 0.0, 2.0, 100.0, 60.0), pod("b", "n1", 200.0, 1.0, 5.0, 50.0)
    times = StartTimes().learn([cold]).learn([cold, warm]).learn([cold, warm])
    pull = times.span("pull", "vllm")
    assert pull is not None and (pull.p50, pull.p90, pull.count) == (5.0, 100.0, 2)
    cold_pull, warm_pull = times.span("pull", "vllm", warm=False), times.span("pull", "vllm", warm=True)
    assert cold_pull is not None and (cold_pull.p90, cold_pull.count) == (100.0, 1)
    assert warm_pull is not None and (warm_pull.p90, warm_pull.count) == (5.0, 1)
    total = times.span("total", "vllm", warm=True)
    assert total is not None and total.p90 == 56.0
    assert times.span("pull", "another") is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (PodFacts("x", image="vllm", created_at=1000.0), 1000.0 + 2 + 100 + 60),
        (PodFacts("x", node="n9", image="vllm", created_at=1000.0, scheduled_at=1007.0), 1007.0 + 100 + 60),
        (PodFacts("x", node="n1", image="vllm", created_at=1000.0, scheduled_at=1007.0), 1007.0 + 5 + 50),
        (PodFacts("x", node="n9", image="vllm", created_at=0.0, scheduled_at=1.0, running_at=1100.0), 1100.0 + 60),
        (PodFacts("x", image="never seen", created_at=1000.0), None),
    ],
    ids=["no node yet", "on a cold node", "on a warm node", "loading", "another image"],
)
def test_a_pod_on_its_way_is_expected_when_nine_of_ten_like_it_were_ready(
    facts: PodFacts, expected: float | None
) -> None:
    times = StartTimes().learn([pod("a", "n1", 0.0, 2.0, 100.0, 60.0), pod("b", "n1", 200.0, 1.0, 5.0, 50.0)])
    assert times.expected_ready_at(facts) == expected


def test_a_pod_that_fell_and_came_back_teaches_nothing() -> None:
    fell = PodFacts(
        "a", "a", "n", ready=True, image="vllm", created_at=0, scheduled_at=1, running_at=900, ready_at=950, restarts=1
    )
    assert StartTimes().learn([fell]) == StartTimes()


@pytest.mark.parametrize(
    ("text", "path", "by_ordinal"),
    [
        ("deployment/vllm", "/apis/apps/v1/namespaces/ns/deployments/vllm", False),
        ("deploy/vllm", "/apis/apps/v1/namespaces/ns/deployments/vllm", False),
        ("StatefulSets/vllm", "/apis/apps/v1/namespaces/ns/statefulsets/vllm", True),
        ("lws/vllm", "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets/vllm", True),
        ("widgets.v1beta1.example.com/w", "/apis/example.com/v1beta1/namespaces/ns/widgets/w", False),
    ],
)
def test_a_workload_is_named_as_kubectl_names_it(text: str, path: str, by_ordinal: bool) -> None:
    found = workload(text, "ns")
    assert (found.path, found.by_ordinal) == (path, by_ordinal)


@pytest.mark.parametrize("text", ["vllm", "/vllm", "deployment/", "pod/vllm", "a.b/c", "deployment/a/b"])
def test_what_names_no_workload_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"KIND/NAME|PLURAL\.VERSION\.GROUP"):
        workload(text, "ns")
