"""Every law by name. Adding one is adding a file and a line here.

It must not decide. The trap: a knob that a law does not have is an error that names it, not a silent default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from policies.compose import PREDICTIVE_POLICY, REACTIVE_POLICY
from policies.decision import Policy

REGISTRY: Mapping[str, Callable[[], Policy]] = {
    "reactive": lambda: REACTIVE_POLICY,
    "predictive": lambda: PREDICTIVE_POLICY,
}


def names() -> tuple[str, ...]:
    return tuple(sorted(REGISTRY))


def policy(name: str, **knobs: Any) -> Policy:
    """The law of that name, with its own knobs changed. ValueError names what is unknown and what there is."""
    if name not in REGISTRY:
        raise ValueError(f"policy {name!r} is unknown: use one of {', '.join(names())}")
    law = REGISTRY[name]()
    known = {f.name for f in fields(law)}  # type: ignore[arg-type]
    for knob in knobs:
        if knob not in known:
            raise ValueError(f"policy {name!r} has no knob {knob!r}: it has {', '.join(sorted(known - {'name'}))}")
    return replace(law, **knobs) if knobs else law  # type: ignore[type-var]
