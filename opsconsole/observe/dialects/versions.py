"""What the families on a page say of the engine's version.

It must not know an engine; the tables say in which versions a family is there. The trap: a family that is absent says
nothing, for it may be one that only appears once something happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from opsconsole.observe.dialects.table import Dialect


def version_range(dialect: Dialect, found: Mapping[str, str]) -> str:
    """From families by field: `>=0.9.2`, `0.7.3..0.10.2` or nothing."""
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
