"""Speculation and admission as functions, and the choice of a quantile by cost."""

from __future__ import annotations

import itertools

import pytest

from policies.admission import AdmissionFacts, admit
from policies.quantile import Trial, choose, newsvendor
from policies.speculation import SpeculationFacts, crossover, expected_tokens, gain, gate, latency

# A published A100 profile of an 8B model: tokens in the batch -> ms of one forward pass.
CURVE = ((1.0, 9.70), (32.0, 10.9), (128.0, 13.2), (256.0, 19.5), (512.0, 34.6), (2048.0, 141.8), (4096.0, 272.9))


def step_time(tokens: float) -> float:
    if tokens >= CURVE[-1][0]:
        return CURVE[-1][1] / 1000 * tokens / CURVE[-1][0]
    for (x0, y0), (x1, y1) in itertools.pairwise(CURVE):
        if tokens <= x1:
            return (y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)) / 1000
    raise AssertionError


def facts(batch: float, acceptance: float = 0.7) -> SpeculationFacts:
    return SpeculationFacts(batch, acceptance, step_time)


@pytest.mark.parametrize(
    ("acceptance", "depth", "tokens"),
    [(0.7, 0, 1.0), (0.7, 4, 2.7731), (0.5, 4, 1.9375), (1.0, 3, 4.0), (0.0, 5, 1.0)],
)
def test_expected_tokens(acceptance: float, depth: int, tokens: float) -> None:
    assert expected_tokens(acceptance, depth) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("batch", "acceptance", "expected"),
    [(1.0, 0.5, 1.91), (1.0, 0.7, 2.73), (1.0, 0.8, 3.31)],
)
def test_gain_at_depth_4_matches_the_published_table_at_batch_1(
    batch: float, acceptance: float, expected: float
) -> None:
    assert gain(facts(batch, acceptance), 4) == pytest.approx(expected, abs=0.01)


def test_a_fixed_depth_turns_from_a_gain_into_a_loss_and_the_gate_never_loses() -> None:
    fixed = [gain(facts(b), 4) for b in (1.0, 32.0, 128.0, 256.0)]
    assert fixed[0] > 2.5 and fixed[-1] < 0.7
    assert fixed == sorted(fixed, reverse=True)
    chosen = [gate(facts(b), before=0) for b in (1.0, 32.0, 128.0, 256.0)]
    assert all(c.gain >= 1.0 for c in chosen)
    assert [c.depth for c in chosen] == sorted((c.depth for c in chosen), reverse=True)
    assert chosen[-1].depth == 0


def test_the_gate_does_not_flip_at_its_edge() -> None:
    """Between 1.0x and 1.05x it stays what it was."""
    edge = next(b for b in range(100, 400) if 1.0 < max(gain(facts(float(b)), k) for k in range(1, 9)) < 1.05)
    assert gate(facts(float(edge)), before=0).depth == 0
    assert gate(facts(float(edge)), before=1).depth > 0


def test_a_depth_that_is_nearly_best_is_kept() -> None:
    best = gate(facts(1.0), before=0).depth
    assert gate(facts(1.0), before=best - 1).depth in (best - 1, best)
    assert gate(facts(8.0), before=gate(facts(8.5), before=0).depth).depth == gate(facts(8.5), before=0).depth


def test_the_gate_says_why() -> None:
    assert gate(facts(1.0), 0).text.startswith("speculate 8 deep: batch 1, acceptance 70 %, gains 3.")
    assert gate(facts(256.0), 0).text.startswith("no speculation: batch 256, acceptance 70 %, best depth 1 gains 0.")


def test_drafting_costs_time() -> None:
    dear = SpeculationFacts(1.0, 0.7, step_time, draft_time=0.02)
    assert gate(dear, 0).depth == 0


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 2.0), (5.0, 4.0), (10.0, None), (11.0, None)])
def test_latency_under_load(rate: float, expected: float | None) -> None:
    assert latency(rate, 2.0, 0.1) == expected


