"""What every front end produces: a prompt as ordered parts, each literal text or a hole with a volatility class.

Knows no language. The trap: a hole without a known class is neither volatile nor stable, so it never causes a finding
and never counts as text behind one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

UNKNOWN_TOKENS = 64


class Volatility(IntEnum):
    """How often a value changes; larger changes more often."""

    UNKNOWN = -1
    CONST = 0
    PROCESS = 1
    DAY = 2
    TENANT = 3
    USER = 4
    SESSION = 5
    TURN = 6
    REQUEST = 7
    RANDOM = 8


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a source, 1-based, in characters."""

    file: str
    line: int
    col: int


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that never changes; `tokens` is an estimate, and at least 64 where the length is not known."""

    tokens: int
    chars: int
    known: bool = True


@dataclass(frozen=True, slots=True)
class Hole:
    """A value put into the prompt: class, the rule that would name it, a word for it, and where it is written."""

    volatility: Volatility
    code: str
    word: str
    spot: Spot
    weak: bool = False  # only its name speaks for it
    growing: bool = False  # history that is only ever appended to
    loops: tuple[int, ...] = ()
    grown: bool = False


Piece = Literal | Hole


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or the whole prompt of a completion."""

    role: str
    pieces: tuple[Piece, ...]
    spot: Spot


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as its source writes it, in the order the model reads it."""

    messages: tuple[Message, ...]
    spot: Spot
    loops: tuple[int, ...] = ()
