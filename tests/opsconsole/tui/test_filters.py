"""The filter language, word by word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsconsole.domain.records import ReplicaView
from opsconsole.tui.filters import compile_filter, compile_text_filter
from opsconsole.tui.world import World


def names(world: World, text: str) -> list[str]:
    holds = compile_filter(text)
    assert world.snapshot is not None
    return [r.replica.rsplit("-", 1)[-1] for r in world.snapshot.replicas if holds(r)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["x2k", "p4m", "q8t", "aa1", "bc7", "dz9", "ee4", "8f1"]),
        ("x2k", ["x2k"]),
        ("st:sat", ["x2k"]),
        ("ST:HOT", ["p4m", "q8t"]),
        ("kv>90", ["x2k", "p4m", "q8t"]),
        ("kv>90 !st:sat", ["p4m", "q8t"]),
        ("slo<99", ["x2k", "p4m"]),
        ("ttft>450ms", ["x2k", "p4m", "q8t", "aa1"]),
        ("que=4", ["p4m"]),
        ("!7d9-", []),
        ("node:gpu-7 model:llama hit>70", ["ee4"]),
        ("nothing-like-this", []),
    ],
)
def test_words_choose_rows(text: str, found: list[str], world: World) -> None:
    assert names(world, text) == found


@pytest.mark.parametrize("unfinished", ["kv>", "!", "st:", "kv", "kv>.", ">"])
def test_a_word_half_typed_never_raises(unfinished: str, world: World) -> None:
    names(world, unfinished)


def test_a_number_test_without_its_number_holds_for_every_row(world: World) -> None:
    assert len(names(world, "kv>")) == 8


def test_an_unknown_number_is_on_neither_side(make_replica: Callable[..., ReplicaView], world: World) -> None:
    assert "8f1" not in names(world, "kv<50") + names(world, "kv>=50")


def test_events_are_filtered_by_their_words() -> None:
    holds = compile_text_filter("stale !dz9")
    assert holds("replica aa1 STALE")
    assert not holds("replica dz9 STALE")
    assert not holds("replica aa1 SAT")
