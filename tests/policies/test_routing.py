"""The routing rule against every failure mode that routers in the field have shown, each named in its test."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from policies.routing import Placement, RouteRequest, RoutingMemory, WorkerFacts, place

COMMON = tuple(range(1, 17))  # a universal system prompt of 16 chunks


def facts(*loads: float, **same: object) -> list[WorkerFacts]:
    return [WorkerFacts(f"w{i}", inflight_tokens=load, **same) for i, load in enumerate(loads)]  # type: ignore[arg-type]


def once(request: RouteRequest, workers: Sequence[WorkerFacts], memory: RoutingMemory | None = None) -> Placement:
    return place(request, workers, memory or RoutingMemory(), 0.0, 0.0)[0]


@dataclass
class Fleet:
    """Workers that serve `speed` tokens a second each, and a router in front; time is a number."""

    names: list[str]
    speed: float = 1000.0
    now: float = 0.0
    memory: RoutingMemory = field(default_factory=RoutingMemory)
    load: dict[str, float] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    hits: int = 0

    def send(self, request: RouteRequest, draw: float) -> str:
        workers = [
            WorkerFacts(n, inflight_tokens=self.load.get(n, 0.0), started_at=self.started.get(n)) for n in self.names
        ]
        placed, self.memory = place(request, workers, self.memory, draw, self.now)
        assert placed.worker is not None
        self.load[placed.worker] = self.load.get(placed.worker, 0.0) + request.tokens
        self.hits += placed.matched_tokens > 0
        self.memory.check()
        return placed.worker

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for name in self.load:
            self.load[name] = max(0.0, self.load[name] - self.speed * seconds)


def test_a_shared_prefix_does_not_pin_everything_to_one_worker() -> None:
    fleet, rng, counts = Fleet([f"w{i}" for i in range(4)]), random.Random(1), Counter[str]()
    for i in range(2000):
        counts[fleet.send(RouteRequest((*COMMON, 1000 + i), tokens=2200.0), rng.random())] += 1
        fleet.pass_time(2200.0 / (4 * 1000.0 * 0.7))
    assert max(counts.values()) / (2000 / 4) <= 1.2


def test_every_branch_remembers_so_that_the_next_identical_prompt_hits() -> None:
    memory = RoutingMemory()
    request = RouteRequest((1, 2, 3), tokens=300.0)
    for loads in ((0.0, 0.0), (9e5, 0.0), (0.0, 9e5)):
        first, memory = place(request, facts(*loads), memory, 0.5, 0.0)
        again, memory = place(request, facts(0.0, 0.0), memory, 0.5, 1.0)
        assert (again.worker, again.matched_tokens) == (first.worker, 300.0)
        memory = RoutingMemory()


def test_under_high_load_affinity_still_works_among_workers_of_similar_load() -> None:
    fleet, rng = Fleet([f"w{i}" for i in range(4)]), random.Random(2)
    for turn in range(20):
        for session in range(20):
            hashes = tuple(session * 1000 + k for k in range(turn + 1))
            fleet.send(RouteRequest(hashes, tokens=100.0 * (turn + 1)), rng.random())
            fleet.pass_time(100.0 * (turn + 1) / (4 * 1000.0 * 0.95))
    assert fleet.hits / (20 * 19) >= 0.9


def test_load_is_tokens_and_not_requests() -> None:
    long_one = WorkerFacts("a", inflight_tokens=100_000.0, inflight_requests=1)
    many = WorkerFacts("b", inflight_tokens=8_000.0, inflight_requests=40)
    assert once(RouteRequest(tokens=500.0), [long_one, many]).worker == "b"


def test_a_miss_goes_to_the_least_loaded_even_if_another_holds_less_cache() -> None:
    memory = RoutingMemory()
    for i in range(100):
        memory.remember((10_000 + i,), "w1", 0.0)
    assert once(RouteRequest((1, 2), tokens=200.0), facts(5000.0, 100.0), memory).worker == "w1"


def test_unhealthy_and_draining_workers_take_no_part_in_the_bound() -> None:
    workers = [WorkerFacts("down", healthy=False), WorkerFacts("going", draining=True), *facts(5000.0, 5100.0)]
    memory = RoutingMemory()
    memory.remember((1, 2), "w1", 0.0)
    placed = once(RouteRequest((1, 2), tokens=400.0), workers, memory)
    assert placed.worker == "w1"
    assert set(placed.scores) == {"w0", "w1"}


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        pytest.param([], "no worker is known", id="none"),
        pytest.param(
            [WorkerFacts("a", healthy=False), WorkerFacts("b", draining=True)],
            "no worker takes requests: 1 draining, 1 unhealthy of 2",
            id="none able",
        ),
    ],
)
def test_nobody_to_route_to_is_said_and_not_raised(workers: list[WorkerFacts], said: str) -> None:
    placed = once(RouteRequest(), workers)
    assert (placed.worker, placed.reason) == (None, said)


def test_stale_readings_step_back_but_all_stale_still_routes() -> None:
    fresh, old = WorkerFacts("fresh", inflight_tokens=900.0, age=1.0), WorkerFacts("old", age=60.0)
    assert once(RouteRequest(), [fresh, old]).worker == "fresh"
    all_old = once(RouteRequest(), [WorkerFacts("a", inflight_tokens=9.0, age=60.0), old])
    assert all_old.worker == "old"
    assert all_old.reason.endswith("all readings stale, own in-flight counts only")


def test_a_conversation_stays_with_its_worker_when_all_are_idle() -> None:
    fleet, rng = Fleet([f"w{i}" for i in range(8)]), random.Random(3)
    homes = set()
    for turn in range(10):
        homes.add(fleet.send(RouteRequest(tuple(range(turn + 1)), tokens=100.0 * (turn + 1)), rng.random()))
        fleet.pass_time(100.0)
    assert len(homes) == 1


def test_distinct_prompts_without_end_stay_below_200_megabytes() -> None:
    """The bound is reached at 100,000 chunks; what comes after displaces what came first."""
    tracemalloc.start()
    memory = RoutingMemory()
    for i in range(150_000):
        memory.remember((i,), f"w{i % 8}", float(i))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    memory.check()
    assert len(memory) == 100_000
    assert used < 200e6


def test_a_new_worker_is_neither_starved_nor_stampeded() -> None:
    fleet, rng, counts = Fleet(["w0", "w1", "w2"]), random.Random(4), Counter[str]()
    step = 500.0 / (3 * 1000.0 * 0.9)
    fleet.load = {"w0": 4000.0, "w1": 4000.0, "w2": 4000.0}
    for i in range(400):
        fleet.send(RouteRequest((i % 50, 1000 + i), tokens=500.0), rng.random())
        fleet.pass_time(step)
    fleet.names.append("new")
    fleet.started["new"] = fleet.now
    until, worst = fleet.now + 60.0, 0.0
    while fleet.now < until:
        counts[fleet.send(RouteRequest((rng.randrange(50), rng.randrange(10**6)), tokens=500.0), rng.random())] += 1
        fleet.pass_time(step)
        worst = max(worst, fleet.load.get("new", 0.0))
    fair = sum(counts.values()) / 4
    assert 0.5 <= counts["new"] / fair <= 1.5
    assert worst <= 8000.0  # tokens queued on the newcomer: 8 s at most


def test_capacity_weight_divides_the_load() -> None:
    rng, memory, counts = random.Random(5), RoutingMemory(), Counter[str]()
    load = {"big": 0.0, "small": 0.0}
    weight = {"big": 3.0, "small": 1.0}
    for i in range(800):
        workers = [WorkerFacts(n, inflight_tokens=load[n], capacity_weight=weight[n]) for n in load]
        placed, memory = place(RouteRequest((i,), tokens=100.0), workers, memory, rng.random(), 0.0)
        assert placed.worker is not None
        load[placed.worker] += 100.0
        counts[placed.worker] += 1
    assert counts["big"] / counts["small"] == pytest.approx(3.0, rel=0.05)


def test_a_restarted_worker_has_lost_its_cache() -> None:
    memory, request = RoutingMemory(), RouteRequest((1, 2, 3), tokens=300.0)
    first, memory = place(request, facts(0.0, started_at=-900.0), memory, 0.0, 0.0)
    again, memory = place(request, facts(0.0, started_at=-900.0), memory, 0.0, 1.0)
    after, memory = place(request, facts(0.0, started_at=1.5), memory, 0.0, 2.0)
    assert (first.matched_tokens, again.matched_tokens, after.matched_tokens) == (0.0, 300.0, 0.0)


def test_a_belief_that_is_too_old_is_no_belief() -> None:
    memory = RoutingMemory(ttl_s=60.0)
    memory.remember((1,), "w0", 0.0)
    assert memory.matches((1,), ["w0"], 60.0) == {"w0": (1, 0)}
    assert memory.matches((1,), ["w0"], 61.0) == {}


def test_only_an_unbroken_prefix_counts() -> None:
    memory = RoutingMemory()
    memory.remember((1, 2, 3), "a", 0.0)
    memory.remember((1,), "b", 0.0)
    assert memory.matches((1, 2, 9, 3), ["a", "b"], 0.0) == {"a": (2, 0), "b": (1, 0)}


@pytest.mark.parametrize("draw", [0.0, 0.34, 0.67, 0.9999999])
def test_equal_workers_are_told_apart_by_the_draw(draw: float) -> None:
    placed, _ = place(RouteRequest(), facts(0.0, 0.0, 0.0), RoutingMemory(), draw, 0.0)
    assert placed.worker == f"w{min(2, int(draw * 3))}"


def test_the_reason_has_numbers() -> None:
    memory = RoutingMemory()
    memory.remember((1, 2), "w0", 0.0)
    placed = once(RouteRequest((1, 2, 3, 4), tokens=400.0), facts(700.0, 900.0, 90_000.0), memory)
    assert placed.reason == "50 % of the prompt cached, 700 tokens in flight, 1 busier workers out of reach"
    miss = once(RouteRequest((9,), tokens=400.0), facts(700.0))
    assert miss.reason == "no prefix cached in reach, 700 tokens in flight"


def test_the_order_of_workers_changes_nothing() -> None:
    rng = random.Random(6)
    for _ in range(200):
        workers = facts(*(float(rng.randrange(5)) * 100 for _ in range(5)))
        draw = rng.random()
        shuffled = rng.sample(workers, 5)
        request = RouteRequest((1,), tokens=100.0)
        one = place(request, workers, RoutingMemory(), draw, 0.0)[0].worker
        other = place(request, shuffled, RoutingMemory(), draw, 0.0)[0].worker
        assert one == other


def test_a_prefix_that_requests_share_is_told_with_its_length_its_use_and_who_has_it() -> None:
    memory = RoutingMemory()
    for tail in range(3):
        memory.remember((*COMMON, 1000 + tail), "w0" if tail else "w1", float(tail))
    memory.remember((7001, 7002), "w0", 5.0)  # nobody forks from it
    (shared,) = memory.shared(6.0)
    assert (shared.end, shared.chunks, shared.requests, shared.forks) == (COMMON[-1], 16, 3, 3)
    assert (shared.holders, shared.last) == (("w0", "w1"), 2.0)
    memory.forget("w1")
    assert memory.shared(6.0)[0].holders == ("w0",)


def test_a_shared_prefix_is_forgotten_with_its_chunks() -> None:
    memory = RoutingMemory(entries=4)
    memory.remember((1, 2), "w0", 0.0)
    memory.remember((1, 3), "w0", 0.0)
    assert [s.end for s in memory.shared(0.0)] == [1]
    memory.remember((10, 11, 12, 13), "w0", 1.0)
    assert memory.shared(1.0) == []
    memory.check()
