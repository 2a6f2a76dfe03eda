"""Records to JSON and back, generic over the annotations of frozen dataclasses.

It lives beside the records because the database and the API share it. It knows no record by name: what travels is what
`domain.records` declares. A field at its default is left out and an unknown key is ignored, so an old console reads a
new agent's snapshot and a new console an old recording. The trap: JSON has no infinity, and every histogram ends in
one; infinities travel as the strings "Inf" and "-Inf", and NaN, which no record may hold, as null.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar, Union, cast

T = TypeVar("T")
Encode = Callable[[Any], str]
Decode = Callable[[Any], Any]

_MISSING = dataclasses.MISSING
_quoted = json.encoder.encode_basestring_ascii


class WireError(ValueError):
    """A document does not fit the record it is read as."""


def to_json(value: Any) -> Any:
    """Plain JSON data (dicts, lists, strings, numbers) for a record, leaving out fields at their defaults."""
    return json.loads(dumps(value))


def from_json(kind: type[T], data: Any) -> T:
    """The record of class `kind` that `data` stands for; missing fields take defaults, unknown ones are ignored."""
    wanted: Any = kind
    return cast("T", _decoder(wanted)(data))


def dumps(value: Any) -> str:
    """One compact line of JSON for a record or for plain data that may hold records."""
    kind: Any = type(value)
    return _encoder(kind)(value)


def loads(kind: type[T], text: str | bytes) -> T:
    """Parse a line made by `dumps`; a document that does not fit raises `WireError`."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from error
    return from_json(kind, data)


def loads_by_parts(kind: type[T], text: str) -> Generator[None, None, T]:
    """What `loads` does with a record's text, stopping after each item of its own lists.

    For a reader that has something more urgent to do meanwhile: a tick of a thousand replicas takes long to read.
    """
    wanted: Any = kind
    hints = _hints(wanted)
    given: dict[str, Any] = {}
    reader = _Reader(text)
    try:
        for name in reader.names():
            args = typing.get_args(hints.get(name))
            if name not in hints:
                reader.value()
            elif len(args) == 2 and args[1] is Ellipsis and reader.is_at("["):
                read, items = _decoder(args[0]), []
                for item in reader.items():
                    items.append(read(item))
                    yield
                given[name] = tuple(items)
            else:
                given[name] = _decoder(hints[name])(reader.value())
        return cast("T", wanted(**given))
    except WireError:
        raise
    except (ValueError, TypeError) as error:
        raise WireError(f"{wanted.__name__}: {error}") from error


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The annotation of each field of a record; working them out costs as much as reading a small one."""
    found = typing.get_type_hints(kind)
    return {item.name: found[item.name] for item in dataclasses.fields(kind)}


class _Reader:
    """Walks the text of one JSON object, a member or an item at a time."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def names(self) -> Iterator[str]:
        """The object's keys; whoever takes one must read its value before the next."""
        self._past("{")
        while not self.is_at("}"):
            name = self.value()
            self._past(":")
            yield name
            if not self.is_at("}"):
                self._past(",")

    def items(self) -> Iterator[Any]:
        """The values of the list that stands here."""
        self._past("[")
        while not self.is_at("]"):
            yield self.value()
            if not self.is_at("]"):
                self._past(",")
        self._past("]")

    def value(self) -> Any:
        """Whatever value stands here."""
        found, self._at = _value_at(self._text, self._next())
        return found

    def is_at(self, char: str) -> bool:
        return self._text.startswith(char, self._next())

    def _next(self) -> int:
        found = _blank.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _past(self, char: str) -> None:
        if not self.is_at(char):
            raise ValueError(f"expected {char} at character {self._at} of a JSON object")
        self._at += 1


_value_at = json.JSONDecoder().raw_decode
_blank = re.compile(r"[ \t\r\n]*")


