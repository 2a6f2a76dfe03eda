"""What a policy remembers between decisions: frozen, bounded, plain JSON.

Rows are named series of numbers (recommendations, changes, windows of a signal) whose first column is the time. The
trap: whatever is appended must also be trimmed, or the journal grows with every tick.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Row = tuple[float, ...]
VERSION = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Named rows and the instants since which named conditions hold."""

    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)

    def series(self, name: str) -> tuple[Row, ...]:
        return self.rows.get(name, ())

    def with_rows(self, name: str, rows: tuple[Row, ...]) -> Memory:
        """The same memory with one series replaced; an empty one is forgotten."""
        if not rows and name not in self.rows:
            return self
        kept = dict(self.rows)
        if rows:
            kept[name] = rows
        else:
            kept.pop(name, None)
        return Memory(kept, self.since)

    def push(self, name: str, row: Row, *, keep_s: float, most: int = 1000) -> Memory:
        """Append a row whose first column is the time, and drop what is older than `keep_s` or beyond `most` rows."""
        horizon = row[0] - keep_s
        kept = [r for r in self.rows.get(name, ()) if r[0] >= horizon]
        kept.append(row)
        return self.with_rows(name, tuple(kept[-most:]))

    def holding(self, name: str, true: bool, now: float) -> tuple[float | None, Memory]:
        """Since when the named condition has held without a break; None while it does not."""
        if not true:
            if name not in self.since:
                return None, self
            return None, Memory(self.rows, {k: v for k, v in self.since.items() if k != name})
        if name in self.since:
            return self.since[name], self
        return now, Memory(self.rows, {**self.since, name: now})

    def to_json(self) -> str:
        rows = {name: [list(row) for row in series] for name, series in sorted(self.rows.items())}
        return json.dumps(
            {"version": VERSION, "rows": rows, "since": dict(sorted(self.since.items()))}, allow_nan=False
        )

    @classmethod
    def from_json(cls, text: str) -> Memory:
        """Read what `to_json` wrote; anything else is a ValueError that says what is wrong."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION:
                raise ValueError(
                    f"policy memory has version {data['version']}, this program reads {VERSION}: forget it"
                )
            rows = {str(k): tuple(tuple(_number(x) for x in row) for row in v) for k, v in data["rows"].items()}
            since = {str(k): _number(v) for k, v in data["since"].items()}
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"policy memory cannot be read ({error}): forget it and start fresh") from error
        return cls(rows=rows, since=since)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a finite number")
    return float(value)
