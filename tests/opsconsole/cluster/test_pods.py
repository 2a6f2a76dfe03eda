"""Facts of a pod: how far its start is and what keeps it, and what its command line loads."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.cluster.pods import UNSCHEDULABLE_AFTER_S, facts, unix

STAMP = "2026-11-30T06:00:00Z"
SINCE = unix(STAMP) or 0.0
NO_ROOM = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def pod(status: dict[str, Any], **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "engine", "image": "vllm:1", **container}]}
    return {"metadata": {"name": "vllm-1", "creationTimestamp": STAMP}, "spec": spec, "status": status}


def scheduled(*containers: dict[str, Any]) -> dict[str, Any]:
    states = [{"state": state} for state in containers]
    return {"conditions": [{"type": "PodScheduled", "status": "True"}], "containerStatuses": states}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}


@pytest.mark.parametrize(
    ("status", "after_s", "phase", "why"),
    [
        ({}, 0.0, "pending", None),
        ({"conditions": [{**REFUSED, "lastTransitionTime": STAMP}]}, 1.0, "pending", NO_ROOM),
        (
            {"conditions": [{**REFUSED, "lastTransitionTime": STAMP}]},
            UNSCHEDULABLE_AFTER_S - 1,
            "pending",
            NO_ROOM,
        ),
        ({"conditions": [{**REFUSED, "lastTransitionTime": STAMP}]}, UNSCHEDULABLE_AFTER_S, "unschedulable", NO_ROOM),
        (scheduled(), 999.0, "pull", None),
        (scheduled(waiting("ContainerCreating")), 0.0, "pull", "ContainerCreating"),
        (scheduled(waiting("ImagePullBackOff")), 0.0, "pull", "ImagePullBackOff"),
        (scheduled(waiting("CrashLoopBackOff")), 0.0, "failing", "CrashLoopBackOff"),
        (scheduled({"running": {"startedAt": STAMP}}), 0.0, "load", None),
        (scheduled({"running": {}}, waiting("CrashLoopBackOff")), 0.0, "failing", "CrashLoopBackOff"),
    ],
)
def test_a_start_is_told_by_its_phase_and_what_keeps_it(
    status: dict[str, Any], after_s: float, phase: str, why: str | None
) -> None:
    found = facts(pod(status), SINCE + after_s)
    assert found is not None
    assert (found.phase, found.why, found.ready) == (phase, why, False)


@pytest.mark.parametrize(
    ("container", "runs"),
    [
        ({"args": ["--model", "Qwen/Qwen2.5-7B-Instruct"]}, "vllm:1 Qwen/Qwen2.5-7B-Instruct"),
        ({"args": ["--port=8000", "--model=big"]}, "vllm:1 big"),
        ({"command": ["vllm", "serve"], "args": ["small", "--max-model-len", "4096"]}, "vllm:1 small"),
        ({"command": ["python", "-m", "sglang.launch_server", "--model-path", "/models/x"]}, "vllm:1 /models/x"),
        ({"command": ["vllm", "serve", "--port", "1"]}, "vllm:1"),
        ({"args": ["--model"]}, "vllm:1"),
        ({}, "vllm:1"),
    ],
)
def test_what_it_runs_is_its_image_and_the_model_it_is_told_to_load(container: dict[str, Any], runs: str) -> None:
    found = facts(pod({}, **container))
    assert found is not None and found.runs == runs


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_one_that_is_over_is_nobody(phase: str) -> None:
    assert facts(pod({"phase": phase})) is None
