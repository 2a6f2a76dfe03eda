"""The fleet grid's columns: title, width, alignment, what is in a cell and how rows are ordered by it.

It must not know which rows are shown. A column is data, so that the user can choose and reorder them. The trap: an
unknown value sorts after every known one, in both directions, or the holes would hide the worst rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opsconsole.domain.records import ReplicaState, ReplicaView
from opsconsole.tui import draw
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, clean, left, right, tail
from opsconsole.tui.layout import Form
from opsconsole.tui.world import Look, World

Key = Callable[[ReplicaView], float | str | None]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the grid."""

    name: str
    title: str
    width: int
    cell: Callable[[ReplicaView, World, Look, int], Cell]
    key: Key | None = None  # None: cannot be sorted by
    numeric: bool = True
    descending: bool = True  # the useful direction, first press


def _stale(replica: ReplicaView) -> bool:
    return replica.state is ReplicaState.STALE


def _said(replica: ReplicaView, text: str, style: str, cells: int) -> Cell:
    """A value with its doubt: a stale one keeps the last good number and a question mark."""
    if text == fmt.MISSING:
        return Cell(right(text, cells), "dim")
    if _stale(replica):
        return Cell(right(text + "?", cells), "STALE")
    return Cell(right(text, cells), style)


def _number(read: Callable[[ReplicaView], float | None], say: Callable[[float | None], str]) -> Callable[..., Cell]:
    return lambda replica, world, look, cells: _said(replica, say(read(replica)), "text", cells)


