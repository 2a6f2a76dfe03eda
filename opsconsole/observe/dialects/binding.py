"""What is on a page, apart from its values: whose page it is, and where the samples of every field lie.

A pure function of the series and their types, so one binding serves every page of a layout. It must not look at a
value. The trap: picking the engine by one family; pages of Dynamo and Ray carry other people's families too, so the
tables have a precedence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ge, itemgetter
from weakref import WeakKeyDictionary

from opsconsole.observe.dialects.collapse import Scalar, key_of, may_repeat, shared_bounds, undivided
from opsconsole.observe.dialects.names import wrapper_of
from opsconsole.observe.dialects.table import Dialect, Field, Kind, Name
from opsconsole.observe.dialects.versions import version_range
from opsconsole.observe.exposition import Page, Series
from opsconsole.observe.layout import Layout

Places = tuple[int, ...]  # of samples on the page
Slots = dict[tuple[str, str], list[int]]
_NOWHERE: list[int] = []
_VALUE_PARTS = ("total", "")
_PLAIN = (Kind.GAUGE, Kind.COUNTER, Kind.LEVEL)
LOAD = frozenset({"running", "waiting"})
STEPS = frozenset({"prompt_tokens", "generation_tokens", "finished", "finished_total"})


@dataclass(frozen=True, slots=True)
class Bound:
    """One field of a table, found on the page."""

    row: Field
    name: Name
    places: Places
    plus: tuple[tuple[Name, Places], ...] = ()
    parts: Places | None = None  # what adds up to the field; None where some of it may be told twice
    single: int | None = None  # the place of the one sample that is the field as it stands
    keys: tuple[str | None, ...] = ()  # of the parts, where the field is told by a label
    told: Scalar | None = None  # of an info: its data are labels
    sums: Places = ()
    counts: Places = ()
    bounds: tuple[float, ...] | None = None  # of a histogram that is one group of buckets in order, without copies
    pick: Callable[[Sequence[float]], tuple[float, ...]] | None = None  # the counts of that group
    incomplete: bool = False  # only parts beside the first name are there


@dataclass(frozen=True, slots=True)
class Binding:
    """A page's structure. `engine` None: nothing of any engine we know."""

    engine: Dialect | None
    fields: tuple[Bound, ...] = ()
    beside: tuple[tuple[Dialect, tuple[Bound, ...]], ...] = ()  # what else speaks on the page
    places: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    model: str | None = None
    versions: str = ""
    ranks: int | None = None
    by_rank: tuple[tuple[str, tuple[Bound, ...]], ...] = ()  # load and steps of each, where there are two or more
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


def _fields(
    dialect: Dialect, places: Slots, series: Sequence[Series], names: frozenset[str] | None = None
) -> tuple[Bound, ...]:
    """All fields of a table that are on the page, or those named."""
    rows = [row for row in dialect.fields if names is None or row.name in names]
    found = [_field(row, dialect, places, series) for row in rows]
    return tuple(bound for bound in found if bound is not None)


def _field(row: Field, dialect: Dialect, places: Slots, series: Sequence[Series]) -> Bound | None:
    plus = tuple((part, tuple(_where(part, row.kind, places, series))) for part in row.plus)
    plus = tuple(part for part in plus if part[1])
    for name in row.names:
        at = _where(name, row.kind, places, series)
        if not at:
            continue
        if row.kind is not Kind.HISTOGRAM:
            return _scalar_field(Bound(row, name, tuple(at), plus), dialect, series)
        sums, counts = (tuple(places.get((name.family, part), ())) for part in ("sum", "count"))
        bounds = _plain_bounds([series[i] for i in at], dialect)
        return Bound(row, name, tuple(at), plus, sums=sums, counts=counts, bounds=bounds, pick=itemgetter(*at))
    return Bound(row, row.names[0], (), plus, incomplete=True) if plus else None


def _scalar_field(bound: Bound, dialect: Dialect, series: Sequence[Series]) -> Bound:
    """With what the labels alone say of a gauge, a counter or an info."""
    if bound.row.kind is Kind.INFO:
        return replace(bound, told=_info(bound.row, bound.name, [series[i] for i in bound.places]))
    rows = undivided([(series[i], i) for i in bound.places], dialect.total_labels)
    if may_repeat(rows, dialect.copy_labels):
        return bound
    row, parts = bound.row, tuple(i for _, i in rows)
    keys = tuple(key_of(key, row.by) for key, _ in rows) if row.by else ()
    is_plain = row.kind in _PLAIN and len(parts) == 1 and bound.name.scale == 1.0 and not (bound.plus or row.by)
    return replace(bound, parts=parts, keys=keys, single=parts[0] if is_plain else None)


def _info(row: Field, name: Name, series: Sequence[Series]) -> Scalar | None:
    """Labels are `str()` of the engine's own values: "None" occurs. Ranks repeat sizes and share nothing."""
    if name.label == "*":
        return None  # the hazards read it
    found = [_parsed(each.labels.get(name.label, "")) for each in series]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return Scalar(None, f"{name.label} is not told")
    return Scalar(known[0] if row.name == "block_size" else sum(known))


def _parsed(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e15 else None


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
    if len(known) < max(2, len(bounds)) or known[-1] != math.inf or any(map(ge, known, known[1:])):
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
            self.ranks.add(_rank(series, self.dialect))


def _rank(series: Series, dialect: Dialect) -> str:
    return "/".join(series.labels.get(label, "") for label in dialect.rank_labels)


def _by_rank(
    ranks: set[str], dialect: Dialect, places: Slots, series: Sequence[Series]
) -> tuple[tuple[str, tuple[Bound, ...]], ...]:
    """Each rank's own fields, as if it were alone on the page."""
    named = sorted((rank for rank in ranks if rank.strip("/")), key=lambda rank: (len(rank), rank))
    if len(named) < 2:
        return ()
    own: dict[str, Slots] = {rank: {} for rank in named}
    for slot, found in places.items():
        for index in found:
            rank = _rank(series[index], dialect)
            if rank in own:
                own[rank].setdefault(slot, []).append(index)
    return tuple((rank, _fields(dialect, own[rank], series, LOAD | STEPS)) for rank in named)


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
    return replace(
        made,
        model=seen.models[0] if seen.models else None,
        versions=version_range(dialect, {bound.row.name: bound.name.family for bound in reversed(made.fields)}),
        ranks=len(seen.ranks) or None,
        by_rank=_by_rank(seen.ranks, dialect, places, series),
        wrapped_by=seen.wrapped_by,
        flags=tuple(seen.flags),
    )
