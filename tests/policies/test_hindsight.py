"""The running backtest of what each quantile would have bought, and the level it chooses for a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies import policy
from policies.compose import picture_of
from policies.decision import RuleResult
from policies.hindsight import LEVELS, TALLY, WANTED, Tally, in_force
from policies.memory import Memory
from policies.predictive import forecast_floor, level_of
from policies.situation import CapacityFacts, Demand, Limits, Outlook, Situation, SloFacts, Thresholds

Make = Callable[..., Situation]
STEP_S = 12.0  # a fifth of the lead of 60 s
EACH = CapacityFacts(request_rate=1.0)


def told(*values: float) -> Outlook:
    """The same quantiles at every lead, for 50, 90, 99 and 99.5 %."""
    levels = (0.5, 0.9, 0.99, 0.995)
    return Outlook((60.0, 600.0), levels, (values, values), "requests/s", "mix")


def lived(situation: Make, outlook: Outlook, came: Callable[[int], float], steps: int, **facts: object) -> Memory:
    """The memory after so many readings of what came, under one standing forecast."""
    memory = Memory()
    plain: dict[str, object] = {
        "capacity": EACH,
        "lead_s": 60.0,
        "lead_assumed": False,
        "slo": SloFacts(target=0.99),
        "outlooks": {"requests/s": outlook},
        "limits": Limits(1, 100, stabilise_down_s=60.0),
    }
    scene = situation(4, **{**plain, **facts})
    for step in range(steps):
        now = replace(scene, now=1000.0 + STEP_S * step, demand=Demand(request_rate=came(step)))
        _, memory = asked(now, memory)
    return memory


def asked(scene: Situation, memory: Memory) -> tuple[RuleResult, Memory]:
    return forecast_floor(picture_of(scene, memory), memory)


@pytest.mark.parametrize(
    ("target", "level"),
    [
        pytest.param(0.99, 0.99, id="99 % begins at the 99 % quantile"),
        pytest.param(0.95, 0.95, id="95 % at the 95 % one"),
        pytest.param(0.96, 0.97, id="between levels: the next"),
        pytest.param(0.999, 0.995, id="beyond the last level: the last"),
    ],
)
def test_before_any_backtest_the_target_decides(target: float, level: float) -> None:
    assert in_force(Memory(), target).level == level


def test_an_operator_s_quantile_stands_and_nothing_is_learned(situation: Make) -> None:
    memory = lived(situation, told(2, 3, 4, 5), lambda _: 2.0, 30, thresholds=Thresholds(quantile=0.9))
    assert memory == Memory()
    assert level_of(Thresholds(quantile=0.9), 0.99, memory).level == 0.9


def test_without_a_target_a_plain_level_stands(situation: Make) -> None:
    memory = lived(situation, told(2, 3, 4, 5), lambda _: 2.0, 30, slo=SloFacts())
    assert memory == Memory()
    assert level_of(Thresholds(), None, memory).level == 0.9


@pytest.mark.parametrize(
    ("worth", "held", "met", "backlog"),
    [
        pytest.param(2.0, 2.0, 120.0, 0.0, id="inside what a replica serves"),
        pytest.param(2.2, 2.0, 132.0 * (2 / 0.85 - 2.2) / (2 / 0.85 - 2.0), 0.0, id="between that and its limit"),
        pytest.param(4.0, 2.0, 0.0, (4.0 - 2 / 0.85) * 60, id="beyond the limit: all wait"),
    ],
)
def test_a_stretch_of_load_on_so_many_replicas(worth: float, held: float, met: float, backlog: float) -> None:
    found = Tally(0.9).after(worth, held, 60.0, 1.0)
    sums = [found.met, found.backlog, found.offered, found.held, found.span_s]
    assert sums == pytest.approx([met, backlog, worth * 60, held * 60, 60.0])


def test_whoever_comes_while_others_wait_misses_too() -> None:
    jam = Tally(0.9).after(4.0, 2.0, 60.0, 1.0)
    after = jam.after(1.0, 2.0, 60.0, 1.0)
    assert after.met == 0.0
    assert after.backlog == pytest.approx(jam.backlog + (1.0 - 2 / 0.85) * 60)


def test_evidence_outweighs_the_prior_as_it_grows() -> None:
    good = Tally(0.9, span_s=900.0, offered=900.0, met=900.0, held=1800.0)
    known, unknown = good.trial(prior_s=100.0), Tally(0.9).trial(100.0)
    assert (known.replica_hours, unknown.replica_hours) == (2.0, 0.0)
    assert [known.attainment, unknown.attainment] == pytest.approx([0.992, 0.92])


def test_a_forecast_that_was_too_wide_is_bought_at_a_cheaper_level(situation: Make) -> None:
    memory = lived(situation, told(4, 6, 9, 10), lambda _: 3.0, 700)
    found = in_force(memory, 0.99)
    assert found.level < 0.99
    assert "as the cheapest for a target of 99 %: in 133 min" in found.text
    result, _ = asked(replace(situation(4, capacity=EACH), slo=SloFacts(target=0.99), lead_s=60.0,
                              outlooks={"requests/s": told(4, 6, 9, 10)}), memory)  # fmt: skip
    assert found.text in result.text


def test_a_forecast_that_was_too_narrow_is_bought_at_a_dearer_level(situation: Make) -> None:
    def came(step: int) -> float:
        return 9.5 if step % 50 == 40 else 3.0  # a stretch in fifty above the 99 % quantile

    memory = lived(situation, told(4, 6, 9, 12), came, 700)
    assert in_force(memory, 0.99).level == 0.9925


def test_the_same_history_holds_a_lower_target_cheaper(situation: Make) -> None:
    def came(step: int) -> float:
        return 9.5 if step % 50 == 40 else 3.0

    facts = {"slo": SloFacts(target=0.9)}
    memory = lived(situation, told(4, 6, 9, 12), came, 700, **facts)
    assert in_force(memory, 0.9).level <= 0.9
    assert in_force(memory, 0.99).level == 0.99, "chosen for another target: the prior of this one"


def test_hours_that_nobody_read_are_not_judged(situation: Make) -> None:
    whole = lived(situation, told(4, 6, 9, 10), lambda _: 3.0, 100)
    gone = 1000.0 + STEP_S * 100 + 7200.0
    scene = situation(
        4, now=gone, capacity=EACH, lead_s=60.0, lead_assumed=False, slo=SloFacts(target=0.99),
        outlooks={"requests/s": told(4, 6, 9, 10)}, demand=Demand(request_rate=50.0),
    )  # fmt: skip
    _, after = asked(scene, whole)
    assert after.series(TALLY) == whole.series(TALLY)
    assert [row[0] for row in after.series(WANTED)] == [gone]


def test_unknown_demand_is_not_judged(situation: Make) -> None:
    whole = lived(situation, told(4, 6, 9, 10), lambda _: 3.0, 100)
    scene = situation(
        4, now=1000.0 + STEP_S * 100, capacity=EACH, lead_s=60.0, lead_assumed=False, slo=SloFacts(target=0.99),
        outlooks={"requests/s": told(4, 6, 9, 10)},
    )  # fmt: skip
    assert asked(scene, whole)[1] == whole


def test_what_is_remembered_is_bounded_and_plain_json(situation: Make) -> None:
    some, more = (lived(situation, told(4, 6, 9, 10), lambda _: 3.0, steps) for steps in (60, 300))
    assert len(more.series(WANTED)) == len(some.series(WANTED)) <= 14
    assert len(more.series(TALLY)) == len(LEVELS)
    assert Memory.from_json(more.to_json()) == more


def test_the_whole_law_learns_its_level_from_a_target(situation: Make) -> None:
    scene = situation(
        4, capacity=EACH, lead_s=60.0, lead_assumed=False, slo=SloFacts(target=0.99), demand=Demand(request_rate=3.0),
        outlooks={"requests/s": told(4, 6, 9, 10)},
    )  # fmt: skip
    law, memory = policy("predictive"), Memory()
    for step in range(20):
        decision, memory = law.decide(replace(scene, now=1000.0 + STEP_S * step), memory)
    floor = next(rule for rule in decision.rules if rule.rule == "forecast")
    assert floor.wants == 9
    assert "forecast 99 % quantile" in floor.text
    assert memory.series(TALLY)
