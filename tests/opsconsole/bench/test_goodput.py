"""The arithmetic of goodput: shares over what was offered, exact percentiles, intervals with a known answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.bench.bounds import Bounds
from opsconsole.bench.client import Ending, Record
from opsconsole.bench.goodput import is_good, percentile, spread, summarise, wilson
from opsconsole.bench.report import to_fields, to_lines


def record(**values: object) -> Record:
    given: dict[str, object] = {
        "index": 0,
        "intended": 0.0,
        "sent": 0.0,
        "ending": Ending.OK,
        "ttft": 0.1,
        "tpot": 0.02,
        "e2e": 1.0,
        "chunks": 4,
        "output_tokens": 4,
    }
    return Record(**{**given, **values})  # type: ignore[arg-type]


BOUNDS = Bounds(ttft=1.0, tpot=0.08)


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({}, True),
        ({"ttft": 1.01}, False),
        ({"tpot": 0.081}, False),
        ({"ending": Ending.CUT}, False),
        ({"ending": Ending.TIMEOUT}, False),
        ({"tpot": None, "output_tokens": 1}, True),
        ({"tpot": None, "output_tokens": None}, False),
        ({"ttft": None}, False),
    ],
    ids=["inside", "late", "slow", "cut", "unfinished", "one token has no tpot", "uncounted", "no content"],
)
def test_a_request_is_good_only_inside_every_bound(values: dict[str, object], good: bool) -> None:
    assert is_good(record(**values), BOUNDS) is good


def test_bounds_on_the_whole_and_on_the_longest_gap_count_where_asked() -> None:
    assert not is_good(record(e2e=2.0), Bounds(e2e=1.5))
    assert not is_good(record(gaps=(0.1, 0.9)), Bounds(max_gap=0.5))
    assert is_good(record(gaps=(0.1, 0.4)), Bounds(max_gap=0.5))


@pytest.mark.parametrize(
    ("good", "n", "low", "high"), [(9, 10, 0.5958, 0.9821), (0, 10, 0.0, 0.2775), (95, 100, 0.8882, 0.9785)]
)
def test_wilson_intervals_are_the_published_ones(good: int, n: int, low: float, high: float) -> None:
    share = wilson(good, n)
    assert share is not None
    assert share.low == pytest.approx(low, abs=2e-4)
    assert share.high == pytest.approx(high, abs=2e-4)


def test_a_share_of_nothing_is_unknown() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("share", "value"), [(0.5, 2), (0.51, 3), (0.75, 3), (0.95, 4), (1.0, 4), (0.01, 1)])
def test_percentiles_are_values_that_were_seen(share: float, value: int) -> None:
    assert percentile([1, 2, 3, 4], share) == value


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_percentile_is_the_smallest_value_with_that_share_at_or_below_it(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found is not None and found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered) - 1e-6
    below = [value for value in ordered if value < found]
    assert not below or sum(value <= below[-1] for value in ordered) < share * len(ordered)


def test_a_p99_of_fewer_than_a_thousand_values_is_not_told() -> None:
    assert spread([1.0] * 999).p99 is None
    assert spread([1.0] * 1000).p99 == 1.0
    assert spread([]).p50 is None


def test_a_repeated_latency_of_nothing_is_unknown_and_not_zero() -> None:
    summary = summarise([record(ending=Ending.REFUSED, ttft=None, tpot=None)], BOUNDS, 10.0)
    fields = to_fields(summary)
    assert fields["ttft"]["p50"] is None
    assert (fields["attainment"], fields["failed"], fields["goodput"]) == (0.0, 1, 0.0)


def test_an_empty_run_has_no_attainment() -> None:
    summary = summarise([], BOUNDS, 10.0)
    assert summary.attainment is None and not summary.passes
    assert to_fields(summary)["attainment"] is None


def test_failures_stay_in_the_denominator_and_out_of_the_latencies() -> None:
    records = [record(), record(ending=Ending.CUT, ttft=9.0)]
    summary = summarise(records, BOUNDS, 2.0)
    assert summary.attainment is not None and summary.attainment.value == 0.5
    assert summary.ttft.n == 1 and summary.ttft.maximum == 0.1


def test_a_run_that_was_met_says_what_a_replica_can_be_counted_on_for() -> None:
    met = summarise([record() for _ in range(30)], BOUNDS, 12.0)
    assert to_fields(met)["capacity"] == {"requests": 2.5, "output_tokens": 10.0}
    assert "capacity   at least requests = 2.5, output_tokens = 10:" in "\n".join(to_lines(met))
    missed = summarise([record(), record(ending=Ending.CUT)], BOUNDS, 2.0)
    assert to_fields(missed)["capacity"] is None and "capacity" not in "\n".join(to_lines(missed))


def test_the_report_tells_n_and_calls_a_maximum_a_maximum() -> None:
    records = [record(tpot=None, output_tokens=1), record(sent=0.5), record(ending=Ending.REFUSED)]
    lines = "\n".join(to_lines(summarise(records, BOUNDS, 2.0)))
    assert "of 3 offered" in lines
    assert "p99 >= max" in lines
    assert "1 refused" in lines
    assert "no TPOT" in lines
    assert "this client sent late" in lines
