"""The shape of a dialect: a table from canonical fields to the names one engine has exposed over its versions.

It must not know how a page is scanned or collapsed. Families are written folded: wrapper prefixes (`ray_`, `kserve_`)
gone, the first `:` a `_`, and without `_total`, `_bucket`, `_sum`, `_count`. The trap: names in one `names` tuple are
alternatives of which the first present counts; adding two spellings of one fact doubles it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What the samples of a family are, whatever its TYPE line says."""

    GAUGE = "gauge"  # a count now: added over ranks
    OCCUPANCY = "occupancy"  # a share 0..1: the greatest over ranks, and the mean beside it
    LEVEL = "level"  # the same on every rank (a limit, a setting, a time): the greatest
    RATIO = "ratio"  # a share that is not an occupancy: the mean over ranks
    MEAN = "mean"  # an average that is not a share: the mean over ranks
    EACH = "each"  # a gauge for each value of a label, whose sum means nothing
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"  # the value is in a label


@dataclass(frozen=True, slots=True)
class Name:
    """One family that carries a field, and the versions in which it was seen."""

    family: str
    versions: str = ""  # ">=0.9.2", "0.6..0.9.0"; words for people, shown by doctor
    where: tuple[str, ...] = ()  # label, then the values that select the series
    label: str = ""  # INFO: the label that holds the value
    scale: float = 1.0  # to seconds, tokens, shares, bytes
    limit: float | None = None  # after scaling; what is above is a sentinel
    part: str = ""  # "sum" or "count": only that part of a histogram, as a counter
    note: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One canonical field: alternatives, and what is added to them where it is told apart."""

    name: str
    kind: Kind
    names: tuple[Name, ...]
    plus: tuple[Name, ...] = ()  # parts that the first does not contain
    by: tuple[str, ...] = ()  # labels, alternatives of one, that give a mapping beside the total
    note: str = ""

    def families(self) -> Iterator[str]:
        for name in (*self.names, *self.plus):
            yield name.family


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way to expose its metrics."""

    engine: str
    title: str  # as people write it
    prefixes: tuple[str, ...]  # of folded families; () for engines without one
    fields: tuple[Field, ...]
    versions: str = ""  # what the table was made from
    rank_labels: tuple[str, ...] = ()  # parts of one replica: data-parallel ranks
    copy_labels: tuple[str, ...] = ("pid",)  # the same fact told again
    total_labels: tuple[str, ...] = ()  # "" in one of these is the sum of the others
    model_labels: tuple[str, ...] = ("model_name",)
    fingerprints: tuple[str, ...] = ()  # families that only this engine has, where there is no prefix
    label_fingerprint: tuple[str, str] | None = None  # label and value ("" any) that tell it, where there is no prefix
    freeze_s: float = (
        15.0  # gauges that stand still longer than this with load, and no counter moving, are not believed
    )
    auxiliary: bool = False  # tells something beside an engine's own page
    hints: tuple[str, ...] = field(default=())  # said by doctor when the engine is recognised and facts are missing


def gauge(name: str, *names: Name | str, plus: tuple[Name | str, ...] = (), by: str = "", note: str = "") -> Field:
    return _field(name, Kind.GAUGE, names, plus, by, note)


def counter(name: str, *names: Name | str, plus: tuple[Name | str, ...] = (), by: str = "", note: str = "") -> Field:
    return _field(name, Kind.COUNTER, names, plus, by, note)


def histogram(name: str, *names: Name | str, note: str = "") -> Field:
    return _field(name, Kind.HISTOGRAM, names, (), "", note)


def occupancy(name: str, *names: Name | str, note: str = "") -> Field:
    return _field(name, Kind.OCCUPANCY, names, (), "", note)


def level(name: str, *names: Name | str, note: str = "") -> Field:
    return _field(name, Kind.LEVEL, names, (), "", note)


def ratio(name: str, *names: Name | str, note: str = "") -> Field:
    return _field(name, Kind.RATIO, names, (), "", note)


def mean(name: str, *names: Name | str, note: str = "") -> Field:
    return _field(name, Kind.MEAN, names, (), "", note)


def each(name: str, *names: Name | str, by: str, note: str = "") -> Field:
    return _field(name, Kind.EACH, names, (), by, note)


def info(name: str, *names: Name, note: str = "") -> Field:
    return _field(name, Kind.INFO, names, (), "", note)


def _field(
    name: str, kind: Kind, names: tuple[Name | str, ...], plus: tuple[Name | str, ...], by: str, note: str
) -> Field:
    return Field(name, kind, _names(names), _names(plus), tuple(by.split("|")) if by else (), note)


def _names(names: tuple[Name | str, ...]) -> tuple[Name, ...]:
    return tuple(n if isinstance(n, Name) else Name(n) for n in names)
