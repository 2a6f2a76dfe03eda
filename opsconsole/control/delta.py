"""The difference between two states of plain JSON data, and putting it back.

A policy's memory is journalled at every tick and mostly stays as it was; the journal keeps what changed. The trap:
a key that went away is not a key set to null, so deletions are listed by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What turns `before` into `after`: {"set": {...}, "in": {key: difference}, "del": [...]}, empty parts left out."""
    changed: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if key in before and isinstance(value, Mapping) and isinstance(old, Mapping):
            deeper = difference(old, value)
            if deeper:
                inside[key] = deeper
        elif key not in before or old != value:
            changed[key] = value
    gone = sorted(key for key in before if key not in after)
    parts = (("set", changed), ("in", inside), ("del", gone))
    return {name: part for name, part in parts if part}


def patched(before: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with a difference put on top."""
    out = {key: value for key, value in before.items() if key not in set(delta.get("del", ()))}
    out.update(delta.get("set", {}))
    for key, deeper in delta.get("in", {}).items():
        out[key] = patched(out[key], deeper)
    return out
