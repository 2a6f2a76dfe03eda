"""Abstract values of the Python and JavaScript front ends: what an expression may stand for in a prompt.

Knows no syntax. The trap: a value gets its place when it is put into text, not where it was made, unless its order is
the cause; then the iterable's place is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from opsconsole.lint.frontends.ir import UNKNOWN_TOKENS, Hole, Literal, Message, Piece, Spot
from opsconsole.lint.frontends.ir import Volatility as V
from opsconsole.lint.frontends.names import Meaning
from opsconsole.lint.segments import estimate


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value nothing is known of."""


@dataclass(frozen=True, slots=True)
class Stable:
    """A value that never changes and whose length is not known."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text made of pieces."""

    pieces: tuple[Piece, ...]
    plain: str | None = None  # the literal, where the whole text is one


@dataclass(frozen=True, slots=True)
class Tainted:
    """A value that changes: it becomes a hole where it is put into text."""

    volatility: V
    code: str
    word: str
    weak: bool = False
    growing: bool = False
    unordered: bool = False
    at: Spot | None = None
    loops: tuple[int, ...] = ()


@dataclass(slots=True)
class Items:
    """A list or tuple whose items are known; shared and mutated like the list it stands for."""

    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Fields:
    """A dictionary or keyword object with known keys."""

    fields: dict[str, Any] = field(default_factory=dict)
    spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A value spread into a list (`*history`)."""

    value: Any


@dataclass(frozen=True, slots=True)
class Callee:
    """A function or class of the project; `owner` is the class a method is of."""

    module: Any
    node: Any
    owner: Any = None


@dataclass(frozen=True, slots=True)
class Dotted:
    """A name of the world outside: a module, its member, or a method of an unknown object."""

    name: str
    base: Any = None


@dataclass(frozen=True, slots=True)
class Seeded:
    """A random generator with a seed: its draws never change."""


Value = Unknown | Stable | Text | Tainted | Items | Fields | Spread | Callee | Dotted | Seeded


def literal(text: str) -> Text:
    """A known text."""
    return Text((Literal(estimate(text), len(text)),) if text else (), text)


def from_meaning(found: Meaning | None, loops: tuple[int, ...] = ()) -> Value:
    """The value a name stands for."""
    if found is None:
        return Unknown()
    if found.stable:
        return Stable()
    return Tainted(found.volatility, found.code, found.word, weak=True, growing=found.growing, loops=loops)


def pieces(value: Value | Any, spot: Spot) -> tuple[Piece, ...]:
    """A value put into text at a place."""
    if isinstance(value, Text):
        return value.pieces
    if isinstance(value, (Stable, Seeded)):
        return (Literal(UNKNOWN_TOKENS, 0, known=False),)
    if isinstance(value, Tainted):
        where = value.at or spot
        return (Hole(value.volatility, value.code, value.word, where, value.weak, value.growing, value.loops),)
    if isinstance(value, (Items, Fields)):
        inner = value.items if isinstance(value, Items) else list(value.fields.values())
        return tuple(piece for item in inner for piece in pieces(item, spot))
    if isinstance(value, Spread):
        return pieces(value.value, spot)
    return (Hole(V.UNKNOWN, "", "a value", spot),)


def text_of(values: list[tuple[Any, Spot]]) -> Text:
    """Values joined into one text."""
    plain = [value.plain if isinstance(value, Text) else None for value, _ in values]
    whole = "".join(part for part in plain if part is not None) if None not in plain else None
    return Text(tuple(piece for value, spot in values for piece in pieces(value, spot)), whole)


def worst(a: Any, b: Any) -> Any:
    """Of two possible values the one that changes more often; known ones before unknown ones."""
    return a if _rank(a) >= _rank(b) else b


def _rank(value: Any) -> tuple[int, int]:
    if isinstance(value, Tainted):
        return (int(value.volatility), 0)
    if isinstance(value, Text):
        holes = [int(piece.volatility) for piece in value.pieces if isinstance(piece, Hole)]
        return (max(holes, default=0), len(value.pieces))
    if isinstance(value, Items):
        return max([(_rank(item)[0], len(value.items)) for item in value.items], default=(0, 0))
    if isinstance(value, Fields):
        return max([_rank(item) for item in value.fields.values()], default=(0, 0))
    if isinstance(value, Spread):
        return _rank(value.value)
    return (-1, 0) if isinstance(value, (Unknown, Dotted)) else (0, 1)


def settled(value: Any) -> Any:
    """The value as it is when made once per process: nothing in it changes between requests."""
    if isinstance(value, Tainted):
        return Stable()
    if isinstance(value, Text):
        calm = tuple(
            replace(piece, volatility=V.PROCESS, code="") if isinstance(piece, Hole) else piece
            for piece in value.pieces
        )
        return Text(calm, value.plain)
    if isinstance(value, Items):
        return Items([settled(item) for item in value.items])
    if isinstance(value, Fields):
        return Fields({key: settled(item) for key, item in value.fields.items()}, value.spot)
    return value


def fork(value: Any) -> Any:
    """A copy of what may be mutated."""
    if isinstance(value, Items):
        return Items([fork(item) for item in value.items])
    if isinstance(value, Fields):
        return Fields({key: fork(item) for key, item in value.fields.items()}, value.spot)
    return value


def is_message(value: Any) -> bool:
    """Whether a value is one message: an object with role and content."""
    return (
        isinstance(value, Fields) and "role" in value.fields and ("content" in value.fields or "parts" in value.fields)
    )


def is_messages(value: Any) -> bool:
    """Whether a value is a list that holds a message."""
    return isinstance(value, Items) and any(
        is_message(item) or (isinstance(item, Spread) and is_messages(item.value)) for item in value.items
    )


def messages(value: Any, spot: Spot) -> list[Message]:
    """A list of messages in order; what is not a message becomes one with unknown role."""
    if isinstance(value, Items):
        return [message for item in value.items for message in messages(item, spot)]
    if isinstance(value, Spread):
        return messages(value.value, spot)
    if is_message(value):
        role = value.fields["role"]
        name = role.plain if isinstance(role, Text) and role.plain else "user"
        where = value.spot or spot
        content = value.fields.get("content", value.fields.get("parts"))
        return [Message(name, _content(content, where), where)]
    return [Message("user", pieces(value, spot), spot)]


def _content(value: Any, spot: Spot) -> tuple[Piece, ...]:
    if isinstance(value, Items):
        return tuple(piece for item in value.items for piece in _content(item, spot))
    if isinstance(value, Fields):
        return pieces(value.fields.get("text", value), spot)
    return pieces(value, spot)
