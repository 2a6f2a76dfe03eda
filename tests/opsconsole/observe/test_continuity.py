"""What only several pages tell: frozen gauges, engines that change, workers that alternate."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.domain.health import FROZEN_AFTER_S, HealthLimits
from opsconsole.domain.records import RankLoad, Sample
from opsconsole.observe.continuity import CHANGED_FLAG, FROZEN_FLAG, RANK_FLAG, WORKERS_FLAG, Continuity, follow
from opsconsole.observe.dialects import DIALECTS

PATIENCE = {"vllm": 15.0, "sglang": 30.0}


def followed(*samples: Sample) -> list[tuple[str, ...]]:
    memory, flags = Continuity(), []
    for sample in samples:
        memory, seen = follow(memory, sample, PATIENCE)
        flags.append(seen.flags)
    return flags


def page(at: float, **facts: Any) -> Sample:
    return Sample("r", at, **{"engine": "vllm", "running": 4.0, "output_tokens": 100.0, **facts})


def test_load_without_a_moving_counter_is_frozen_after_the_engines_patience() -> None:
    assert followed(page(0), page(5), page(10), page(15), page(20)) == [(), (), (), (FROZEN_FLAG,), (FROZEN_FLAG,)]
    patient = [page(at, engine="sglang") for at in (0, 15, 29, 31)]
    assert followed(*patient) == [(), (), (), (FROZEN_FLAG,)]


@pytest.mark.parametrize(
    "samples",
    [
        [page(0, running=0.0), page(60, running=0.0), page(120, running=0.0)],
        [page(0), page(60, output_tokens=101.0), page(70, output_tokens=102.0)],
        [page(0, output_tokens=None), page(60, output_tokens=None), page(90, output_tokens=None)],
        [page(0, running=None), page(60, running=None)],
    ],
    ids=["idle", "moving", "no counters known", "no load known"],
)
def test_what_is_idle_moving_or_unknown_is_not_frozen(samples: list[Sample]) -> None:
    assert all(flags == () for flags in followed(*samples))


def test_arrivals_and_rejections_in_front_of_an_engine_that_hangs_do_not_thaw_it() -> None:
    """A frontend goes on counting what comes while the engine behind it takes no step."""
    coming = [page(at, waiting=9.0, requests_started=100.0 + at, requests_rejected=at) for at in (0.0, 10.0, 20.0)]
    assert followed(*coming)[-1] == (FROZEN_FLAG,)


def test_a_counter_that_moves_again_thaws_it() -> None:
    assert followed(page(0), page(20), page(21, output_tokens=101.0), page(25, output_tokens=101.0))[1:] == [
        (FROZEN_FLAG,), (), (),
    ]  # fmt: skip


def test_an_engine_that_changes_is_flagged_once_and_its_past_forgotten() -> None:
    flags = followed(
        page(0), page(1, engine=None), page(2, engine="sglang"), page(3, engine="sglang", output_tokens=1.0)
    )
    assert flags == [(), (), (CHANGED_FLAG,), ()]


def test_a_restart_is_not_two_workers_but_a_start_that_returns_is() -> None:
    restarted = [
        page(i, process_start=start, output_tokens=float(i)) for i, start in enumerate((1000.0, 1000.0, 5000.0))
    ]
    assert all(flags == () for flags in followed(*restarted))
    alternating = [
        page(i, process_start=start, output_tokens=float(i)) for i, start in enumerate((1000.0, 1007.0, 1000.0))
    ]
    assert followed(*alternating)[-1] == (WORKERS_FLAG,)


def test_a_rank_that_hangs_beside_one_that_moves_is_flagged_though_the_sum_moves() -> None:
    def ranked(at: float) -> Sample:
        ranks = (RankLoad("0", 3.0, 0.0, 100.0 + at), RankLoad("1", 2.0, 0.0, 50.0))
        return page(at, output_tokens=150.0 + at, ranks=ranks)

    assert followed(*map(ranked, (0, 5, 10, 15))) == [(), (), (), (RANK_FLAG,)]
    assert followed(*map(ranked, (0, 5, 10)), page(15, output_tokens=165.0))[-1] == ()


def test_flags_and_states_have_the_same_patience_with_every_engine() -> None:
    for dialect in DIALECTS:
        assert dialect.freeze_s == FROZEN_AFTER_S.get(dialect.engine, HealthLimits().frozen_after_s)
