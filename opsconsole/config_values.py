"""Values as people write them in the configuration: durations, shares, lists; and what every table of it is.

It knows no table. The trap: `"5"` of a variable and `5` of a file are the same duration, so a bare number is seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-z]*)")


def seconds(value: object) -> object:
    """`"80ms"`, `"2h"`, `1.5` as seconds; anything else is left to be refused."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None or match[2] not in UNITS:
        raise ValueError(f"{value!r} is no duration: write 80ms, 30s, 5m, 2h or 1d")
    return float(match[1]) * UNITS[match[2]]


def share(value: object) -> object:
    """`"95%"` or `0.95` as a fraction."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100.0
        except ValueError:
            raise ValueError(f"{value!r} is no share: write 95% or 0.95") from None
    return value


def _listed(value: object) -> object:
    """A variable or flag gives a list as `a,b`; a file as a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _headers(value: Mapping[str, str]) -> Mapping[str, str]:
    """What HTTP can carry; the value of a wrong one is a secret, perhaps."""
    for name, text in value.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if any(char in text for char in "\r\n\0"):
            raise ValueError(f"the value of {name} holds the end of a line")
    return value


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(share), Field(gt=0, lt=1)]
Words = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Headers = Annotated[Mapping[str, str], AfterValidator(_headers)]


class Table(BaseModel):
    """A table of the file: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
