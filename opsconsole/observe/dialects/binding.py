"""What is on a page, apart from its values: whose page it is, and where the samples of every field lie.

A pure function of the series and their types, so one binding serves every page of a layout. It must not look at a
value. The trap: picking the engine by one family; pages of Dynamo and Ray carry other people's families too, so the
tables have a precedence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ge
from weakref import WeakKeyDictionary

from opsconsole.observe.dialects.collapse import shared_bounds
from opsconsole.observe.dialects.names import wrapper_of
from opsconsole.observe.dialects.table import Dialect, Field, Kind, Name
from opsconsole.observe.exposition import Page, Series
from opsconsole.observe.layout import Layout

Places = tuple[int, ...]  # of samples on the page
Slots = dict[tuple[str, str], list[int]]
_NOWHERE: list[int] = []
_VALUE_PARTS = ("total", "")


@dataclass(frozen=True, slots=True)
class Bound:
    """One field of a table, found on the page."""

    row: Field
    name: Name
    places: Places
    plus: tuple[tuple[Name, Places], ...] = ()
    sums: Places = ()
    counts: Places = ()
    bounds: tuple[float, ...] | None = None  # of a histogram that is one group of buckets in order, without copies
    incomplete: bool = False  # only parts beside the first name are there


@dataclass(frozen=True, slots=True)
class Binding:
    """A page's structure. `engine` None: nothing of any engine we know."""

    engine: Dialect | None
    fields: tuple[Bound, ...] = ()
    beside: tuple[tuple[Dialect, tuple[Bound, ...]], ...] = ()  # what else speaks on the page
    places: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    model: str | None = None
    ranks: int | None = None
    wrapped_by: str | None = None
    flags: tuple[str, ...] = ()
    repeated: bool = False  # a key is there twice; the last stands


_BINDINGS: WeakKeyDictionary[Layout, tuple[Sequence[Dialect], Binding]] = WeakKeyDictionary()


def bind(page: Page, dialects: Sequence[Dialect]) -> Binding:
    """The page's binding, remembered with its layout where it has one."""
    known = None if page.layout is None else _BINDINGS.get(page.layout)
    if known is not None and known[0] is dialects:
        return known[1]
    found = _bind(page, dialects)
    if page.layout is not None:
        _BINDINGS[page.layout] = (dialects, found)
    return found


def _bind(page: Page, dialects: Sequence[Dialect]) -> Binding:
    series = page.series
    last = {key: index for index, key in enumerate(series)}  # a key told twice: the last, as Prometheus' parser has it
    places: Slots = {}
    for key, index in last.items():
        places.setdefault(key.slot, []).append(index)
    families = {family for family, _ in places}
    present = [d for d in dialects if _is_present(d, places, series, families | page.types.keys())]
    main = next((d for d in present if not d.auxiliary), None)
    # an auxiliary table is there by its samples: a TYPE line alone adds nothing
    others = [d for d in dialects if d.auxiliary and d is not main and _is_present(d, places, series, families)]
    made = Binding(
        main,
        () if main is None else _fields(main, places, series),
        tuple((d, _fields(d, places, series)) for d in others),
        places,
        repeated=len(last) < len(series),
    )
    return made if main is None else _identified(made, main, places, series)


def _is_present(dialect: Dialect, places: Slots, series: Sequence[Series], families: set[str]) -> bool:
    if dialect.prefixes and any(family.startswith(dialect.prefixes) for family in families):
        return True
    if any(family in families for family in dialect.fingerprints):
        return True
    return dialect.label_fingerprint is not None and _has_label(dialect, places, series)


def _has_label(dialect: Dialect, places: Slots, series: Sequence[Series]) -> bool:
    label, value = dialect.label_fingerprint or ("", "")
    wanted = {family for row in dialect.fields for family in row.families()}
    firsts = [series[found[0]].labels for (family, _), found in places.items() if family in wanted]
    return any(label in labels and value in ("", labels[label]) for labels in firsts)


