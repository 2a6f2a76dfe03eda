"""Objects for the others who hold the pen."""

from __future__ import annotations

from opsconsole.deploy.handover import Handover, adapter_rule, autoscaler, scaled_object

CHAT = Handover("chat", "Deployment", "vllm", "apps/v1", "llm", 0, 8, "opsconsole.llm.svc:6000")


def test_keda_asks_our_scaler_for_the_pool_and_keeps_what_is_there_when_it_fails() -> None:
    spec = scaled_object(CHAT)["spec"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "external-push"
    assert trigger["metadata"] == {"scalerAddress": "opsconsole.llm.svc:6000", "pool": "chat"}
    assert spec["fallback"]["behavior"] == "currentReplicas"
    assert spec["fallback"]["replicas"] > 0  # with 0 KEDA would go to zero while the scaler fails
    assert min(spec["cooldownPeriod"], spec["initialCooldownPeriod"]) >= 300  # ... and while it hangs
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 8)


def test_an_hpa_cannot_have_a_minimum_of_zero() -> None:
    spec = autoscaler(CHAT)["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 8)
    (metric,) = spec["metrics"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}
    assert metric["external"]["metric"]["selector"] == {"matchLabels": {"pool": "chat"}}


def test_what_was_decided_is_brought_about_at_once_and_to_the_replica() -> None:
    for behavior in (
        scaled_object(CHAT)["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        autoscaler(CHAT)["spec"]["behavior"],
    ):
        for way in ("scaleUp", "scaleDown"):
            assert (behavior[way]["stabilizationWindowSeconds"], behavior[way]["tolerance"]) == (0, "0")


def test_several_daemons_do_not_multiply_the_count() -> None:
    (rule,) = adapter_rule()["externalRules"]
    assert rule["metricsQuery"].startswith("max(")
    assert rule["name"]["matches"] == autoscaler(CHAT)["spec"]["metrics"][0]["external"]["metric"]["name"]
