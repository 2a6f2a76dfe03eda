"""Records survive the wire, old and new versions read each other, and what does not fit is said."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.domain import records
from opsconsole.domain.records import Buckets, FleetSnapshot, Plan, PlanKind, ReplicaState, ReplicaView, Sample
from opsconsole.domain.wire import WireError, dumps, from_json, loads, loads_by_parts, to_json
from policies.situation import Outlook, Situation

RECORDS = [
    kind for kind in vars(records).values() if dataclasses.is_dataclass(kind) and kind.__module__ == records.__name__
]
words = st.text('ab\u00e9\U0001f600"\\\n', max_size=4)
numbers = st.one_of(st.floats(allow_nan=False), st.integers(-(2**40), 2**40).map(float))


def values(kind: Any, depth: int = 3) -> st.SearchStrategy[Any]:
    """Any value an annotation allows."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if type(None) in args:
        inner = next(arg for arg in args if arg is not type(None))
        return st.one_of(st.none(), values(inner, depth)) if depth else st.none()
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0], depth - 1), max_size=2 if depth > 0 else 0).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg, depth - 1) for arg in args))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(words, values(args[1], depth - 1), max_size=2)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        parts = {f.name: values(hints[f.name], depth - 1) for f in dataclasses.fields(kind)}
        made: Any = kind
        return st.builds(made, **parts)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    simple = {str: words, int: st.integers(-(2**40), 2**40), bool: st.booleans(), float: numbers}
    return simple[kind]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_record_comes_back_as_it_went(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    text = dumps(value)
    json.loads(text, parse_constant=_no_constant)
    assert loads(kind, text) == value


def by_parts(kind: Any, text: str) -> tuple[int, Any]:
    """How often reading stopped, and what came of it."""
    steps, stops = loads_by_parts(kind, text), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return stops, end.value
        stops += 1


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_record_read_by_parts_is_the_record_read_at_once(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    given = {**to_json(value), "from_the_future": [{"x": [1, "]"]}]}
    for text in (dumps(value), json.dumps(given), json.dumps(given, indent=2)):
        assert by_parts(kind, text)[1] == value


def test_reading_by_parts_stops_after_every_replica() -> None:
    views = tuple(ReplicaView(f"r{i}", "chat", ReplicaState.OK, "fine") for i in range(5))
    snapshot = FleetSnapshot(1, 2.0, "f", "off", replicas=views)
    assert by_parts(FleetSnapshot, dumps(snapshot)) == (5, snapshot)


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def test_infinities_travel_as_words_and_nan_as_unknown() -> None:
    page = Sample("r0", 1.0, waiting=math.nan, ttft=Buckets((0.5, math.inf), (1.0, 2.0)))
    data = json.loads(dumps(page))
    assert data["ttft"]["bounds"] == [0.5, "Inf"]
    back = from_json(Sample, data)
    assert back.waiting is None and back.ttft == page.ttft
    assert from_json(Buckets, {"bounds": ["-Inf"], "counts": [0]}).bounds == (-math.inf,)


def test_defaults_stay_at_home_and_unknown_keys_are_ignored() -> None:
    view = ReplicaView("r0", "chat", ReplicaState.OK, "fine")
    assert to_json(view) == {"replica": "r0", "pool": "chat", "state": "OK", "why": "fine"}
    assert from_json(ReplicaView, {**to_json(view), "from_the_future": {"x": [1]}}) == view


def test_a_false_where_the_default_is_true_is_not_mistaken_for_it() -> None:
    plan = Plan("p", PlanKind.SCALE, "chat", dry_run=False)
    assert from_json(Plan, to_json(plan)) == plan
    assert "dry_run" in to_json(plan) and "dry_run" not in to_json(dataclasses.replace(plan, dry_run=True))


def test_what_policies_hold_travels_too() -> None:
    outlook = Outlook((60.0,), (0.5, 0.9), ((1.0, 2.0),), "requests/s", "last")
    situation = Situation(1.0, "chat", None, 2, (), outlooks={"requests/s": outlook}, future=((1.0, 2.0),))
    assert loads(Situation, dumps(situation)) == situation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "expected dict, got list"),
        ("{}", "FleetSnapshot: .*tick"),
        ('{"tick": "1", "at": 1, "fleet": "f", "mode": "off"}', "expected int, got str"),
        ('{"tick": 1, "at": "soon", "fleet": "f", "mode": "off"}', "'soon' is not a number"),
        ('{"tick": 1, "at": 1, "fleet": "f", "mode": "off", "replicas": {}}', "expected list, got dict"),
        (
            '{"tick": 1, "at": 1, "fleet": "f", "mode": "off", "replicas": '
            '[{"replica": "r", "pool": "p", "state": "FINE", "why": ""}]}',
            "FINE",
        ),
    ],
)
def test_what_does_not_fit_is_said(text: str, words: str) -> None:
    with pytest.raises(WireError, match=words):
        loads(FleetSnapshot, text)
    with pytest.raises(WireError):
        by_parts(FleetSnapshot, text)


@pytest.mark.parametrize("cut", [0, 1, 10, 40, 60, 75])
def test_a_torn_text_is_said_by_parts_too(cut: int) -> None:
    text = dumps(FleetSnapshot(1, 2.0, "f", "off", replicas=(ReplicaView("r0", "chat", ReplicaState.OK, "fine"),)))
    with pytest.raises(WireError):
        by_parts(FleetSnapshot, text[:cut])


@dataclass(frozen=True, slots=True)
class Pair:
    """A record with a pair and a default made anew."""

    both: tuple[int, str]
    notes: Mapping[str, int] = field(default_factory=dict)


def test_pairs_have_their_length() -> None:
    assert from_json(Pair, to_json(Pair((1, "a")))) == Pair((1, "a"))
    with pytest.raises(WireError, match="expected 2 items"):
        from_json(Pair, {"both": [1]})
    with pytest.raises(WireError, match="no JSON form"):
        to_json(object())
