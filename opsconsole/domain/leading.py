"""Which of several daemons leads, as one of them knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leading:
    """`here` is this process; `holder` and `address` are the other's where it is not, as far as they are told."""

    here: bool = True
    holder: str | None = None
    address: str | None = None
