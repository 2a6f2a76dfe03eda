"""What the router knows of its workers: in-flight counts that come back to nothing, lives that are not mixed up."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.local.router_table import Choice, RoutingTable


def member(name: str, **facts: Any) -> dict[str, Any]:
    usual = {"name": name, "url": f"http://{name}", "ready": True, "draining": False, "ready_at": 1.0}
    return {**usual, **facts}


def table(*members: dict[str, Any], now: float = 1000.0) -> RoutingTable:
    made = RoutingTable(lambda: now, Random(1))
    made.update({"version": 1, "members": list(members)})
    return made


def choose(made: RoutingTable, tokens: float = 100.0, hashes: tuple[int, ...] = ()) -> Choice:
    choice = made.choose(hashes, tokens, "default", "k")
    assert choice is not None
    return choice


def test_the_least_busy_by_tokens_is_chosen_and_not_by_requests() -> None:
    made = table(member("a"), member("b"))
    long = choose(made, tokens=5000.0)
    others = {choose(made, tokens=50.0).route.name for _ in range(10)}
    assert others == {"a", "b"} - {long.route.name}


def test_only_ready_workers_that_do_not_drain_are_chosen() -> None:
    made = table(member("a", ready=False), member("b", draining=True), member("c"))
    assert {choose(made).route.name for _ in range(5)} == {"c"}
    assert table(member("a", ready=False)).choose((), 1.0, "default", "k") is None


def test_a_shunned_worker_is_left_alone_for_a_moment() -> None:
    clock = [1000.0]
    made = RoutingTable(lambda: clock[0], Random(1))
    made.update({"version": 1, "members": [member("a"), member("b")]})
    made.shun(next(route for route in made.routes if route.name == "a"))
    assert {choose(made).route.name for _ in range(5)} == {"b"}
    clock[0] += 2.0
    assert "a" in {choose(made).route.name for _ in range(5)}


def test_a_new_life_of_a_worker_starts_with_nothing_in_flight_and_no_prefixes() -> None:
    made = table(member("a"), member("b", ready=False))
    old = choose(made, hashes=(1, 2, 3))
    made.update({"version": 2, "members": [member("a", ready_at=50.0)]})
    assert made.routes[0].requests == 0
    assert made.is_leaving(old.route)
    assert choose(made, hashes=(1, 2, 3)).rule == "least_loaded"
    old.end()
    assert made.routes[0].requests == 1  # of the new life alone


def test_a_worker_without_an_address_is_no_route() -> None:
    assert table(member("a", url=None)).routes == ()


def test_a_common_prefix_does_not_pin_everything_to_one_worker() -> None:
    made = table(member("a"), member("b"), member("c"))
    draw = Random(7)
    running: list[Choice] = []
    counts = {"a": 0, "b": 0, "c": 0}
    for index in range(600):
        common = tuple(range(30))
        choice = choose(made, tokens=2100.0, hashes=(*common, 1000 + index))
        counts[choice.route.name] += 1
        running.append(choice)
        if len(running) > 9:
            running.pop(draw.randrange(len(running))).end()
    assert max(counts.values()) / (600 / 3) <= 1.2


def test_two_equal_prompts_meet_on_one_worker_while_it_is_not_overloaded() -> None:
    made = table(member("a"), member("b"))
    first = choose(made, hashes=(1, 2, 3, 4))
    first.end()
    second = choose(made, hashes=(1, 2, 3, 4))
    assert second.route.name == first.route.name and second.rule == "prefix"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["choose", "end", "end twice", "restart", "lose"]), st.integers(0, 50))))
def test_what_is_in_flight_comes_back_to_nothing_whatever_happens(steps: list[tuple[str, int]]) -> None:
    made = table(member("a"), member("b"))
    running: list[Choice] = []
    for action, number in steps:
        if action == "choose":
            choice = made.choose((), 10.0 + number / 7, "default", "k")
            running += [choice] if choice else []
        elif action.startswith("end") and running:
            choice = running.pop(number % len(running))
            choice.end()
            if action == "end twice":
                choice.end()
        elif action == "restart":
            made.update({"version": number, "members": [member("a", ready_at=float(number)), member("b")]})
        elif action == "lose":
            made.update({"version": number, "members": [member("b")]})
        assert all(route.requests >= 0 and route.tokens >= 0 for route in made.routes)
    for choice in running:
        assert choice.route.requests > 0
        choice.end()
    assert all(route.requests == 0 and route.tokens == 0.0 for route in made.routes)
