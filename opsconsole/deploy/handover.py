"""Objects by which an HPA or KEDA brings about the count that the daemon publishes.

Pure. The traps: stabilisation belongs to one side. The daemon has waited and drained before it publishes a lower count,
so the HPA's own scale-down window is 0 here; two windows in a row would keep drained replicas for minutes. And an HPA
leaves a change of a tenth or less alone, so that 10 would stay 10 when 11 are asked for: its tolerance is 0 here, which
Kubernetes heeds from 1.35 on (1.33 with the feature gate HPAConfigurableTolerance).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

METRIC = "opsconsole_desired_replicas"
# KEDA 2.21 at times takes a scaler that fails for an idle one (two of its own loops get in each other's way), and one
# that hangs always, a minute later. It then goes to zero, where that is the minimum and nothing was active of late.
# While a scaler answers with errors its fallback counts as active; one that hangs or died is back within these seconds.
COOLDOWN_S = 300


def _by_percent(most: int) -> dict[str, Any]:
    policies = [{"type": "Percent", "value": most, "periodSeconds": 15}]
    return {"stabilizationWindowSeconds": 0, "tolerance": "0", "policies": policies}


AT_ONCE = {"scaleUp": _by_percent(1000), "scaleDown": _by_percent(100)}


@dataclass(frozen=True, slots=True)
class Handover:
    """A pool whose scale is another's: the workload by kind and API, its bounds, and where the daemon answers."""

    pool: str
    kind: str
    name: str
    api_version: str
    namespace: str
    minimum: int
    maximum: int
    scaler: str  # HOST:PORT of the external scaler
    cooldown_s: int = COOLDOWN_S

    @property
    def target(self) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}


def scaled_object(of: Handover) -> dict[str, Any]:
    """KEDA's ScaledObject with our external scaler. On failure KEDA keeps the replicas there are."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": of.name, "namespace": of.namespace},
        "spec": {
            "scaleTargetRef": of.target,
            "minReplicaCount": of.minimum,
            "maxReplicaCount": of.maximum,
            "pollingInterval": 5,
            "cooldownPeriod": of.cooldown_s,
            "initialCooldownPeriod": of.cooldown_s,  # before anything was active
            # KEDA takes `currentReplicas` literally: while the count is unknown, what is there stays
            "fallback": {"failureThreshold": 3, "replicas": max(1, of.minimum), "behavior": "currentReplicas"},
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": AT_ONCE}},
            "triggers": [
                {
                    "type": "external-push",
                    "metricType": "AverageValue",
                    "metadata": {"scalerAddress": of.scaler, "pool": of.pool},
                }
            ],
        },
    }


def autoscaler(of: Handover) -> dict[str, Any]:
    """An HPA on the published count as an external metric, target 1. A missing metric changes nothing."""
    metric = {"name": METRIC, "selector": {"matchLabels": {"pool": of.pool}}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": of.name, "namespace": of.namespace},
        "spec": {
            "scaleTargetRef": of.target,
            "minReplicas": max(1, of.minimum),
            "maxReplicas": of.maximum,
            "behavior": AT_ONCE,
            "metrics": [
                {
                    "type": "External",
                    "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}},
                }
            ],
        },
    }


def adapter_rule() -> dict[str, Any]:
    """What prometheus-adapter needs in its `externalRules` to answer with the published count."""
    return {
        "externalRules": [
            {
                "seriesQuery": f'{METRIC}{{pool!=""}}',
                "resources": {"namespaced": False},
                "name": {"matches": METRIC},
                # several daemons show the same count; max is one of them, a sum would multiply it
                "metricsQuery": "max(<<.Series>>{<<.LabelMatchers>>}) by (pool)",
            }
        ]
    }