@pytest.mark.parametrize(
    ("plain", "drafted", "expected"),
    [
        pytest.param((2.0, 0.1), (1.0, 0.15), 5.0, id="drafting is faster below 5/s"),
        pytest.param((2.0, 0.1), (1.0, 0.05), None, id="always faster"),
        pytest.param((2.0, 0.1), (2.0, 0.1), None, id="the same"),
        pytest.param((2.0, 0.1), (1.0, 0.1), None, id="the curves meet only beyond saturation"),
    ],
)
def test_crossover(plain: tuple[float, float], drafted: tuple[float, float], expected: float | None) -> None:
    assert crossover(plain, drafted) == (None if expected is None else pytest.approx(expected))


WAITING = AdmissionFacts(prompt_tokens=1000.0, queued_tokens=4000.0, prefill_rate=5000.0, ttft_bound=2.0)


@pytest.mark.parametrize(
    ("asked", "admitted", "status", "retry", "said"),
    [
        pytest.param(WAITING, True, 200, None, "admitted: waits 0.8 s of 1.17 s", id="in time"),
        pytest.param(
            AdmissionFacts(1000.0, 40_000.0, 5000.0, 2.0),
            False,
            503,
            7.0,
            "would wait 8 s, the bound of 2 s allows 1.17 s",
            id="too late",
        ),
        pytest.param(
            AdmissionFacts(1000.0, 40_000.0, 5000.0, 2.0, priority=1), True, 200, None, "admitted", id="priority"
        ),
        pytest.param(AdmissionFacts(1000.0), True, 200, None, "admitted", id="unknown admits"),
        pytest.param(
            AdmissionFacts(20_000.0, 100.0, 5000.0, 2.0),
            True,
            200,
            None,
            "admitted: its own prefill of 4 s misses the bound on any replica",
            id="hopeless by itself",
        ),
        pytest.param(
            AdmissionFacts(10.0, 15_000.0, 5000.0, queue_length=8, queue_limit=8),
            False,
            429,
            3.0,
            "queue 8 >= 8",
            id="queue limit",
        ),
        pytest.param(
            AdmissionFacts(10.0, queue_length=8, queue_limit=8),
            False,
            429,
            1.0,
            "queue 8 >= 8",
            id="limit, wait unknown",
        ),
        pytest.param(
            AdmissionFacts(10.0, kv_free_tokens=100.0, kv_needed_tokens=400.0),
            True,
            200,
            None,
            "needs 400 KV tokens, 100 are free: waits",
            id="no room yet",
        ),
        pytest.param(
            AdmissionFacts(10.0, kv_free_tokens=500.0, kv_needed_tokens=400.0), True, 200, None, "admitted", id="room"
        ),
    ],
)
def test_admission(asked: AdmissionFacts, admitted: bool, status: int, retry: float | None, said: str) -> None:
    answer = admit(asked)
    assert (answer.admitted, answer.status, answer.retry_after_s, answer.text) == (admitted, status, retry, said)


@pytest.mark.parametrize(("miss", "idle", "level"), [(9.0, 1.0, 0.9), (1.0, 1.0, 0.5), (0.0, 1.0, 0.0)])
def test_the_newsvendor_level(miss: float, idle: float, level: float) -> None:
    assert newsvendor(miss, idle) == pytest.approx(level)


@pytest.mark.parametrize(("miss", "idle"), [(0.0, 0.0), (-1.0, 2.0)])
def test_impossible_costs_are_named(miss: float, idle: float) -> None:
    with pytest.raises(ValueError, match="costs of a miss"):
        newsvendor(miss, idle)


def test_the_cheapest_level_that_meets_the_target_is_chosen() -> None:
    trials = [Trial(0.5, 0.9, 80.0), Trial(0.9, 0.991, 100.0), Trial(0.99, 0.999, 140.0)]
    assert choose(trials, 0.99).level == 0.9
    assert choose(trials, 0.99).text == "level 0.9 is the cheapest that met 99 %: 99.1 % for 100 replica-hours"


def test_where_none_meets_it_the_closest_is_chosen_and_said() -> None:
    found = choose([Trial(0.5, 0.9, 80.0), Trial(0.9, 0.95, 100.0)], 0.99)
    assert (found.level, found.text) == (0.9, "no level met 99 %; level 0.9 came closest: 95 %")


def test_no_trial_is_an_error_with_the_number_needed() -> None:
    with pytest.raises(ValueError, match="at least 1 backtested level, got 0"):
        choose([], 0.99)
