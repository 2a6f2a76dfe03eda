"""Builders of situations for policy tests; every default is a calm, covered pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policies.situation import Limits, ReplicaFacts, Situation

Make = Callable[..., Situation]


def make_replica(name: str, **facts: Any) -> ReplicaFacts:
    calm: dict[str, Any] = {"waiting": 0.0, "running": 2.0, "kv_usage": 0.2, "preempt_rate": 0.0, "streams": 2}
    return ReplicaFacts(name, facts.pop("state", "ok"), **{**calm, **facts})


def make_situation(live: int = 2, *, replicas: tuple[ReplicaFacts, ...] | None = None, **facts: Any) -> Situation:
    """`live` calm replicas, or the ones given; `want` is their number unless told."""
    each = facts.pop("each", {})
    members = replicas if replicas is not None else tuple(make_replica(f"r{i}", **each) for i in range(live))
    given: dict[str, Any] = {
        "now": 1000.0,
        "pool": "chat",
        "model": "m",
        "want": len(members),
        "limits": Limits(minimum=1, maximum=20, stabilise_down_s=60.0),
        "covered": True,
        "interval_s": 10.0,
    }
    return Situation(replicas=members, **{**given, **facts})


@pytest.fixture
def situation() -> Make:
    return make_situation


@pytest.fixture
def replica() -> Callable[..., ReplicaFacts]:
    return make_replica
