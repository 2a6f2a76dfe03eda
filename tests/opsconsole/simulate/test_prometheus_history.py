"""A load out of a Prometheus server's answer."""

from __future__ import annotations

import pytest

from opsconsole.errors import UsageError
from opsconsole.observe.promql import Answer, PrometheusClient
from opsconsole.simulate.prometheus_history import read_prometheus, trace_of


def points(first: int, last: int) -> tuple[tuple[float, float], ...]:
    return tuple((60.0 * i, 2.0 + i) for i in range(first, last))


def test_rates_become_counts_a_minute_from_the_first_known_to_the_last() -> None:
    trace = trace_of(Answer((({}, (*points(3, 10), *points(12, 20))),)), "q", 0.0, 3600.0)
    assert trace.step == 60.0
    assert trace.requests.size == 17
    assert trace.requests[0] == 5.0 * 60
    assert trace.requests[7] == 0.0  # a hole inside is no traffic seen
    assert trace.name == "prometheus (2 of 17 minutes missing, taken as silence)"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(Answer(()), "has 0 series and one is needed: is the name right", id="nothing"),
        pytest.param(Answer((({"a": "1"}, ()), ({"a": "2"}, ()))), r"put sum\(", id="several"),
        pytest.param(Answer((({}, (*points(0, 20), (1200.0, -1.0))),)), "gives -1: a load is never", id="negative"),
        pytest.param(Answer((({}, (*points(0, 20), (1200.0, 1e300))),)), r"gives 1e\+300 requests/s", id="huge"),
        pytest.param(Answer((({}, points(0, 5)),)), "has 5 minutes of values", id="too few"),
    ],
)
def test_an_answer_that_is_no_load_says_why(answer: Answer, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        trace_of(answer, "q", 0.0, 3600.0)


def test_a_query_is_needed() -> None:
    with pytest.raises(UsageError, match="needs --query"):
        read_prometheus("http://127.0.0.1:9", "", 3600.0, now=1e6)


@pytest.mark.parametrize("span", [0.0, 1e12])
def test_a_span_without_end_is_not_asked_for(span: float) -> None:
    with pytest.raises(UsageError, match=r"ask for 5e\+07 s or less"):
        read_prometheus("http://127.0.0.1:9", "up", span, now=1e6)


@pytest.mark.parametrize(
    ("given", "sent"),
    [(None, (("Authorization", "Bearer mine"),)), ("other", (("Authorization", "Bearer other"),)), ("", ())],
)
def test_a_token_is_the_environments_unless_one_is_given(
    monkeypatch: pytest.MonkeyPatch, given: str | None, sent: tuple[tuple[str, str], ...]
) -> None:
    seen = []

    async def answer(self: PrometheusClient, query: str, start: float, end: float, step: float) -> Answer:
        seen.append(self._options.headers)
        return Answer((({}, tuple((start + at, value) for at, value in points(0, 20))),))

    monkeypatch.setattr(PrometheusClient, "range", answer)
    monkeypatch.setenv("OPSCONSOLE_PROMETHEUS_TOKEN", "mine")
    read_prometheus("http://127.0.0.1:9", "up", 3600.0, now=1e6, token=given)
    assert seen == [sent]


def test_a_server_that_does_not_answer_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="did not answer"):
        read_prometheus("http://127.0.0.1:9", "up", 3600.0, now=1e6)
