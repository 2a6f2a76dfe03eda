"""The one normaliser: a scanned page and the tables in, canonical values with reasons for what is unknown out.

It must not know an engine by name, only tables; where a field's samples lie is `binding`'s, hazards that need more than
a table are in `hazards`. Unknown is not zero: an absent family, a HELP without samples, NaN, a sentinel, a damaged line
all give None. The trap: what is decided here must depend on values only, since the rest is worked out once for all
pages of a layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.domain.records import RankLoad, Sample
from opsconsole.observe.dialects import DIALECTS, hazards
from opsconsole.observe.dialects.binding import STEPS, Binding, Bound, Places, bind
from opsconsole.observe.dialects.collapse import (
    SENTINEL,
    Row,
    Scalar,
    buckets,
    checked,
    each,
    key_of,
    parts_of,
    rescaled,
    scalar,
    total_of,
    totals,
)
from opsconsole.observe.dialects.names import NameIndex
from opsconsole.observe.dialects.reading import Reading, to_sample
from opsconsole.observe.dialects.table import Dialect, Field, Kind
from opsconsole.observe.exposition import Page, SeriesMemo


def new_memo() -> SeriesMemo:
    """The scanner's memory for every name the tables want; share one over all replicas of a process."""
    return SeriesMemo(NameIndex(DIALECTS))


def normalise(page: Page, at: float, replica: str) -> Sample:
    """A page as a sample; never raises for what is on the page."""
    return to_sample(read(page, at), at, replica)


def read(page: Page, at: float | None = None, dialects: Sequence[Dialect] = DIALECTS) -> Reading:
    """A page in canonical words. `at` is the time of the scrape, for what the page tells as a time."""
    bound = bind(page, dialects)
    reading = Reading(auxiliary=tuple(dialect.engine for dialect, _ in bound.beside))
    if page.truncated:
        reading.flag("truncated")
    if page.bad_count:
        reading.flag("bad_lines")
    if bound.repeated:
        reading.flag("duplicate_series")
    main = bound.engine
    if main is not None:
        _read_engine(reading, main, bound, page)
        hazards.check(reading, _infos(bound, page), page, at)
    for dialect, fields in bound.beside:  # what speaks beside the engine adds fields and never replaces the engine's
        _read_fields(reading, fields, dialect, page)
    if main is None:
        reading.flag("engine_stats_absent")
    elif not any(name for name in reading.values if name != "process_start"):
        reading.flag("no_samples")
    return reading


def _read_engine(reading: Reading, main: Dialect, bound: Binding, page: Page) -> None:
    reading.engine, reading.title, reading.versions = main.engine, main.title, bound.versions
    _read_fields(reading, bound.fields, main, page)
    reading.model, reading.ranks, reading.wrapped_by = bound.model, bound.ranks, bound.wrapped_by
    if bound.by_rank:
        reading.by_rank = tuple(_rank_load(rank, fields, main, page) for rank, fields in bound.by_rank)
    for flag in bound.flags:
        reading.flag(flag)


def _rank_load(rank: str, fields: Sequence[Bound], dialect: Dialect, page: Page) -> RankLoad:
    """What one rank tells of itself; its steps are unknown where any part of them is."""
    own = Reading()
    _read_fields(own, fields, dialect, page)
    told = [value for name in STEPS if (value := own.number(name)) is not None]
    steps = sum(told) if told and STEPS.isdisjoint(own.unknown) else None
    return RankLoad(rank, own.number("running"), own.number("waiting"), steps)


def _infos(bound: Binding, page: Page) -> list[Row]:
    """The samples whose labels only the hazards read."""
    return [row for field in bound.fields if field.name.label == "*" for row in _rows(page, field.places)]


def _rows(page: Page, places: Places) -> list[Row]:
    return [(page.series[i], page.values[i]) for i in places]


