"""Every law by name. Adding one is adding a file and a line here.

It must not decide. The trap: a knob that a law does not have is an error that names it, not a silent default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from policies.baselines.dynamo import DYNAMO_ARIMA, DYNAMO_CONSTANT, DYNAMO_KALMAN
from policies.baselines.hpa import HPA_GPU, HPA_KV, HPA_QUEUE, HPA_TTFT
from policies.baselines.keda_epp import KedaEpp
from policies.baselines.kpa import Kpa
from policies.baselines.oracle import BOUND, ORACLE
from policies.baselines.static import Static
from policies.baselines.wva import WvaV2
from policies.compose import PREDICTIVE_POLICY, REACTIVE_POLICY
from policies.decision import Policy

LAWS: tuple[Policy, ...] = (
    REACTIVE_POLICY,
    PREDICTIVE_POLICY,
    Static(),
    HPA_QUEUE,
    HPA_KV,
    HPA_GPU,
    HPA_TTFT,
    KedaEpp(),
    Kpa(),
    WvaV2(),
    DYNAMO_CONSTANT,
    DYNAMO_ARIMA,
    DYNAMO_KALMAN,
    ORACLE,
    BOUND,
)
REGISTRY: Mapping[str, Policy] = {law.name: law for law in LAWS}


def names() -> tuple[str, ...]:
    return tuple(sorted(REGISTRY))


def policy(name: str, **knobs: Any) -> Policy:
    """The law of that name, with its own knobs changed. ValueError names what is unknown and what there is."""
    if name not in REGISTRY:
        raise ValueError(f"policy {name!r} is unknown: use one of {', '.join(names())}")
    law = REGISTRY[name]
    known = {f.name for f in fields(law)}  # type: ignore[arg-type]
    for knob in knobs:
        if knob not in known:
            raise ValueError(f"policy {name!r} has no knob {knob!r}: it has {', '.join(sorted(known - {'name'}))}")
    return replace(law, **knobs) if knobs else law  # type: ignore[type-var]
