"""From a name as exposed to a slot: which family it belongs to after every rewriting we know of.

It must not know values or labels. Names are rewritten on their way (`ray_vllm_`, `kserve_vllm:`, `vllm_` after an
OpenMetrics negotiation), so they are folded before they are looked up. The trap: `_total` does not make a counter
(`vllm:iteration_tokens_total` is a histogram), so suffixes are looked up in the tables, never cut off by rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from opsconsole.observe.dialects.table import Dialect, Kind
from opsconsole.observe.exposition import Slot

WRAPPERS = ("ray_", "kserve_")


def fold(name: str) -> str:
    """Wrapper prefixes off, the first colon to an underscore: `ray_vllm:x` and `vllm_x` are one name."""
    folded = name.replace(":", "_", 1)
    for wrapper in WRAPPERS:
        if folded.startswith(wrapper):
            return folded[len(wrapper) :]
    return folded


def wrapper_of(name: str) -> str | None:
    """Who rewrote this name on its way, if somebody did."""
    return next((w[:-1] for w in WRAPPERS if name.startswith(w)), None)


class NameIndex:
    """Every name any table wants, with its slot; what is not here is not read."""

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self.slots: dict[str, Slot] = {}
        for dialect in dialects:
            for row in dialect.fields:
                for name in (*row.names, *row.plus):
                    self._add(name.family, row.kind)
                    if name.part:
                        self.slots[f"{name.family}_{name.part}"] = Slot(name.family, name.part)
            for family in dialect.fingerprints:
                self.slots.setdefault(family, Slot(family, ""))

    def __call__(self, name: str) -> Slot | None:
        folded = fold(name)
        slot = self.slots.get(folded)
        if slot is None and folded is not name:
            slot = self.slots.get(name)  # an engine whose own name begins like a wrapper
        return slot

    def _add(self, family: str, kind: Kind) -> None:
        self.slots.setdefault(family, Slot(family, ""))
        if kind is Kind.HISTOGRAM:
            for part in ("bucket", "sum", "count"):
                self.slots[f"{family}_{part}"] = Slot(family, part)
        elif kind is Kind.COUNTER:
            self.slots.setdefault(f"{family}_total", Slot(family, "total"))
