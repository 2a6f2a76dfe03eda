"""States and their reasons in words."""

from __future__ import annotations

from typing import Any

import pytest

from opsconsole.domain.health import Facts, HealthLimits, judge
from opsconsole.domain.ranks import Standing
from opsconsole.domain.records import ReplicaState, Sample
from opsconsole.errors import SourceError, SourceErrorKind

NOW = 1000.0


def page(age: float = 1.0, **facts: Any) -> Sample:
    calm: dict[str, Any] = {"waiting": 0.0, "running": 3.0, "kv_usage": 0.4, "engine": "vllm"}
    return Sample("r", NOW - age, **{**calm, **facts})


def error(kind: SourceErrorKind = SourceErrorKind.TIMEOUT, detail: str = "no answer in 2 s") -> SourceError:
    return SourceError(kind, detail, since=NOW - 5)


S = ReplicaState
REFUSED = SourceErrorKind.REFUSED


@pytest.mark.parametrize(
    ("facts", "state", "why"),
    [
        pytest.param(Facts(NOW, page()), S.OK, "3 running, queue 0, KV 40%", id="ok"),
        pytest.param(
            Facts(NOW, page(running=None, waiting=None, kv_usage=None)),
            S.OK,
            "unknown running, queue unknown, KV unknown",
            id="ok with little known",
        ),
        pytest.param(Facts(NOW, page(waiting=5.0)), S.HOT, "queue 5 >= 4", id="hot queue"),
        pytest.param(Facts(NOW, page(kv_usage=0.97)), S.HOT, "KV 97% >= 80%", id="full KV alone is not saturation"),
        pytest.param(
            Facts(NOW, page(waiting=1.0, kv_usage=0.92)), S.SATURATED, "queue 1 behind KV 92%", id="KV and queue"
        ),
        pytest.param(Facts(NOW, page(waiting=20.0)), S.SATURATED, "queue 20 >= 16", id="deep queue at a low KV"),
        pytest.param(
            Facts(NOW, page(), preempt_rate=0.5),
            S.SATURATED,
            "preempting 0.5/s; 3 running, queue 0, KV 40%",
            id="preempting",
        ),
        pytest.param(
            Facts(NOW, page(), draining=True, streams=3), S.DRAINING, "draining: 3 streams left", id="draining"
        ),
        pytest.param(
            Facts(NOW, page(draining=True, waiting=50.0)),
            S.DRAINING,
            "draining: streams left unknown",
            id="a draining replica is not hot",
        ),
        pytest.param(
            Facts(NOW, page(200.0), draining=True, error=error(REFUSED, "connection refused")),
            S.DOWN,
            "no good page for 200 s (refused: connection refused)",
            id="died while draining",
        ),
        pytest.param(
            Facts(NOW, None, ready=False, phase="load", started_at=NOW - 40, expected_ready_at=NOW + 20),
            S.WARMING,
            "load for 40 s, ready in about 20 s",
            id="warming",
        ),
        pytest.param(
            Facts(NOW, None, ready=False, started_at=NOW - 90, expected_ready_at=NOW - 30),
            S.WARMING,
            "starting for 90 s, 30 s later than expected",
            id="late",
        ),
        pytest.param(Facts(NOW, None, error=error(), started_at=NOW - 5), S.WARMING, "starting for 5 s", id="young"),
        pytest.param(Facts(NOW, page(asleep=True)), S.WARMING, "asleep: weights are not on the device", id="asleep"),
        pytest.param(Facts(NOW, page(), ready=True, phase="warm"), S.OK, "3 running, queue 0, KV 40%", id="ready wins"),
        pytest.param(
            Facts(NOW, None, error=error()), S.DOWN, "never answered: timeout: no answer in 2 s", id="never answered"
        ),
        pytest.param(
            Facts(NOW, None, ready=False, error=error(), started_at=NOW - 5000),
            S.DOWN,
            "never answered: timeout: no answer in 2 s",
            id="long past its start",
        ),
        pytest.param(Facts(NOW, page(10.0), error=error()), S.OK, "3 running, queue 0, KV 40%", id="one missed page"),
        pytest.param(
            Facts(NOW, page(20.0), error=error()),
            S.STALE,
            "no good page for 20 s (timeout: no answer in 2 s)",
            id="stale is not down",
        ),
        pytest.param(Facts(NOW, page(20.0)), S.STALE, "no good page for 20 s (no answer)", id="stale without an error"),
        pytest.param(
            Facts(NOW, page(61.0), error=error()),
            S.DOWN,
            "no good page for 61 s (timeout: no answer in 2 s)",
            id="down",
        ),
        pytest.param(
            Facts(NOW, page(16.0), error=error(REFUSED, "connection refused")),
            S.DOWN,
            "no good page for 16 s (refused: connection refused)",
            id="refused is down sooner",
        ),
        pytest.param(
            Facts(NOW, page(), error=error(SourceErrorKind.GONE, "pod deleted")), S.DOWN, "gone: pod deleted", id="gone"
        ),
        pytest.param(
            Facts(NOW, page(running=106.0, kv_usage=0.9), still_since=NOW - 34, still_pages=3),
            S.STALE,
            "gauges stand still: 106 running but no counter moved for 34 s",
            id="frozen",
        ),
        pytest.param(
            Facts(NOW, page(running=0.0, waiting=9.0), still_since=NOW - 34, still_pages=3),
            S.STALE,
            "gauges stand still: 9 waiting but no counter moved for 34 s",
            id="frozen queue",
        ),
        pytest.param(
            Facts(NOW, page(), still_since=NOW - 34, still_pages=1),
            S.OK,
            "3 running, queue 0, KV 40%",
            id="one still page",
        ),
        pytest.param(
            Facts(NOW, page(engine="sglang"), still_since=NOW - 20, still_pages=9),
            S.OK,
            "3 running, queue 0, KV 40%",
            id="sglang publishes slowly",
        ),
        pytest.param(
            Facts(NOW, page(engine="opsconsole"), still_since=NOW - 40, still_pages=9),
            S.OK,
            "3 running, queue 0, KV 40%",
            id="a long prompt on a CPU",
        ),
        pytest.param(
            Facts(NOW, page(), ranks={"0": Standing(9.0, NOW - 1, NOW - 1), "1": Standing(5.0, None, NOW - 21)}),
            S.STALE,
            "rank 1 stands still with load for 20 s while others move",
            id="a rank that hangs behind one that moves",
        ),
        pytest.param(
            Facts(
                NOW,
                page(engine="sglang"),
                ranks={
                    "0": Standing(9.0, NOW - 1, None),
                    "1": Standing(5.0, None, NOW - 41),
                    "2": Standing(5.0, NOW - 36, NOW - 36),
                    "3": Standing(5.0, NOW - 20, NOW - 20),
                },
            ),
            S.STALE,
            "ranks 1, 2 stand still with load for 35 s while others move",
            id="two ranks that hang, and one not yet",
        ),
        pytest.param(
            Facts(NOW, page(), conflict="two processes"),
            S.STALE,
            "two processes",
            id="counters that cannot be believed",
        ),
    ],
)
def test_state_and_reason(facts: Facts, state: ReplicaState, why: str) -> None:
    assert judge(facts) == (state, why)


def test_limits_are_the_callers() -> None:
    assert judge(Facts(NOW, page(waiting=2.0)), HealthLimits(hot_queue=2.0))[0] is S.HOT
