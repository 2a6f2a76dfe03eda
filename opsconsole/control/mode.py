"""Who may change what: the agent's mode, and the standing orders of people (pause, pin).

Pure values; it knows neither the API nor the database. The trap: a pause stops what the agent does by itself, in both
directions, and nothing else; minimum, pins and what people ask for go on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from opsconsole.control.settings import Mode
from opsconsole.domain.records import HoldView
from opsconsole.domain.wire import dumps, from_json
from opsconsole.errors import PlanRefused, UsageError

KINDS = ("pause", "resume", "pin")


def check_intent(allow_intents: bool) -> None:
    """Raise when confirmed human actions are not let through."""
    if not allow_intents:
        raise PlanRefused("This agent takes no orders: start it with --allow-intents to let confirmed actions through.")


def acts_by_itself(mode: Mode) -> bool:
    return mode is Mode.ACT


@dataclass(frozen=True, slots=True)
class Holds:
    """The standing orders in force. One of each kind a pool; "" stands for every pool."""

    items: tuple[HoldView, ...] = ()

    def apply(self, order: HoldView) -> Holds:
        """The orders after one more: a new one replaces its like, `resume` lifts pause and pin."""
        if order.kind not in KINDS:
            raise UsageError(f"{order.kind!r} is no order: use pause, resume or pin.")
        if order.kind == "pin" and (order.minimum is None or order.minimum < 0):
            raise UsageError("A pin needs a minimum of 0 or more.")
        if order.until is not None and order.until <= order.at:
            raise UsageError("An order must last longer than no time at all: give --for a duration above 0.")
        lifted = ("pause", "pin") if order.kind == "resume" else (order.kind,)
        # resuming every pool lifts each pool's own orders too
        kept = tuple(
            h for h in self.items if h.kind not in lifted or (h.pool != order.pool and not _covers(order, lifted, h))
        )
        return Holds(kept if order.kind == "resume" else (*kept, order))

    def current(self, now: float) -> Holds:
        """Without what has run out."""
        kept = tuple(h for h in self.items if h.until is None or h.until > now)
        return self if len(kept) == len(self.items) else replace(self, items=kept)

    def paused_until(self, pool: str, now: float) -> float | None:
        """Unix seconds until when automatic changes of the pool are paused; infinite when until resumed."""
        ends = [h.until if h.until is not None else math.inf for h in self._of("pause", pool, now)]
        return max(ends, default=None)

    def pinned_minimum(self, pool: str, now: float) -> int | None:
        return max((h.minimum for h in self._of("pin", pool, now) if h.minimum is not None), default=None)

    def notes(self, now: float) -> tuple[str, ...]:
        """Sentences for the screens."""
        return tuple(sentence(h, now) for h in self.current(now).items)

    def to_json(self) -> str:
        return dumps(list(self.items))

    @classmethod
    def from_data(cls, data: object) -> Holds:
        return cls(tuple(from_json(HoldView, item) for item in data)) if isinstance(data, list) else cls()

    def _of(self, kind: str, pool: str, now: float) -> tuple[HoldView, ...]:
        return tuple(h for h in self.current(now).items if h.kind == kind and h.pool in ("", pool))


def sentence(order: HoldView, now: float) -> str:
    """The order in words, with what is left of it and who gave it."""
    return words(order, now, f" by {order.by}")


def words(order: HoldView, now: float, by: str = "") -> str:
    """The order in words, for where it is said otherwise who gave it."""
    where = order.pool or "every pool"
    what = {
        "pause": f"{where} is paused",
        "pin": f"{where} is pinned at {order.minimum} or more",
        "resume": f"{where} is back on automatic",
    }[order.kind]
    left = "" if order.until is None else f" for {span(order.until - now)}"
    note = f": {order.note}" if order.note else ""
    return f"{what}{left}{by}{note}"


def span(seconds: float) -> str:
    """A duration for people: 90 s, 5 min, 1.5 h, 2 d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size or (unit == "h" and seconds >= size):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _covers(order: HoldView, lifted: tuple[str, ...], held: HoldView) -> bool:
    return order.kind == "resume" and order.pool == "" and held.kind in lifted