def _fields(dialect: Dialect, places: Slots, series: Sequence[Series]) -> tuple[Bound, ...]:
    found = []
    for row in dialect.fields:
        bound = _field(row, dialect, places, series)
        if bound is not None:
            found.append(bound)
    return tuple(found)


def _field(row: Field, dialect: Dialect, places: Slots, series: Sequence[Series]) -> Bound | None:
    plus = tuple((part, tuple(_where(part, row.kind, places, series))) for part in row.plus)
    plus = tuple(part for part in plus if part[1])
    for name in row.names:
        at = _where(name, row.kind, places, series)
        if not at:
            continue
        if row.kind is not Kind.HISTOGRAM:
            return Bound(row, name, tuple(at), plus)
        sums, counts = (tuple(places.get((name.family, part), ())) for part in ("sum", "count"))
        return Bound(row, name, tuple(at), plus, sums, counts, _plain_bounds([series[i] for i in at], dialect))
    return Bound(row, row.names[0], (), plus, incomplete=True) if plus else None


def _where(name: Name, kind: Kind, places: Slots, series: Sequence[Series]) -> list[int]:
    """The samples of a name: for counters `_total` before the bare spelling, for histograms the buckets."""
    if kind is Kind.HISTOGRAM:
        return places.get((name.family, "bucket"), _NOWHERE)
    for part in (name.part,) if name.part else _VALUE_PARTS:
        at = places.get((name.family, part), _NOWHERE)
        if at and name.where:
            label, values = name.where[0], name.where[1:]
            at = [index for index in at if series[index].labels.get(label) in values]
        if at:
            return at
    return _NOWHERE


def _plain_bounds(buckets: Sequence[Series], dialect: Dialect) -> tuple[float, ...] | None:
    """The bounds of the usual histogram, one group in order; None for what has to be aligned first."""
    bounds = [series.le for series in buckets]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds) or known[-1] != math.inf or any(map(ge, known, known[1:])):
        return None
    labels = buckets[0].labels
    copied = not labels.keys().isdisjoint(dialect.copy_labels)
    totalled = any(labels.get(label) == "" for label in dialect.total_labels)
    return None if copied or totalled or any(b != b for b in known) else shared_bounds(tuple(known))


@dataclass(slots=True)
class _Identity:
    """What labels say of who speaks, collected series by series."""

    dialect: Dialect
    models: list[str] = field(default_factory=list)
    ranks: set[str] = field(default_factory=set)
    wrapped_by: str | None = None
    flags: dict[str, None] = field(default_factory=dict)

    def see(self, series: Series, *, tells_load: bool) -> None:
        labels = series.labels
        if self.wrapped_by is None:
            self.wrapped_by = wrapper_of(series.name) or ("dynamo" if "dynamo_component" in labels else None)
        if "worker_addr" in labels or "server" in labels:
            self.flags["router_view"] = None  # a router's view of several engines, not an engine
        for label in self.dialect.model_labels:
            model = labels.get(label, "")
            if model and model != "undefined" and model not in self.models:
                self.models.append(model)
        if tells_load:
            self.ranks.add("/".join(labels.get(label, "") for label in self.dialect.rank_labels))


def _identified(made: Binding, dialect: Dialect, places: Slots, series: Sequence[Series]) -> Binding:
    """Model and ranks, from the gauges of load first: V0 names a LoRA adapter as the model of a request."""
    seen = _Identity(dialect)
    for row in dialect.fields:
        tells_load = row.kind in (Kind.GAUGE, Kind.OCCUPANCY)
        if row.name == "process_start" or (seen.models and not tells_load):
            continue
        for name in row.names:
            for index in _where(name, row.kind, places, series):
                seen.see(series[index], tells_load=tells_load)
    if len(seen.models) > 1:
        seen.flags["several_models"] = None
    model = seen.models[0] if seen.models else None
    return replace(
        made, model=model, ranks=len(seen.ranks) or None, wrapped_by=seen.wrapped_by, flags=tuple(seen.flags)
    )
