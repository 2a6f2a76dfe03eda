"""The one normaliser: a scanned page and the tables in, canonical values with reasons for what is unknown out.

It must not know an engine by name, only tables; hazards that need more than a table are in `hazards`. Unknown is not
zero: an absent family, a HELP without samples, NaN, a sentinel, a damaged line all give None. The trap: picking the
engine by one family; pages of Dynamo and Ray carry other people's families too, so the tables have a precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from opsconsole.domain.records import Sample
from opsconsole.observe.dialects import DIALECTS, hazards
from opsconsole.observe.dialects.collapse import Row, Scalar, breakdown, buckets, each, rescaled, scalar
from opsconsole.observe.dialects.names import NameIndex, wrapper_of
from opsconsole.observe.dialects.reading import Reading, to_sample
from opsconsole.observe.dialects.table import Dialect, Field, Kind, Name
from opsconsole.observe.exposition import Page, SeriesMemo

Groups = dict[tuple[str, str], list[Row]]  # by slot
_NO_ROWS: list[Row] = []
_VALUE_PARTS = ("total", "")


def new_memo() -> SeriesMemo:
    """The scanner's memory for every name the tables want; share one over all replicas of a process."""
    return SeriesMemo(NameIndex(DIALECTS))


def normalise(page: Page, at: float, replica: str) -> Sample:
    """A page as a sample; never raises for what is on the page."""
    return to_sample(read(page, at), at, replica)


def read(page: Page, at: float | None = None, dialects: Sequence[Dialect] = DIALECTS) -> Reading:
    """A page in canonical words. `at` is the time of the scrape, for what the page tells as a time."""
    repeated = len(page.series) != len(set(page.series))
    groups = _grouped_last(page) if repeated else _grouped(page)
    families = {family for family, _ in groups}
    main = _engine_of(groups, families | page.types.keys(), dialects)
    reading = Reading()
    if page.truncated:
        reading.flag("truncated")
    if page.bad_count:
        reading.flag("bad_lines")
    if repeated:
        reading.flag("duplicate_series")
    if main is not None:
        reading.engine, reading.title = main.engine, main.title
        _read_fields(reading, groups, main, page)
        _read_identity(reading, groups, main)
        reading.versions = version_range(main, reading.names)
        hazards.check(reading, groups, page, main, at)
    _read_auxiliary(reading, groups, families, page, dialects, main)
    if main is None:
        reading.flag("engine_stats_absent")
    elif not any(name for name in reading.values if name != "process_start"):
        reading.flag("no_samples")
    return reading


def _grouped(page: Page) -> Groups:
    groups: Groups = {}
    for row in zip(page.series, page.values, strict=True):
        slot = row[0].slot
        rows = groups.get(slot)
        if rows is None:
            groups[slot] = [row]
        else:
            rows.append(row)
    return groups


def _grouped_last(page: Page) -> Groups:
    """The same key twice on a page: the last stands, as it does for Prometheus' own text parser."""
    groups: Groups = {}
    for row in dict(zip(page.series, page.values, strict=True)).items():
        groups.setdefault(row[0].slot, []).append(row)
    return groups


def _engine_of(groups: Groups, families: set[str], dialects: Sequence[Dialect]) -> Dialect | None:
    for dialect in dialects:
        if not dialect.auxiliary and _is_present(dialect, groups, families):
            return dialect
    return None


def _is_present(dialect: Dialect, groups: Groups, families: set[str]) -> bool:
    if dialect.prefixes and any(family.startswith(dialect.prefixes) for family in families):
        return True
    if any(family in families for family in dialect.fingerprints):
        return True
    return dialect.label_fingerprint is not None and _has_label(dialect, groups)


def _has_label(dialect: Dialect, groups: Groups) -> bool:
    label, value = dialect.label_fingerprint or ("", "")
    wanted = {family for row in dialect.fields for family in row.families()}
    return any(
        family in wanted and any(label in s.labels and value in ("", s.labels[label]) for s, _ in rows[:1])
        for (family, _), rows in groups.items()
    )


def _read_fields(reading: Reading, groups: Groups, dialect: Dialect, page: Page) -> None:
    for row in dialect.fields:
        if row.name in reading.values:
            continue
        for name in row.names:
            found = _rows(groups, name, row.kind)
            if found:
                _read_field(reading, row, name, found, groups, dialect, page)
                break
        else:
            if row.plus:
                _read_parts_only(reading, row, groups, dialect)


