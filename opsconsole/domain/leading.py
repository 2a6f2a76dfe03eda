"""Several daemons for one fleet: which of them leads, and what each keeps of its loop that the others must know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opsconsole.domain.records import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Leading:
    """`here` is this process; `holder` and `address` are the other's where it is not, as far as they are told."""

    here: bool = True
    holder: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class LoopSide:
    """A loop, as what lives beside it may use it: its newest snapshot, and people's standing orders as text."""

    newest: Callable[[], FleetSnapshot | None]
    holds: Callable[[], str]
    take_holds: Callable[[str], None]  # those of the last leader, from now on in force here
