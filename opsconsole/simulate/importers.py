"""Reads loads from files as others lay them out, and says which row is wrong where one is.

Azure, BurstGPT and Mooncake hold single requests, ServeGen a directory of clients' rates, the aggregated layout equal
bins. The layout is told by the header or the directory, never by the name. The trap: the word `recon` in a name marks a
re-created trace, because nothing else in such a file says that its noise is not real.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import numpy as np

from opsconsole.errors import UsageError
from opsconsole.simulate.servegen import MOST_BINS, MOST_COUNT, read_servegen
from opsconsole.simulate.traces import BIN_S, Floats, Ints, Kind, Requests, Trace

MOST_TOKENS = 100_000_000  # of one request
UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error)
Row = tuple[float, int, int, tuple[int, ...]]  # s, prompt tokens, output tokens, prefix blocks


def read_trace(source: str | Path, seed: int = 7) -> Trace:
    """The load in a file or directory, with whatever it knows of tokens; `seed` matters where noise is re-created."""
    path = Path(source)
    if path.is_dir():
        return read_servegen(path, seed)
    if not path.is_file():
        raise UsageError(f"{path} does not exist: give a trace's file, a ServeGen directory or synthetic:NAME.")
    try:
        with opened(path) as file:
            return _read(path, file)
    except UNREADABLE as error:
        raise UsageError(f"{path} cannot be read as a trace: {error}.") from error


def opened(path: Path) -> TextIO:
    """A trace's text, plain or gzip; the mark that some spreadsheets put before it is no part of the first name."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read(path: Path, file: TextIO) -> Trace:
    first = file.readline()
    if first.lstrip().startswith("{"):
        return _from_requests(path, _mooncake(path, first, file))
    header = [name.strip() for name in next(csv.reader([first]), [])]
    rows = csv.reader(file)
    if "t_seconds" in header and ("requests" in header or client_columns(path, header)):
        return _from_bins(path, header, rows)
    for needed, parse in LAYOUTS:
        if set(needed) <= set(header):
            at = [header.index(name) for name in needed]
            blocks = header.index("hash_ids") if "hash_ids" in header else None
            return _from_requests(path, _rows(path, rows, at, parse, blocks))
    known = "; ".join(", ".join(needed) for needed, _ in LAYOUTS)
    raise UsageError(
        f"{path} has columns {', '.join(header)[:120] or 'none'}, which is no layout known here. Known are: "
        f"t_seconds, requests; {known}; Mooncake's JSON lines; a ServeGen directory."
    )


def client_columns(path: Path, header: Sequence[str]) -> list[int]:
    """Where the clients' rates (requests/s) stand; nowhere if the file counts `requests` itself."""
    found = [i for i, name in enumerate(header) if re.fullmatch(r"client_\d+", name)]
    if "requests" in header or not found:
        return []
    if "client_cv" in path.name:
        raise UsageError(
            f"{path} holds coefficients of variation (client_cv), which are no load: give the clients' rates "
            f"(client_rate)."
        )
    return found


def _iso(text: str) -> float:
    """Seconds of `2023-11-16 18:17:03.9799600` or `2024-05-10 00:00:00.009930+00:00`; UTC where no zone is told, and a
    seventh digit of the second is left aside."""
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


