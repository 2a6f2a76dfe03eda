"""Results kept for as long as what they were made from is the same.

A key moves the cursor and leaves the fleet as it is, so what a thousand replicas cost is paid once a tick and not once
a key; and a tick leaves most panels as they are. It must not know what is computed. The traps: a snapshot is known by
its identity, as comparing two of a thousand replicas would cost what is saved; and a key has to name all that a result
was made from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
KEPT = 8


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


def kept_by(key: Callable[P, tuple[Any, ...]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Remember the results used last by a key, which is compared by value; parts that are the same cost nothing."""

    def keeping(make: Callable[P, R]) -> Callable[P, R]:
        held: list[tuple[tuple[Any, ...], R]] = []  # used last, first

        @wraps(make)
        def found(*args: P.args, **kwargs: P.kwargs) -> R:
            asked = key(*args, **kwargs)
            for place, (given, result) in enumerate(held):
                if given == asked:
                    if place:
                        held.insert(0, held.pop(place))
                    return result
            made = make(*args, **kwargs)
            held.insert(0, (asked, made))
            del held[KEPT:]
            return made

        return found

    return keeping
