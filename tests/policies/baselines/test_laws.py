"""Each baseline's decision on situations worked out by hand from its published law."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from policies import names, policy
from policies.baselines.dynamo_model import Lengths, decode_batch, decode_rate, prefill_rate, prefill_time
from policies.baselines.hpa import Hpa
from policies.baselines.oracle import highest
from policies.decision import Decision
from policies.memory import Memory
from policies.situation import Demand, Limits, Outlook, ReplicaFacts, Situation, SloFacts, StepProfile

Make = Callable[..., Situation]
MakeReplica = Callable[..., ReplicaFacts]


def ask(law: str, scene: Situation, memory: Memory | None = None, **knobs: Any) -> Decision:
    return policy(law, **knobs).decide(scene, memory or Memory())[0]


def ticks(law: str, scenes: list[Situation], **knobs: Any) -> list[int]:
    chosen, memory, targets = policy(law, **knobs), Memory(), []
    for scene in scenes:
        decision, memory = chosen.decide(scene, memory)
        targets.append(decision.target)
    return targets


def over_time(scene: Situation, every: float, count: int) -> list[Situation]:
    return [replace(scene, now=scene.now + every * i) for i in range(count)]


class TestRegistry:
    def test_every_name_operators_type_is_there(self) -> None:
        assert set(names()) == {
            *("reactive", "predictive", "static", "hpa-queue", "hpa-kv", "hpa-gpu", "hpa-ttft", "keda-epp", "kpa"),
            *("wva-v2", "dynamo-constant", "dynamo-arima", "dynamo-kalman", "oracle", "bound"),
        }

    @pytest.mark.parametrize("name", names())
    def test_every_law_knows_its_name_and_period_and_survives_knowing_nothing(self, name: str) -> None:
        law = policy(name)
        blind = Situation(now=0.0, pool="p", model=None, want=3, replicas=())
        decision, memory = law.decide(blind, Memory())
        assert (law.name, decision.current) == (name, 3)
        assert law.period_s > 0
        assert 1 <= decision.target <= 10
        assert decision.rules[0].text
        assert Memory.from_json(memory.to_json()) == memory

    def test_knobs_turn(self) -> None:
        law = policy("hpa-queue", target=9.0)
        assert isinstance(law, Hpa) and law.target == 9.0

    def test_an_unknown_law_is_named_with_what_there_is(self) -> None:
        with pytest.raises(ValueError, match=r"policy 'hpa' is unknown: use one of bound, dynamo-arima"):
            policy("hpa")

    def test_an_unknown_knob_is_named_with_what_there_is(self) -> None:
        with pytest.raises(ValueError, match=r"policy 'static' has no knob 'target': it has needs, period_s, replicas"):
            policy("static", target=1)

    def test_a_law_that_needs_a_forecast_says_which(self) -> None:
        assert {n: policy(n).needs for n in names() if policy(n).needs} == {
            "dynamo-arima": ("arima",),
            "dynamo-kalman": ("kalman",),
        }


class TestStatic:
    def test_holds_its_own_count_or_what_is_there(self, situation: Make) -> None:
        assert ask("static", situation(2), replicas=7).target == 7
        assert ask("static", situation(2)).target == 2


class TestHpa:
    @pytest.mark.parametrize(
        ("law", "facts", "target"),
        [
            pytest.param("hpa-queue", {"each": {"waiting": 10.0}}, 4, id="20 waiting over 5 is 4"),
            pytest.param("hpa-queue", {"each": {"waiting": 5.2}}, 2, id="inside the tolerance"),
            pytest.param("hpa-kv", {"each": {"kv_usage": 1.0}}, 3, id="100 % over 80 % of 2 is 2.5"),
            pytest.param("hpa-gpu", {"each": {"busy": 1.0}}, 3, id="busy all the time"),
            pytest.param("hpa-ttft", {"slo": SloFacts(ttft=1.0, ttft_p95=2.2)}, 5, id="2.2 s over 1 s of 2 is 4.4"),
        ],
    )
    def test_grows_by_its_signal(self, situation: Make, law: str, facts: dict[str, Any], target: int) -> None:
        assert ask(law, situation(2, **facts)).target == target

    @pytest.mark.parametrize(
        ("law", "facts"),
        [
            ("hpa-queue", {"each": {"waiting": None}}),
            ("hpa-kv", {"each": {"kv_usage": None}}),
            ("hpa-gpu", {}),
            ("hpa-ttft", {"slo": SloFacts(ttft=1.0)}),
        ],
    )
    def test_a_failed_metric_holds(self, situation: Make, law: str, facts: dict[str, Any]) -> None:
        decision = ask(law, situation(3, **facts))
        assert (decision.target, decision.held) == (3, True)
        assert "Failed" in decision.reason

    def test_a_crashed_replica_is_missing_and_counts_as_the_target_when_shrinking(
        self, situation: Make, replica: MakeReplica
    ) -> None:
        """r is 0.5; filled it is (0.4 + 0.4 + 0.8) / 3 / 0.8 = 0.67 of 3, where dropping the pod would have said 1."""
        crashed = replica("x", state="down", kv_usage=None)
        scene = situation(replicas=(replica("a", kv_usage=0.4), replica("b", kv_usage=0.4), crashed))
        assert ticks("hpa-kv", over_time(scene, 15.0, 21))[19:] == [3, 2]

    def test_a_loading_replica_that_reports_zero_pulls_the_mean_down(
        self, situation: Make, replica: MakeReplica
    ) -> None:
        loading = replica("new", state="warming", kv_usage=0.0)
        scene = situation(replicas=(replica("a", kv_usage=1.0), replica("b", kv_usage=1.0), loading))
        assert ask("hpa-kv", scene).target == 3  # r 0.83 of 3; without the loading one it would be 1.25 of 2

    def test_all_unready_recommends_zero_and_gets_the_minimum(self, situation: Make, replica: MakeReplica) -> None:
        scene = situation(
            replicas=(replica("a", state="down"), replica("b", state="down")), slo=SloFacts(ttft=1.0, ttft_p95=9.0)
        )
        assert ticks("hpa-ttft", over_time(scene, 15.0, 21))[19:] == [2, 1]

    def test_scaled_to_zero_by_hand_it_is_disabled(self, situation: Make) -> None:
        decision = ask("hpa-queue", situation(0))
        assert "ScalingDisabled" in decision.reason

    def test_shrinks_only_after_its_window(self, situation: Make) -> None:
        busy, calm = situation(4, each={"waiting": 5.0}), situation(4, each={"waiting": 1.0})
        scenes = [busy, *(replace(calm, now=1000.0 + 15.0 * i) for i in range(1, 22))]
        assert ticks("hpa-queue", scenes)[18:] == [4, 4, 1, 1]


class TestKedaEpp:
    @pytest.mark.parametrize(
        ("waiting", "running", "target"),
        [
            pytest.param(3.0, 10.0, 4, id="queue 6 wants 6 and 100 % allows 4"),
            pytest.param(1.5, 10.0, 3, id="queue 3 over 1"),
            pytest.param(0.0, 40.0, 4, id="running 80 over 16 wants 5 and 100 % allows 4"),
            pytest.param(0.0, 24.0, 3, id="running 48 over 16"),
        ],
    )
    def test_the_larger_of_queue_and_running(
        self, situation: Make, waiting: float, running: float, target: int
    ) -> None:
        assert ask("keda-epp", situation(2, each={"waiting": waiting, "running": running})).target == target

    def test_an_empty_answer_reads_as_zero_and_shrinks(self, situation: Make) -> None:
        scenes = over_time(situation(3, each={"waiting": None, "running": None}), 15.0, 21)
        assert ticks("keda-epp", scenes)[19:] == [3, 1]

    def test_wakes_from_zero_and_sleeps_after_the_cooldown(self, situation: Make) -> None:
        limits = Limits(0, 8)
        assert ask("keda-epp", situation(0, limits=limits, demand=Demand(gateway_waiting=1.0))).target == 1
        idle = over_time(situation(1, limits=limits, each={"running": 0.0}), 15.0, 21)
        assert ticks("keda-epp", idle)[19:] == [1, 0]


class TestKpa:
    def test_panics_at_twice_the_supply_and_wants_all_at_once(self, situation: Make) -> None:
        calm = over_time(situation(2, each={"running": 70.0}), 2.0, 30)
        burst = [replace(situation(2, each={"running": 280.0}), now=1060.0 + 2.0 * i) for i in range(3)]
        targets = ticks("kpa", calm + burst)
        assert targets[29] == 2
        # panic mean of the last three readings: (140 + 140 + 560) / 3 = 280 is 4 replicas, then 420 is 6, then 560 is 8
        assert targets[30:] == [4, 6, 8]

    def test_never_shrinks_in_panic_and_leaves_it_after_the_stable_window(self, situation: Make) -> None:
        burst = [replace(situation(2, each={"running": 280.0}), now=1000.0 + 2.0 * i) for i in range(4)]
        calm = [replace(situation(8, each={"running": 8.75}), now=1008.0 + 2.0 * i) for i in range(40)]
        targets = ticks("kpa", burst + calm)
        assert targets[3] == 8
        assert targets[4:30] == [8] * 26
        assert targets[-1] == 4  # from 8 at most half a tick

    def test_a_restart_with_several_ready_replicas_begins_in_panic(self, situation: Make) -> None:
        targets = ticks("kpa", over_time(situation(3, each={"running": 0.0}), 2.0, 10))
        assert set(targets) == {3}

    def test_no_data_holds(self, situation: Make) -> None:
        decision = ask("kpa", situation(3, each={"waiting": None, "running": None}))
        assert (decision.target, decision.held) == (3, True)

    def test_goes_to_zero_only_after_the_grace(self, situation: Make) -> None:
        scenes = over_time(situation(1, limits=Limits(0, 8), each={"running": 0.0}), 2.0, 17)
        assert ticks("kpa", scenes)[14:] == [1, 0, 0]
        assert ask("kpa", situation(0, limits=Limits(0, 8), demand=Demand(gateway_waiting=0.0))).target == 0


PROFILE = StepProfile(base_s=0.01, per_token_s=1e-4, kv_tokens=100_000.0, max_running=64, max_batch_tokens=2048)
TOKENS = Demand(request_rate=30.0, mean_prompt=1000.0, mean_output=1000.0)


class TestWvaV2:
    """Before saturation k2 = min(2048 x 1000 / 2000, 64) x 1500 = 96,000, and k1 = 0.8 x 100,000 is less."""

    def scene(self, situation: Make, live: int, **each: float) -> Situation:
        return situation(live, each={"kv_capacity_tokens": 100_000.0, **each}, profile=PROFILE, demand=TOKENS)

    def test_grows_by_the_computed_count(self, situation: Make) -> None:
        """2 x 90,000 in use + 6 x 1,000 waiting = 186,000; / 0.85 - 160,000 = 58,824 is one more."""
        assert ask("wva-v2", self.scene(situation, 2, kv_usage=0.9, waiting=3.0)).target == 3

    def test_shrinks_by_whole_spare_replicas(self, situation: Make) -> None:
        """320,000 - 80,000 / 0.7 = 205,714 is 2 whole ones."""
        scenes = over_time(self.scene(situation, 4, kv_usage=0.2), 60.0, 6)
        assert ticks("wva-v2", scenes) == [4, 4, 4, 4, 4, 2]

    def test_a_saturated_queue_teaches_a_smaller_capacity(self, situation: Make) -> None:
        """Tokens in use at the limit: 40,000. (80,000 + 12,000) / 0.85 - 80,000 = 28,235 is one more."""
        assert ask("wva-v2", self.scene(situation, 2, kv_usage=0.4, waiting=6.0)).target == 3

    def test_pending_replicas_count_as_supply(self, situation: Make, replica: MakeReplica) -> None:
        full = {"kv_usage": 0.9, "waiting": 3.0, "kv_capacity_tokens": 100_000.0}
        members = (replica("a", **full), replica("b", **full), replica("c", state="warming"))
        assert ask("wva-v2", situation(replicas=members, profile=PROFILE, demand=TOKENS)).target == 3

    def test_without_ready_replicas_the_stored_capacity_serves(self, situation: Make, replica: MakeReplica) -> None:
        law, seen = policy("wva-v2"), self.scene(situation, 2, kv_usage=0.5)
        _, memory = law.decide(seen, Memory())
        knocks = replace(TOKENS, gateway_waiting=90.0)
        gone = situation(replicas=(replica("x", state="warming"),), demand=knocks, now=1060.0)
        decision, _ = law.decide(gone, memory)
        assert decision.target == 3  # 90 x 2,000 = 180,000; / 0.85 - 80,000 = 131,765 is two more
        assert ask("wva-v2", gone).held

    def test_an_untold_length_falls_back_to_k1(self, situation: Make) -> None:
        scene = replace(self.scene(situation, 2, kv_usage=0.95), demand=Demand(request_rate=1.0))
        assert ask("wva-v2", scene).target == 3  # 190,000 / 0.85 - 160,000 = 63,529

    def test_goes_to_zero_after_ten_minutes_without_a_request_and_wakes_on_the_router_queue(
        self, situation: Make
    ) -> None:
        quiet = situation(1, limits=Limits(0, 8), demand=Demand(request_rate=0.0), each={"kv_capacity_tokens": 1e5})
        assert ticks("wva-v2", over_time(quiet, 60.0, 11))[9:] == [1, 0]
        knock = situation(0, limits=Limits(0, 8), demand=Demand(gateway_waiting=1.0))
        assert ask("wva-v2", knock).target == 1


class TestDynamo:
    """Prompt 1,000, answer 100, bound 50 ms: prefill 0.11 s is 9.09/s; batch 95 takes 19.5 ms, 48.7/s."""

    LENGTHS = Lengths(1000.0, 100.0)
    DEMAND = Demand(request_rate=30.0, mean_prompt=1000.0, mean_output=100.0)
    BIG = replace(PROFILE, max_running=1000)

    def test_the_model_s_rates(self) -> None:
        assert prefill_rate(self.BIG, self.LENGTHS) == pytest.approx(1 / 0.11)
        assert decode_batch(self.BIG, self.LENGTHS, 0.05) == 95
        assert decode_rate(self.BIG, self.LENGTHS, 0.05) == pytest.approx(95 / (100 * 0.0195))

    def test_a_long_prompt_pays_the_base_for_every_chunk(self) -> None:
        assert prefill_time(PROFILE, 5000.0) == pytest.approx(3 * 0.01 + 5000 * 1e-4)
        assert prefill_time(PROFILE, 4096.0) == pytest.approx(2 * 0.01 + 4096 * 1e-4)
        assert prefill_time(PROFILE, 0.0) == 0.01

    def test_a_bound_that_cannot_be_met_still_decodes_one(self) -> None:
        assert decode_batch(PROFILE, self.LENGTHS, 0.001) == 1

    def scene(self, situation: Make, live: int, **facts: Any) -> Situation:
        given = {"profile": self.BIG, "demand": self.DEMAND, "slo": SloFacts(ttft=0.5, tpot=0.05), **facts}
        return situation(live, **given)

    def test_the_throughput_loop_sets_a_floor_at_the_end_of_its_interval(self, situation: Make) -> None:
        """30 / 9.09 + 30 / 48.7 = 3.9 is 4."""
        scenes = over_time(self.scene(situation, 1), 5.0, 37)
        targets = ticks("dynamo-constant", scenes)
        assert targets[:36] == [1] * 36
        assert targets[36] == 4

    @pytest.mark.parametrize(("role", "target"), [("prefill", 4), ("decode", 1)])
    def test_a_pool_of_one_role_counts_its_own_part(self, situation: Make, role: str, target: int) -> None:
        assert ticks("dynamo-constant", over_time(self.scene(situation, 1, role=role), 180.0, 2))[-1] == target

    @pytest.mark.parametrize("model", ["arima", "kalman"])
    def test_a_forecast_is_read_one_interval_ahead(self, situation: Make, model: str) -> None:
        outlook = Outlook((60.0, 300.0), (0.5,), ((30.0,), (90.0,)), "requests/s", model)  # 60/s at 180 s
        scene = self.scene(situation, 1, outlooks={f"{model}:requests/s": outlook})
        assert ticks(f"dynamo-{model}", over_time(scene, 180.0, 2))[-1] == 8

    def test_a_forecast_that_was_not_supplied_keeps_the_floor(self, situation: Make) -> None:
        assert ticks("dynamo-arima", over_time(self.scene(situation, 3), 180.0, 3)) == [2, 2, 2]

    @pytest.mark.parametrize(
        ("each", "target"),
        [
            pytest.param({"waiting": 5.0, "running": 10.0}, 3, id="0.66 s of prefill is over 0.5 s on every engine"),
            pytest.param({"waiting": 1.0, "running": 500.0}, 3, id="60 ms a token is over 50 ms on every engine"),
            pytest.param({"waiting": 3.0, "running": 200.0}, 2, id="within the bounds, no margin to shrink"),
            pytest.param({"waiting": 0.0, "running": 5.0}, 1, id="the rest would hold it"),
            pytest.param({"waiting": 0.0, "running": 5.0, "kv_usage": 0.6}, 2, id="KV would not fit on one"),
            pytest.param({"waiting": 0.0, "running": 190.0}, 2, id="48 ms a token on one is over 40 ms"),
        ],
    )
    def test_the_load_loop_moves_by_one(self, situation: Make, each: dict[str, float], target: int) -> None:
        assert ask("dynamo-constant", self.scene(situation, 2, each=each)).target == target

    def test_one_engine_within_the_bound_is_enough_to_wait(self, situation: Make, replica: MakeReplica) -> None:
        members = (replica("a", waiting=50.0), replica("b", waiting=1.0))
        scene = replace(self.scene(situation, 2), replicas=members)
        assert ask("dynamo-constant", scene).target == 2

    @pytest.mark.parametrize(
        ("member", "said"),
        [
            pytest.param({"state": "warming"}, "scaling_in_progress", id="a replica starts"),
            pytest.param({"state": "down"}, "worker_count_mismatch", id="a replica is lost"),
            pytest.param({"waiting": None}, "insufficient_data", id="a replica is silent"),
        ],
    )
    def test_it_freezes_until_the_fleet_has_settled(
        self, situation: Make, replica: MakeReplica, member: dict[str, Any], said: str
    ) -> None:
        members = (replica("a", waiting=50.0), replica("b", **member))
        decision = ask("dynamo-constant", replace(self.scene(situation, 2), replicas=members))
        assert decision.target == 2
        assert said in decision.reason

    def test_without_a_profile_there_is_no_data(self, situation: Make) -> None:
        assert "no_fpm_data" in ask("dynamo-constant", self.scene(situation, 2, profile=None)).reason
        targets = ticks("dynamo-constant", over_time(self.scene(situation, 2, profile=None), 180.0, 3))
        assert targets == [2, 2, 2]

    def test_the_floor_caps_the_load_loop(self, situation: Make) -> None:
        law, memory = policy("dynamo-constant"), Memory()
        for scene in over_time(self.scene(situation, 4), 180.0, 2):
            decision, memory = law.decide(scene, memory)
        assert decision.target == 4
        assert "scale_down_capped_by_throughput" in decision.reason

    def test_an_own_prefill_over_the_bound_never_consolidates(self, situation: Make) -> None:
        """The field failure it is known for: a single request over the SLA became a permanent floor."""
        scene = self.scene(situation, 2, slo=SloFacts(ttft=0.05, tpot=0.05), role="decode")
        assert ask("dynamo-constant", scene).target == 2


class TestOracles:
    FUTURE = ((0.0, 1.2), (100.0, 3.0), (160.0, 0.5), (400.0, 2.0))

    @pytest.mark.parametrize(
        ("now", "bound", "oracle"),
        [
            pytest.param(0.0, 2, 2, id="nothing within the lead"),
            pytest.param(40.0, 2, 3, id="the rise at 100 s is one lead away"),
            pytest.param(39.0, 2, 2, id="a second before, it is not"),
            pytest.param(120.0, 3, 3, id="on the hill"),
            pytest.param(170.0, 1, 1, id="behind it"),
            pytest.param(340.0, 1, 2, id="before the next"),
            pytest.param(900.0, 2, 2, id="the last value holds"),
        ],
    )
    def test_what_is_needed_now_and_within_a_lead(self, situation: Make, now: float, bound: int, oracle: int) -> None:
        scene = situation(1, now=now, lead_s=60.0, future=self.FUTURE)
        assert (ask("bound", scene).target, ask("oracle", scene).target) == (bound, oracle)

    def test_without_a_future_it_holds(self, situation: Make) -> None:
        assert ask("oracle", situation(3)).held

    @pytest.mark.parametrize("seed", range(40))
    def test_the_clairvoyant_schedule_costs_what_an_exhaustive_search_finds(self, seed: int) -> None:
        """Against a search over all schedules of at most 2 replicas on 9 steps with a start of 2 steps."""
        need = [(seed * 7919 + i * i * 31 + (seed >> 2) * i) % 5 // 2 for i in range(9)]
        start = 2
        future = tuple((float(i), float(n)) for i, n in enumerate(need))
        held = [max(n, 0) for n in (int(highest(future, float(t), float(t + start)) or 0) for t in range(-start, 9))]
        assert sum(held) == _cheapest(need, start)


def _cheapest(need: list[int], start: int) -> int:
    """Least replica-steps of any schedule over steps -start..len-1 whose replicas, useful `start` steps after they
    begin, cover the need. Levels are independent, so each level's on/off pattern is searched on its own."""
    steps = len(need) + start
    total = 0
    for level in range(1, max(need, default=0) + 1):
        wanted = [i + start for i, n in enumerate(need) if n >= level]
        best = None
        for pattern in itertools.product((0, 1), repeat=steps):
            on = [all(pattern[i - start : i + 1]) for i in wanted]
            if all(on) and (best is None or sum(pattern) < best):
                best = sum(pattern)
        total += best or 0
    return total
