"""Results kept for as long as the snapshot or world they were made from is the one shown.

A key moves the cursor and leaves the fleet as it is, so what a thousand replicas cost is paid once a tick and not once
a key. It must not know what is computed. The trap: a snapshot is known by its identity, as comparing two of a thousand
replicas would cost what is saved; so nothing may be kept that was made from anything else that changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
KEPT = 6


def while_shown(make: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Remember the newest few results for one first argument; what is asked beside it is compared by value."""
    held: deque[tuple[S, tuple[Any, ...], R]] = deque(maxlen=KEPT)

    @wraps(make)
    def found(snapshot: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if held and held[0][0] is not snapshot:
            held.clear()
        given = (*args, *kwargs.items())
        for _, asked, result in held:
            if asked == given:
                return result
        made = make(snapshot, *args, **kwargs)
        held.append((snapshot, given, made))
        return made

    return found
