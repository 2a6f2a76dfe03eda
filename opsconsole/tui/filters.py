"""The filter language of `/`: words that must all hold, each a name part, a field test, or the opposite of one.

    x2k               the name, pool, model or node contains it
    st:sat            the state's word starts with it; also pool: model: node: role: engine: gpu: why:
    kv>90  slo<99     numbers as shown: kv, slo, hit in percent; ttft, tpot in seconds or 450ms; que, run
    !word             not

It must not know how rows look. The trap: an unknown number satisfies neither `>` nor `<`, so a stale replica is not
found by `kv<50`; and while someone is typing, `kv>` is not yet a test, so an unfinished word holds for every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from opsconsole.domain.records import ReplicaView

Test = Callable[[ReplicaView], bool]

_WORDS: Mapping[str, Callable[[ReplicaView], str | None]] = {
    "st": lambda r: r.state.value,
    "state": lambda r: r.state.value,
    "pool": lambda r: r.pool,
    "model": lambda r: r.model,
    "node": lambda r: r.node,
    "engine": lambda r: r.engine,
    "gpu": lambda r: r.gpu,
    "role": lambda r: r.role,
    "why": lambda r: r.why,
    "name": lambda r: r.replica,
}
NUMBERS: Mapping[str, Callable[[ReplicaView], float | None]] = {
    "que": lambda r: r.waiting,
    "run": lambda r: r.running,
    "kv": lambda r: _times(r.kv_usage, 100),
    "pre": lambda r: _times(r.preempt_rate, 60),
    "ttft": lambda r: r.ttft.p95,
    "tpot": lambda r: r.tpot.p95,
    "slo": lambda r: _times(r.attainment.low, 100) if r.attainment else None,
    "hit": lambda r: _times(r.hit_rate, 100),
    "in": lambda r: r.prompt_rate,
    "out": lambda r: r.output_rate,
    "age": lambda r: r.age,
}
_COMPARE = re.compile(r"^(?P<field>[a-z]+)(?P<op><=|>=|<|>|=)(?P<value>[0-9.]*)(?P<unit>ms|s|k|%)?$")
_UNITS = {"ms": 1e-3, "k": 1e3}


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def compile_filter(text: str) -> Test:
    """A test for one replica; an empty filter holds for all."""
    tests = [_word(word) for word in text.lower().split()]
    return lambda replica: all(test(replica) for test in tests)


def _word(word: str) -> Test:
    if word.startswith("!"):
        if len(word) == 1:
            return _always
        inner = _word(word[1:])
        return inner if inner is _always else lambda replica: not inner(replica)
    compared = _COMPARE.match(word)
    if compared and compared["field"] in NUMBERS:
        return _comparison(compared["field"], compared["op"], compared["value"], compared["unit"] or "")
    field, colon, wanted = word.partition(":")
    if colon and field in _WORDS:
        read = _WORDS[field]
        if field in ("st", "state"):
            return lambda replica: (read(replica) or "").lower().startswith(wanted)
        return lambda replica: wanted in (read(replica) or "").lower()
    return lambda replica: any(
        word in (part or "").lower() for part in (replica.replica, replica.pool, replica.model, replica.node)
    )


def _comparison(field: str, op: str, digits: str, unit: str) -> Test:
    try:
        limit = float(digits) * _UNITS.get(unit, 1.0)
    except ValueError:
        return _always
    read = NUMBERS[field]

    def holds(replica: ReplicaView) -> bool:
        value = read(replica)
        if value is None:
            return False
        if op == "=":
            return abs(value - limit) < 0.5
        if op in ("<", "<="):
            return value < limit or (op == "<=" and value == limit)
        return value > limit or (op == ">=" and value == limit)

    return holds


def _always(replica: ReplicaView) -> bool:
    return True


def compile_text_filter(text: str) -> Callable[[str], bool]:
    """The same grammar over plain text, for events: every word must be in it, `!word` must not."""
    words = text.lower().split()
    return lambda line: all(
        (word[1:] not in line.lower()) if word.startswith("!") and len(word) > 1 else word.strip("!") in line.lower()
        for word in words
    )