def _float_out(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "null" if math.isnan(value) else '"Inf"' if value > 0 else '"-Inf"'


def _float_in(data: Any) -> Any:
    if data.__class__ is str:
        if data in ("Inf", "-Inf"):
            return math.inf if data == "Inf" else -math.inf
        raise WireError(f"{data!r} is not a number")
    return data


def _same(value: Any) -> Any:
    return value


@functools.cache
def _encoder(kind: Any) -> Encode:
    """How values of exactly this run-time class are written. Straight to text: a tick's tree of dicts costs as much."""
    if dataclasses.is_dataclass(kind):
        return _record_encoder(cast("type[Any]", kind))
    if issubclass(kind, enum.Enum):
        return lambda value: dumps(value.value)
    if kind in (bool, types.NoneType):
        return lambda value: "null" if value is None else "true" if value else "false"
    if issubclass(kind, float):
        return _float_out
    if issubclass(kind, int):
        return int.__repr__
    if issubclass(kind, str):
        return _quoted
    if issubclass(kind, Mapping):
        return _mapping_out
    if issubclass(kind, tuple | list | set | frozenset):
        return _sequence_out
    raise WireError(f"a {kind.__name__} has no JSON form")


def _mapping_out(value: Mapping[Any, Any]) -> str:
    return "{" + ",".join([f"{_quoted(str(key))}:{dumps(item)}" for key, item in value.items()]) + "}"


def _sequence_out(value: Any) -> str:
    if value.__class__ is tuple and set(map(type, value)) == _FLOATS:
        return _floats_out(value) if value[-1] != math.inf else _bounds_out(value)
    return "[" + ",".join([dumps(item) for item in value]) + "]"


def _floats_out(value: tuple[float, ...]) -> str:
    each = repr if math.isfinite(sum(value)) else _float_out  # one that is not finite makes the sum so too
    return "[" + ",".join(map(each, value)) + "]"


_FLOATS = {float}
_bounds_out = functools.lru_cache(maxsize=512)(_floats_out)  # what ends in infinity: few layouts, told in every record


def _record_encoder(kind: type[Any]) -> Encode:
    plan: list[tuple[str, str, Any, Callable[[], Any] | None]] = []
    for item in dataclasses.fields(kind):
        made = None if item.default_factory is _MISSING else item.default_factory
        plan.append((item.name, f"{_quoted(item.name)}:", item.default, made))

    def encode(value: Any) -> str:
        out: list[str] = []
        for name, key, default, made in plan:
            held = getattr(value, name)
            if held is default or (default is not _MISSING and held == default and type(held) is type(default)):
                continue
            if made is not None and held == made():
                continue
            held_kind: Any = type(held)
            out.append(key + _encoder(held_kind)(held))
        return "{" + ",".join(out) + "}"

    return encode


@functools.cache
def _decoder(kind: Any) -> Decode:
    """How data is read as `kind`, a class or an annotation."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object or origin is typing.Literal:
        return _same
    if origin in (Union, types.UnionType):
        return _optional_decoder(kind, args)
    if origin is tuple:
        return _tuple_decoder(args)
    if origin is list:
        inner = _decoder(args[0])
        return lambda data: [inner(item) for item in _must(data, list)]
    if origin is not None and issubclass(origin, Mapping):
        inner = _decoder(args[1])
        return lambda data: {key: inner(item) for key, item in _must(data, dict).items()}
    if dataclasses.is_dataclass(kind):
        return _record_decoder(cast("type[Any]", kind))
    return _scalar_decoder(kind)


def _scalar_decoder(kind: Any) -> Decode:
    if kind is float:
        return _float_in
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members: Mapping[Any, Any] = {member.value: member for member in kind}
        return lambda data: (members.get(data) if data.__class__ is str else None) or _enum_in(kind, data)
    if kind is types.NoneType:
        return lambda data: None
    if kind in (str, int, bool):
        return lambda data: _must(data, kind)
    if isinstance(kind, type) and issubclass(kind, Mapping | dict):
        return lambda data: _must(data, dict)
    raise WireError(f"no reader for {kind!r}")


def _enum_in(kind: type[enum.Enum], data: Any) -> enum.Enum:
    try:
        return kind(data)
    except ValueError as error:
        raise WireError(str(error)) from error


def _must(data: Any, kind: type[Any]) -> Any:
    if not isinstance(data, kind):
        raise WireError(f"expected {kind.__name__}, got {type(data).__name__}")
    return data


def _optional_decoder(kind: Any, args: tuple[Any, ...]) -> Decode:
    inner = [arg for arg in args if arg is not types.NoneType]
    if len(inner) != 1:
        if all(arg in (int, float, str, bool) for arg in inner):
            return _same
        raise WireError(f"{kind!r} is ambiguous on the wire")
    read = _decoder(inner[0])
    return lambda data: None if data is None else read(data)


def _tuple_decoder(args: tuple[Any, ...]) -> Decode:
    if len(args) == 2 and args[1] is Ellipsis:
        if args[0] is float:
            return lambda data: tuple([_float_in(x) if x.__class__ is str else x for x in _must(data, list)])
        inner = _decoder(args[0])
        return lambda data: tuple([inner(item) for item in _must(data, list)])
    readers = tuple(_decoder(arg) for arg in args)

    def decode(data: Any) -> tuple[Any, ...]:
        if len(_must(data, list)) != len(readers):
            raise WireError(f"expected {len(readers)} items, got {len(data)}")
        return tuple(read(item) for read, item in zip(readers, data, strict=True))

    return decode


def _record_decoder(kind: Any) -> Decode:
    readers = {name: _decoder(hint) for name, hint in _hints(kind).items()}

    def decode(data: Any) -> Any:
        given = {name: readers[name](item) for name, item in _must(data, dict).items() if name in readers}
        try:
            return kind(**given)
        except TypeError as error:
            raise WireError(f"{kind.__name__}: {error}") from error

    return decode