LAYOUTS: tuple[tuple[tuple[str, str, str], Callable[[str], float]], ...] = (
    (("t_seconds", "prompt_tokens", "output_tokens"), float),
    (("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _iso),  # Azure
    (("Timestamp", "Request tokens", "Response tokens"), float),  # BurstGPT
)


def _rows(
    path: Path, rows: Iterator[list[str]], at: Sequence[int], when: Callable[[str], float], blocks: int | None
) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            time, prompt, output = when(row[at[0]]), int(float(row[at[1]])), int(float(row[at[2]]))
            ids = () if blocks is None else tuple(int(word) for word in row[blocks].split())
        except (ValueError, IndexError, OverflowError):
            raise UsageError(f"{path}, row {number}: {','.join(row)[:80]!r} cannot be read; mend or drop it.") from None
        yield time, prompt, output, ids


def _mooncake(path: Path, first: str, file: TextIO) -> Iterator[Row]:
    lines = (line for part in ([first], file) for line in part)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield (
                float(row["timestamp"]) / 1000.0,
                int(float(row["input_length"])),  # a float bounds the digits of what JSON calls whole
                int(float(row["output_length"])),
                tuple(int(i) for i in row.get("hash_ids", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise UsageError(
                f"{path}, line {number}: {line[:80]!r} is no request with timestamp, input_length and output_length."
            ) from None


def _from_requests(path: Path, rows: Iterator[Row]) -> Trace:
    times: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    blocks: list[tuple[int, ...]] = []
    for number, (time, prompt, output, ids) in enumerate(rows, 1):
        if max(prompt, output) > MOST_TOKENS:
            raise UsageError(f"{path}, row {number}: {max(prompt, output):.3g} tokens are no request; mend or drop it.")
        check_row(path, number, time, (prompt, output), times[-1] if times else None, strict=False)
        times.append(time)
        prompts.append(max(1, prompt))
        outputs.append(max(1, output))
        blocks.append(ids)
    if not times:
        raise UsageError(f"{path} has no rows: a backtest needs at least 10 minutes of load.")
    at = np.array(times) - times[0]
    single = Requests(at, np.array(prompts), np.array(outputs), tuple(blocks) if any(blocks) else None)
    bounded(path, at[-1] / BIN_S + 1, BIN_S)
    slots = np.floor(at / BIN_S).astype(np.int64)
    bins = int(slots[-1]) + 1

    def counted(weights: Floats | None) -> Floats:
        return np.bincount(slots, weights=weights, minlength=bins).astype(np.float64)

    prompt_sum, output_sum = counted(single.prompt.astype(np.float64)), counted(single.output.astype(np.float64))
    return Trace(_name(path), _kind(path), BIN_S, counted(None), prompt_sum, output_sum, single)


def _from_bins(path: Path, header: list[str], rows: Iterator[list[str]]) -> Trace:
    """Equal bins of counts; columns of clients hold rates, which are added up."""
    clients = client_columns(path, header)
    names = [] if clients else [name for name in ("requests", "prompt_tokens", "output_tokens") if name in header]
    columns = clients or [header.index(name) for name in names]
    time_at = header.index("t_seconds")
    times: list[float] = []
    values: list[list[float]] = []
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            time = float(row[time_at])
            counts = [float(row[i] or 0.0) for i in columns]
        except (ValueError, IndexError):
            raise UsageError(f"{path}, row {number}: {','.join(row)[:80]!r} is not numbers; mend or drop it.") from None
        check_row(path, number, time, counts, times[-1] if times else None, strict=True)
        times.append(time)
        values.append([sum(counts)] if clients else counts)
    if len(times) < 2:
        raise UsageError(f"{path} has {len(times)} rows: a backtest needs at least 10 minutes of load.")
    step = float(np.median(np.diff(times)))
    bounded(path, (times[-1] - times[0] + step) / BIN_S, BIN_S)  # what a simulation makes of them
    slots = on_grid(path, np.array(times), step)
    table = np.zeros((int(slots[-1]) + 1, len(values[0])))
    table[slots] = values
    found = dict(zip(names or ["requests"], table.T * (step if clients else 1.0), strict=True))
    prompt, output = found.get("prompt_tokens"), found.get("output_tokens")
    whole = prompt is not None and output is not None and prompt.sum() > 0 and output.sum() > 0
    name = with_missing(_name(path), len(table) - len(times), len(table), "bins")
    trace = Trace(name, _kind(path), step, found["requests"])
    return Trace(trace.name, trace.kind, step, trace.requests, prompt, output) if whole else trace


def with_missing(name: str, missing: int, of: int, unit: str) -> str:
    """The name of a load with what was not recorded of it: a fleet that is simulated has to be told something then."""
    return f"{name} ({missing:,} of {of:,} {unit} missing, taken as silence)" if missing else name


def check_row(
    path: Path, number: int, time: float, counts: Sequence[float], before: float | None, *, strict: bool
) -> None:
    """A row's time (s) after that of the row `before`, `strict`ly or not, and its counts. Raises `UsageError`."""
    if not math.isfinite(time) or time < 0:
        raise UsageError(f"{path}, row {number}: time {time:g} s must not be negative or missing.")
    if before is not None and (time < before or (strict and time == before)):
        raise UsageError(f"{path}, row {number}: time {time:g} s comes after {before:g} s; sort the file by time.")
    for count in counts:
        if not 0 <= count <= MOST_COUNT:
            raise UsageError(
                f"{path}, row {number}: a count of {count:g} must not be negative or above {MOST_COUNT:g}."
            )


def on_grid(path: Path, times: Floats, step: float) -> Ints:
    """The bin of each row of ascending times, 0 for the first. Raises `UsageError` for one between the bins."""
    places = (times - times[0]) / step
    bounded(path, places[-1] + 1, step)
    slots: Ints = np.round(places).astype(np.int64)
    odd = np.nonzero((np.abs(places - slots) > 0.01) | (np.diff(slots, prepend=-1) < 1))[0]
    if odd.size:
        raise UsageError(
            f"{path}, row {odd[0] + 1}: t_seconds {times[odd[0]]:.10g} is not on the file's own {step:g} s grid; "
            f"give equal bins."
        )
    return slots


def bounded(path: Path, bins: float, step: float) -> None:
    """Refuses a span of more bins of `step` seconds than memory is meant for, before any is made."""
    if not bins <= MOST_BINS:
        raise UsageError(
            f"{path} spans {bins:.10g} bins of {step:g} s and at most {MOST_BINS} are read: cut it to "
            f"{MOST_BINS * step:.10g} s."
        )


def _name(path: Path) -> str:
    return re.sub(r"\.(csv|jsonl|json)(\.gz)?$", "", path.name)


def _kind(path: Path) -> Kind:
    words = re.split(r"[^a-z]+", path.name.lower())
    return Kind.RECON if "recon" in words else Kind.SYNTHETIC if "synthetic" in words else Kind.REAL