def _read_fields(reading: Reading, fields: Sequence[Bound], dialect: Dialect, page: Page) -> None:
    for bound in fields:
        if bound.row.name in reading.values:
            continue
        if bound.incomplete:  # a sum of the parts would be too low
            reading.unknown[bound.row.name] = f"{bound.name.family} is absent"
        elif bound.name.family in page.damaged:
            reading.unknown[bound.row.name] = "a line of it could not be read"
        else:
            _read_field(reading, bound, dialect, page)


def _read_field(reading: Reading, bound: Bound, dialect: Dialect, page: Page) -> None:
    row = bound.row
    reading.names[row.name] = bound.name.family
    reading.unknown.pop(row.name, None)
    if bound.single is not None and 0 <= (value := page.values[bound.single]) < SENTINEL:
        reading.values[row.name] = value  # most fields of most pages
    elif row.kind is Kind.HISTOGRAM:
        _read_histogram(reading, bound, dialect, page)
    elif row.kind is Kind.INFO:
        if bound.told is not None:
            _store(reading, row, bound.told)
    elif row.kind is Kind.EACH:
        _read_each(reading, bound, dialect, page)
    else:
        _read_number(reading, bound, dialect, page)


def _parts(bound: Bound, dialect: Dialect, page: Page) -> tuple[list[float], Sequence[str | None]]:
    """The values that add up to the field, and the keys they are told by where it is told by a label."""
    if bound.parts is not None:
        return [page.values[i] for i in bound.parts], bound.keys
    rows = parts_of(_rows(page, bound.places), dialect)
    return [value for _, value in rows], [key_of(series, bound.row.by) for series, _ in rows]


def _read_number(reading: Reading, bound: Bound, dialect: Dialect, page: Page) -> None:
    row = bound.row
    values, keys = _parts(bound, dialect, page)
    total = scalar(values, row.kind, bound.name.scale)
    _store(reading, row, _with_more(total, bound, dialect, page) if bound.plus else total)
    by_label = totals(keys, values) if row.by else None
    if by_label is not None:
        reading.values[row.name] = by_label


def _read_each(reading: Reading, bound: Bound, dialect: Dialect, page: Page) -> None:
    row, name = bound.row, bound.name
    values, keys = _parts(bound, dialect, page)
    found, blank = each(keys, values, name.scale, name.limit)
    if blank:
        reading.flag("blank_values")
    if found:
        reading.values[row.name] = found
    else:
        reading.unknown[row.name] = "blank"


def _read_histogram(reading: Reading, bound: Bound, dialect: Dialect, page: Page) -> None:
    values = page.values
    if bound.bounds is not None and bound.pick is not None:
        count, total = total_of([values[i] for i in bound.counts]), total_of([values[i] for i in bound.sums])
        found, why = checked(bound.bounds, bound.pick(values), count, total)
    else:
        rows, sums, counts = (_rows(page, places) for places in (bound.places, bound.sums, bound.counts))
        found, why = buckets(rows, sums, counts, dialect)
    if found is None:
        reading.unknown[bound.row.name] = why
    else:
        scale = bound.name.scale
        reading.values[bound.row.name] = found if scale == 1.0 else rescaled(found, scale)


def _store(reading: Reading, row: Field, found: Scalar) -> None:
    if found.value is None:
        reading.unknown[row.name] = found.why
        return
    reading.values[row.name if not row.by else f"{row.name}_total"] = found.value
    if found.mean is not None:
        reading.values[f"{row.name}_mean"] = found.mean


def _with_more(found: Scalar, bound: Bound, dialect: Dialect, page: Page) -> Scalar:
    """Add what is told apart from the first; one unknown part makes the whole unknown."""
    for name, places in bound.plus:
        if found.value is None:
            break
        extra = scalar([value for _, value in parts_of(_rows(page, places), dialect)], bound.row.kind, name.scale)
        if extra.value is None:
            return Scalar(None, f"{name.family}: {extra.why}")
        found = Scalar(found.value + extra.value)
    return found