def _name(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    return Cell(tail(clean(replica.replica), cells), "text")


def _word(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    return Cell(left(replica.state.value, cells), replica.state.value)


def _queue(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    busy = replica.waiting is not None and replica.waiting > 0
    return _said(replica, fmt.count(replica.waiting), "warn" if busy else "text", cells)


def _kv(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    used = replica.kv_usage
    text = fmt.percent(used)
    style = "bad" if used is not None and used >= 0.95 else "warn" if used is not None and used > 0.85 else "text"
    number = _said(replica, text, style, 4)
    if cells <= 5 or used is None:
        return Cell(left(number.text, cells), number.style)
    gap = "" if number.text.endswith("?") else " "
    filled = draw.bar(used, cells - 4 - len(gap), look.glyphs)
    return Cell(number.text + gap + filled, number.style if number.style != "text" else "bar")


def _latency(pick: str, quantile: str) -> Callable[..., Cell]:
    def cell(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
        view = getattr(replica, pick)
        return _said(replica, fmt.latency(getattr(view, quantile), view.lower_bound), "text", cells)

    return cell


def _slo(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    met = replica.attainment
    text = fmt.share(met, 1, "")
    low = None if met is None else met.low
    if met is not None and not met.exact and len(text) > cells:
        text = f">{fmt.percent(met.low, 0)}"
    style = "text" if low is None or low >= 0.99 else "warn" if low >= 0.9 else "bad"
    return _said(replica, text, style, cells)


def _age(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    at = world.snapshot.at if world.snapshot else look.now
    if replica.started_at is None:
        return Cell(right(fmt.MISSING, cells), "dim")
    return Cell(right(fmt.age(at - replica.started_at), cells), "dim")


def _trend(replica: ReplicaView, world: World, look: Look, cells: int) -> Cell:
    if replica.state is ReplicaState.WARMING and replica.phase:
        return Cell(left(clean(replica.phase), cells), "WARM")
    busy = world.trends.replica(replica.replica, "running")
    if not busy:
        return Cell(" " * cells)
    return Cell(draw.spark(busy, cells, look.glyphs), "spark")


def _text(read: Callable[[ReplicaView], str | None]) -> Callable[..., Cell]:
    return lambda replica, world, look, cells: Cell(left(clean(read(replica) or fmt.MISSING), cells), "text")


def _flag_risk(replica: ReplicaView) -> float:
    """Smaller is worse: the state first, then what share of requests misses."""
    met = replica.attainment.low if replica.attainment else 1.0
    return replica.state.risk * 10 + met - min(replica.waiting or 0.0, 1e4) / 1e6


def _p(field: str, quantile: str) -> Key:
    return lambda r: getattr(getattr(r, field), quantile)


COLUMNS: Mapping[str, Column] = {
    c.name: c
    for c in (
        Column("replica", "REPLICA", 10, _name, lambda r: r.replica, numeric=False, descending=False),
        Column("st", "ST", 5, _word, lambda r: float(r.state.risk), numeric=False, descending=False),
        Column("que", "QUE", 4, _queue, lambda r: r.waiting),
        Column("run", "RUN", 4, _number(lambda r: r.running, fmt.count), lambda r: r.running),
        Column("kv", "KV%", 14, _kv, lambda r: r.kv_usage),
        Column("pre", "PRE/m", 5, _number(lambda r: r.preempt_rate, fmt.per_minute), lambda r: r.preempt_rate),
        Column("ttft50", "TTFT50", 6, _latency("ttft", "p50"), _p("ttft", "p50")),
        Column("ttft", "TTFT95", 6, _latency("ttft", "p95"), _p("ttft", "p95")),
        Column("tpot", "TPOT95", 6, _latency("tpot", "p95"), _p("tpot", "p95")),
        Column("slo", "SLO%", 5, _slo, lambda r: r.attainment.low if r.attainment else None, descending=False),
        Column("hit", "HIT%", 4, _number(lambda r: r.hit_rate, fmt.percent), lambda r: r.hit_rate),
        Column("in", "IN t/s", 7, _number(lambda r: r.prompt_rate, fmt.tokens_per_second), lambda r: r.prompt_rate),
        Column("out", "OUT t/s", 7, _number(lambda r: r.output_rate, fmt.tokens_per_second), lambda r: r.output_rate),
        Column("req", "REQ/s", 6, _number(lambda r: r.request_rate, fmt.rate), lambda r: r.request_rate),
        Column("good", "GOOD/s", 6, _number(lambda r: r.goodput, fmt.rate), lambda r: r.goodput),
        Column("trend", "load", 10, _trend, None, numeric=False),
        Column("age", "AGE", 5, _age, lambda r: None if r.started_at is None else -r.started_at),
        Column("pool", "POOL", 10, _text(lambda r: r.pool), lambda r: r.pool, numeric=False, descending=False),
        Column("model", "MODEL", 14, _text(lambda r: r.model), lambda r: r.model, numeric=False, descending=False),
        Column("node", "NODE", 10, _text(lambda r: r.node), lambda r: r.node, numeric=False, descending=False),
        Column("gpu", "GPU", 8, _text(lambda r: r.gpu), lambda r: r.gpu, numeric=False, descending=False),
        Column("role", "ROLE", 7, _text(lambda r: r.role), lambda r: r.role, numeric=False, descending=False),
        Column("engine", "ENGINE", 10, _text(lambda r: r.engine), lambda r: r.engine, numeric=False, descending=False),
        Column("why", "WHY", 30, _text(lambda r: r.why), None, numeric=False),
    )
}

_TINY = ("replica", "st", "que", "kv")
_SMALL = ("replica", "st", "que", "run", "kv", "pre", "ttft", "tpot", "slo", "hit", "age")
_WIDE = (
    "replica",
    "st",
    "que",
    "run",
    "kv",
    "pre",
    "ttft50",
    "ttft",
    "tpot",
    "slo",
    "hit",
    "in",
    "out",
    "trend",
    "age",
)
_LEAST_FIRST = ("trend", "ttft50", "in", "out", "hit", "age", "pre", "tpot", "ttft", "role", "run", "kv")


def chosen(
    form: Form, room: int, asked: tuple[str, ...] = (), wide: bool = False, roles: bool = False
) -> list[tuple[Column, int]]:
    """The columns that fit in `room` cells and their widths; names take what is left over, least important go first.

    With `roles`, what part of a request a replica serves stands beside its state.
    """
    if asked:
        names = [name for name in asked if name in COLUMNS]
    elif form is Form.TINY:
        names = list(_TINY)
    else:
        names = list(_WIDE if form >= Form.WIDE or wide else _SMALL)
        names[2:2] = ["role"] if roles else []
    picked = [COLUMNS[name] for name in names] or [COLUMNS["replica"]]
    for victim in () if asked else _LEAST_FIRST:
        if _needed(picked) <= room or len(picked) <= 2:
            break
        picked = [column for column in picked if column.name != victim]
    spare = room - _needed(picked)
    widths = {column.name: column.width for column in picked}
    if form is Form.TINY and spare < 0:
        widths = {name: min(cells, max(4, room // max(1, len(picked)) - 1)) for name, cells in widths.items()}
    for name, most in (("replica", 16), ("kv", 17), ("trend", 16), ("replica", 32), ("trend", 40)):
        if name in widths and spare > 0:
            take = min(spare, max(0, most - widths[name]))
            widths[name] += take
            spare -= take
    return [(column, widths[column.name]) for column in picked]


def _needed(columns: list[Column]) -> int:
    return sum(column.width + 1 for column in columns) - 1


def order_key(name: str) -> Callable[[ReplicaView], float | str | None]:
    """What rows are ordered by; RISK is the state's urgency, then what share misses."""
    if name == "risk" or name not in COLUMNS or COLUMNS[name].key is None:
        return _flag_risk
    found = COLUMNS[name].key
    assert found is not None
    return found


def descending(name: str, reverse: bool) -> bool:
    """The direction in force."""
    natural = name in COLUMNS and COLUMNS[name].descending and name != "risk"
    return natural is not reverse
