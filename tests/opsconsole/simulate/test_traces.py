"""What a load is: labels, windows, bins, scale, and requests drawn from bins."""

from __future__ import annotations

import numpy as np
import pytest

from opsconsole.errors import UsageError
from opsconsole.simulate.synthetic import SHAPES, synthetic
from opsconsole.simulate.traces import Kind, Lengths, Requests, Trace, draw_requests, load_of, shuffled


def trace_of(counts: list[float], step: float = 10.0, tokens: tuple[float, float] | None = None) -> Trace:
    requests = np.array(counts)
    if tokens is None:
        return Trace("t", Kind.REAL, step, requests)
    return Trace("t", Kind.REAL, step, requests, requests * tokens[0], requests * tokens[1])


def test_coarse_bins_are_spread_and_fine_ones_add_up() -> None:
    assert trace_of([30.0, 60.0], 30.0).in_bins(10.0).requests.tolist() == pytest.approx([10, 10, 10, 20, 20, 20])
    assert trace_of([1.0, 2.0, 3.0, 4.0], 5.0).in_bins(10.0).requests.tolist() == pytest.approx([3, 7])


def test_a_window_keeps_whole_bins_and_the_requests_in_them() -> None:
    single = Requests(np.array([1.0, 12.0, 25.0]), np.array([5, 6, 7]), np.array([1, 2, 3]), ((1,), (2,), (3,)))
    trace = Trace("t", Kind.REAL, 10.0, np.ones(3), single=single)
    part = trace.window(10.0, 30.0)
    assert part.requests.size == 2
    assert part.start == 10.0
    assert part.single is not None
    assert part.single.prompt.tolist() == [6, 7]
    assert part.single.blocks == ((2,), (3,))
    drawn = draw_requests(load_of(part), seed=1)
    assert drawn.times.tolist() == pytest.approx([2.0, 15.0])


def test_a_window_outside_the_trace_is_refused() -> None:
    with pytest.raises(UsageError, match="no window from 10 s to 50 s"):
        trace_of([1.0, 1.0]).window(10.0, 50.0)


def test_stated_lengths_stand_in_for_absent_tokens_and_are_told() -> None:
    load = load_of(trace_of([10.0, 20.0]), 2.0, Lengths(500.0, 50.0))
    assert load.rate.tolist() == [2.0, 4.0]
    many = load_of(trace_of([100.0] * 2000), 2.0, Lengths(500.0, 50.0))
    assert many.prompt.mean() == pytest.approx(20 * 500.0, rel=0.01)
    assert many.prompt.std() == pytest.approx(20 * 500.0 / 200**0.5, rel=0.1)  # of 200 requests with a spread of 1
    assert "no token counts: log-normal, mean 500 prompt and 50 output" in load.words


def test_recorded_tokens_are_kept_by_every_bin_of_drawn_requests() -> None:
    load = load_of(trace_of([40.0, 10.0, 0.0, 80.0], tokens=(300.0, 30.0)))
    drawn = draw_requests(load, seed=3)
    assert len(drawn) == 130
    assert (np.diff(drawn.times) >= 0).all()
    bins = (drawn.times // 10).astype(int)
    sums = np.bincount(bins, weights=drawn.prompt, minlength=4)
    assert sums.tolist() == pytest.approx([12000.0, 3000.0, 0.0, 24000.0], rel=0.01)


def test_the_same_seed_draws_the_same_requests() -> None:
    load = load_of(trace_of([40.0, 10.0]), 1.5)
    one, two, other = (draw_requests(load, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.times, two.times)
    assert np.array_equal(one.prompt, two.prompt)
    assert not np.array_equal(one.times, other.times)


def test_scaled_recorded_requests_are_repeated_near_their_own_time() -> None:
    single = Requests(np.array([5.0, 15.0]), np.array([100, 200]), np.array([10, 20]))
    load = load_of(Trace("t", Kind.REAL, 10.0, np.ones(2), single=single), 3.0)
    drawn = draw_requests(load, seed=1)
    assert sorted(drawn.prompt.tolist()) == [100, 100, 100, 200, 200, 200]
    assert np.abs(drawn.times - np.where(drawn.prompt == 100, 5.0, 15.0)).max() <= 0.5


def test_shuffling_keeps_the_bins_and_loses_the_order() -> None:
    trace = trace_of([float(i) for i in range(200)], tokens=(2.0, 1.0))
    mixed = shuffled(trace, seed=1)
    assert sorted(mixed.requests.tolist()) == trace.requests.tolist()
    assert mixed.requests.tolist() != trace.requests.tolist()
    assert mixed.prompt is not None
    assert np.array_equal(mixed.prompt, 2.0 * mixed.requests)
    assert mixed.kind is Kind.SYNTHETIC


def test_the_digest_follows_what_is_simulated() -> None:
    assert trace_of([1.0, 2.0]).digest() == trace_of([1.0, 2.0]).digest()
    assert trace_of([1.0, 2.0]).digest() != trace_of([1.0, 3.0]).digest()
    assert trace_of([1.0, 2.0]).digest() != trace_of([1.0, 2.0], tokens=(1.0, 1.0)).digest()


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_synthetic_loads_follow_from_their_seed_and_are_labelled(name: str) -> None:
    trace = synthetic(name, seed=4, days=1.0)
    assert trace.label == f"{name} [synthetic]"
    assert trace.requests.size == 8640
    assert 5.0 < trace.requests.mean() / 10.0 < 60.0
    assert np.array_equal(trace.requests, synthetic(name, seed=4, days=1.0).requests)
    assert not np.array_equal(trace.requests, synthetic(name, seed=5, days=1.0).requests)


def test_an_unknown_synthetic_load_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="synthetic:diurnal"):
        synthetic("storm", seed=1)


def test_nothing_to_serve_is_an_error() -> None:
    with pytest.raises(UsageError, match="holds no requests"):
        load_of(trace_of([0.0, 0.0]))
