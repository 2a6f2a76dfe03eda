"""The one normaliser: a scanned page and the tables in, canonical values with reasons for what is unknown out.

It must not know an engine by name, only tables; where a field's samples lie is `binding`'s, hazards that need more than
a table are in `hazards`. Unknown is not zero: an absent family, a HELP without samples, NaN, a sentinel, a damaged line
all give None. The trap: what is decided here must depend on values only, since the rest is worked out once for all
pages of a layout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from opsconsole.domain.records import Sample
from opsconsole.observe.dialects import DIALECTS, hazards
from opsconsole.observe.dialects.binding import Binding, Bound, Places, bind
from opsconsole.observe.dialects.collapse import (
    Row,
    Scalar,
    breakdown,
    buckets,
    checked,
    each,
    rescaled,
    scalar,
    total_of,
)
from opsconsole.observe.dialects.names import NameIndex
from opsconsole.observe.dialects.reading import Reading, to_sample
from opsconsole.observe.dialects.table import Dialect, Field, Kind, Name
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
    rows = list(zip(page.series, page.values, strict=True))
    main = bound.engine
    if main is not None:
        _read_engine(reading, main, bound, rows, page)
        hazards.check(reading, _infos(bound, rows), page, at)
    for dialect, fields in bound.beside:  # what speaks beside the engine adds fields and never replaces the engine's
        _read_fields(reading, fields, rows, dialect, page)
    if main is None:
        reading.flag("engine_stats_absent")
    elif not any(name for name in reading.values if name != "process_start"):
        reading.flag("no_samples")
    return reading


def _read_engine(reading: Reading, main: Dialect, bound: Binding, rows: list[Row], page: Page) -> None:
    reading.engine, reading.title = main.engine, main.title
    _read_fields(reading, bound.fields, rows, main, page)
    reading.model, reading.ranks, reading.wrapped_by = bound.model, bound.ranks, bound.wrapped_by
    for flag in bound.flags:
        reading.flag(flag)
    reading.versions = version_range(main, reading.names)


def _infos(bound: Binding, rows: list[Row]) -> list[Row]:
    """The samples whose labels only the hazards read."""
    return [rows[i] for field in bound.fields if field.name.label == "*" for i in field.places]


def _read_fields(reading: Reading, fields: Sequence[Bound], rows: list[Row], dialect: Dialect, page: Page) -> None:
    for bound in fields:
        if bound.row.name in reading.values:
            continue
        if bound.incomplete:  # a sum of the parts would be too low
            reading.unknown[bound.row.name] = f"{bound.name.family} is absent"
        elif bound.name.family in page.damaged:
            reading.unknown[bound.row.name] = "a line of it could not be read"
        else:
            _read_field(reading, bound, rows, dialect)


def _read_field(reading: Reading, bound: Bound, rows: list[Row], dialect: Dialect) -> None:
    row, name = bound.row, bound.name
    reading.names[row.name] = name.family
    reading.unknown.pop(row.name, None)
    if row.kind is Kind.HISTOGRAM:
        _read_histogram(reading, bound, rows, dialect)
        return
    found = [rows[i] for i in bound.places]
    if row.kind is Kind.INFO:
        _read_info(reading, row, name, found)
    elif row.kind is Kind.EACH:
        of_each, blank = each(found, row.by, dialect, name.scale, name.limit)
        if blank:
            reading.flag("blank_values")
        if of_each:
            reading.values[row.name] = of_each
        else:
            reading.unknown[row.name] = "blank"
    else:
        total = scalar(found, row.kind, dialect, name.scale)
        _store(reading, row, _with_parts(total, bound, rows, dialect) if bound.plus else total)
        parts = breakdown(found, row.by, dialect) if row.by else None
        if parts is not None:
            reading.values[row.name] = parts


def _read_histogram(reading: Reading, bound: Bound, rows: list[Row], dialect: Dialect) -> None:
    if bound.bounds is not None:
        counts = tuple([rows[i][1] for i in bound.places])
        count, total = (total_of([rows[i][1] for i in places]) for places in (bound.counts, bound.sums))
        found, why = checked(bound.bounds, counts, count, total)
    else:
        found, why = buckets(_at(rows, bound.places), _at(rows, bound.sums), _at(rows, bound.counts), dialect)
    if found is None:
        reading.unknown[bound.row.name] = why
    else:
        scale = bound.name.scale
        reading.values[bound.row.name] = found if scale == 1.0 else rescaled(found, scale)


def _at(rows: list[Row], places: Places) -> list[Row]:
    return [rows[i] for i in places]


def _store(reading: Reading, row: Field, found: Scalar) -> None:
    if found.value is None:
        reading.unknown[row.name] = found.why
        return
    reading.values[row.name if not row.by else f"{row.name}_total"] = found.value
    if found.mean is not None:
        reading.values[f"{row.name}_mean"] = found.mean


def _with_parts(found: Scalar, bound: Bound, rows: list[Row], dialect: Dialect) -> Scalar:
    """Add what is told apart from the first; one unknown part makes the whole unknown."""
    for part, places in bound.plus:
        if found.value is None:
            break
        extra = scalar(_at(rows, places), bound.row.kind, dialect, part.scale)
        if extra.value is None:
            return Scalar(None, f"{part.family}: {extra.why}")
        found = Scalar(found.value + extra.value)
    return found


def _read_info(reading: Reading, row: Field, name: Name, rows: list[Row]) -> None:
    """Labels are `str()` of the engine's own values: "None" occurs. Ranks repeat sizes and share nothing."""
    if name.label == "*":
        return  # the hazards read it
    found = [_parsed(s.labels.get(name.label, "")) for s, _ in rows]
    if any(value is None for value in found):
        reading.unknown[row.name] = f"{name.label} is not told"
        return
    known = [value for value in found if value is not None]
    reading.values[row.name] = known[0] if row.name == "block_size" else sum(known)


def version_range(dialect: Dialect, names: Mapping[str, str]) -> str:
    """What the families found (by field) say of the engine's version: `>=0.9.2`, `0.7.3..0.10.2` or nothing."""
    key = (dialect.engine, tuple(names.items()))
    known = _RANGES.get(key)
    if known is None:
        if len(_RANGES) >= 256:
            _RANGES.clear()
        known = _RANGES[key] = _version_range(dialect, names)
    return known


_RANGES: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}  # the same families come with every scrape


def _version_range(dialect: Dialect, found: Mapping[str, str]) -> str:
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    for row in dialect.fields:
        for name in row.names:
            bounds = _VERSIONS.search(name.versions) if found.get(row.name) == name.family else None
            if bounds is None:
                continue
            since, until = _version(bounds.group(1) or bounds.group(2)), _version(bounds.group(3))
            low = max(low, since)
            high = until if until and (not high or until < high) else high
    if high and high >= low:
        return f"{_dotted(low)}..{_dotted(high)}"
    return f">={_dotted(low)}" if low else ""


_VERSIONS = re.compile(r"(?:>=([\d.]+)|([\d.]*?)\.\.(\d[\d.]*))")


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "").split(".") if part)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _parsed(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e15 else None