def _rows(groups: Groups, name: Name, kind: Kind) -> list[Row]:
    """The samples of a name: for counters `_total` before the bare spelling, for histograms the buckets."""
    if kind is Kind.HISTOGRAM:
        return groups.get((name.family, "bucket"), _NO_ROWS)
    parts = (name.part,) if name.part else _VALUE_PARTS
    for part in parts:
        rows = groups.get((name.family, part), _NO_ROWS)
        if rows and name.where:
            label, values = name.where[0], name.where[1:]
            rows = [row for row in rows if row[0].labels.get(label) in values]
        if rows:
            return rows
    return _NO_ROWS


def _read_field(
    reading: Reading, row: Field, name: Name, rows: list[Row], groups: Groups, dialect: Dialect, page: Page
) -> None:
    if name.family in page.damaged:
        reading.unknown[row.name] = "a line of it could not be read"
        return
    reading.names[row.name] = name.family
    reading.unknown.pop(row.name, None)
    if row.kind is Kind.HISTOGRAM:
        sums, counts = groups.get((name.family, "sum"), _NO_ROWS), groups.get((name.family, "count"), _NO_ROWS)
        found, why = buckets(rows, sums, counts, dialect)
        if found is None:
            reading.unknown[row.name] = why
        else:
            reading.values[row.name] = found if name.scale == 1.0 else rescaled(found, name.scale)
    elif row.kind is Kind.INFO:
        _read_info(reading, row, name, rows)
    elif row.kind is Kind.EACH:
        of_each, blank = each(rows, row.by, dialect, name.scale, name.limit)
        if blank:
            reading.flag("blank_values")
        if of_each:
            reading.values[row.name] = of_each
        else:
            reading.unknown[row.name] = "blank"
    else:
        _store(reading, row, _with_parts(scalar(rows, row.kind, dialect, name.scale), row, groups, dialect))
        if row.by:
            parts = breakdown(rows, row.by, dialect)
            if parts is not None:
                reading.values[row.name] = parts


def _store(reading: Reading, row: Field, found: Scalar) -> None:
    if found.value is None:
        reading.unknown[row.name] = found.why
        return
    reading.values[row.name if not row.by else f"{row.name}_total"] = found.value
    if found.mean is not None:
        reading.values[f"{row.name}_mean"] = found.mean


def _with_parts(found: Scalar, row: Field, groups: Groups, dialect: Dialect) -> Scalar:
    """Add what is told apart from the first; one unknown part makes the whole unknown."""
    for part in row.plus:
        rows = _rows(groups, part, row.kind)
        if not rows or found.value is None:
            continue
        extra = scalar(rows, row.kind, dialect, part.scale)
        if extra.value is None:
            return Scalar(None, f"{part.family}: {extra.why}")
        found = Scalar(found.value + extra.value)
    return found


def _read_parts_only(reading: Reading, row: Field, groups: Groups, dialect: Dialect) -> None:
    """Only additional parts are there, the main one is not: a sum would be too low, so it is unknown."""
    if any(_rows(groups, part, row.kind) for part in row.plus):
        reading.unknown[row.name] = f"{row.names[0].family} is absent"


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


def _read_identity(reading: Reading, groups: Groups, dialect: Dialect) -> None:
    """Model and ranks, from the gauges of load first: V0 names a LoRA adapter as the model of a request."""
    models: list[str] = []
    ranks: set[str] = set()
    wrapped: str | None = None
    for row in dialect.fields:
        if row.name in ("process_start",) or (models and row.kind not in (Kind.GAUGE, Kind.OCCUPANCY)):
            continue
        for name in row.names:
            for series, _ in _rows(groups, name, row.kind):
                labels = series.labels
                wrapped = wrapped or wrapper_of(series.name) or ("dynamo" if "dynamo_component" in labels else None)
                if "worker_addr" in labels or "server" in labels:
                    reading.flag("router_view")  # a router's view of several engines, not an engine
                for label in dialect.model_labels:
                    model = labels.get(label, "")
                    if model and model != "undefined" and model not in models:
                        models.append(model)
                if row.kind is Kind.GAUGE or row.kind is Kind.OCCUPANCY:
                    ranks.add("/".join(labels.get(label, "") for label in dialect.rank_labels))
    reading.model = models[0] if models else None
    reading.ranks = len(ranks) or None
    reading.wrapped_by = wrapped
    if len(models) > 1:
        reading.flag("several_models")


def _read_auxiliary(
    reading: Reading, groups: Groups, families: set[str], page: Page, dialects: Sequence[Dialect], main: Dialect | None
) -> None:
    """What speaks beside the engine: it adds fields of its own and never replaces the engine's."""
    found = [d for d in dialects if d.auxiliary and d is not main and _is_present(d, groups, families)]
    for dialect in found:
        _read_fields(reading, groups, dialect, page)
    reading.auxiliary = tuple(d.engine for d in found)
