# ruff: noqa: E501 - tables of inputs, one per line
"""The same defect in every request format: found at that format's own path; and what the cache's fields say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.model import Finding
from opsconsole.lint.reader import LogFile
from opsconsole.lint.tables import engine_rule, provider

LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}, as always.\n" for n in range(100))


def lint(bodies: list[dict[str, Any]], options: LogOptions | None = None) -> list[Finding]:
    data = "".join(json.dumps(body) + "\n" for body in bodies).encode()
    log = LogFile("log.jsonl", io.BytesIO(data))
    analysis = LogAnalysis(options or LogOptions())
    for request in log.requests():
        analysis.feed(request)
    assert log.bad == 0
    return analysis.finish({"log.jsonl": log}).findings


def clock(n: int) -> str:
    return f"Now: 2026-05-01T10:0{n}:31Z\n{LINES}"


def user(n: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"Question {n}"}]


FORMATS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "completions": ("prompt", lambda n: {"prompt": clock(n) + f"\nQ{n}"}),
    "responses": ("instructions", lambda n: {"instructions": clock(n), "input": f"Q{n}"}),
    "responses with items": (
        "input[0].content[0].text",
        lambda n: {"input": [{"role": "developer", "content": [{"type": "input_text", "text": clock(n)}]}, *user(n)]},
    ),
    "content blocks": (
        "messages[0].content[0].text",
        lambda n: {"messages": [{"role": "system", "content": [{"type": "text", "text": clock(n)}]}, *user(n)]},
    ),
    "batch": ("messages[0].content", lambda n: {"custom_id": f"{n}", "body": {"messages": [{"role": "system", "content": clock(n)}, *user(n)]}}),
    "anthropic": ("system", lambda n: {"system": clock(n), "messages": user(n)}),
    "anthropic blocks": ("system[1].text", lambda n: {"system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": clock(n)}], "messages": user(n)}),
    "bedrock": ("system[0].text", lambda n: {"modelId": "x", "system": [{"text": clock(n)}], "messages": [{"role": "user", "content": [{"text": f"Q{n}"}]}]}),
    "gateway export": ("messages[0].content", lambda n: {"id": f"{n}", "request": {"messages": [{"role": "system", "content": clock(n)}, *user(n)]}, "response": {}}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_clock_is_found_at_the_path_of_each_format(name: str) -> None:
    path, make = FORMATS[name]
    (found,) = lint([make(n) for n in range(6)])
    assert (found.code, found.path, found.char) == ("PX101", path, 20)


def marked(n: int, late: bool) -> dict[str, Any]:
    mark = {"cache_control": {"type": "ephemeral"}}
    rules = {"type": "text", "text": LINES, **({} if late else mark)}
    now = {"type": "text", "text": f"Now: 10:0{n}:00", **(mark if late else {})}
    return {"system": [rules, now], "messages": user(n)}


def test_a_breakpoint_behind_a_value_that_changes_never_hits() -> None:
    assert [(f.code, f.path) for f in lint([marked(n, late=True) for n in range(6)])] == [("PX504", "system[1].text")]
    assert lint([marked(n, late=False) for n in range(6)]) == []


def test_a_missing_breakpoint_is_told_only_for_a_provider_that_needs_one() -> None:
    bodies = [{"system": LINES, "messages": user(n)} for n in range(6)]
    assert lint(bodies) == []
    options = LogOptions(engine_rule("vllm"), provider=provider("anthropic"))
    assert [f.code for f in lint(bodies, options)] == ["PX504"]


def test_too_many_breakpoints_and_lifetimes_in_the_wrong_order() -> None:
    mark = {"type": "text", "text": LINES, "cache_control": {"type": "ephemeral"}}
    assert [f.code for f in lint([{"system": [mark] * 5, "messages": user(n)} for n in range(3)])] == ["PX505"]
    long = {**mark, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert [f.code for f in lint([{"system": [mark, long], "messages": user(n)} for n in range(3)])] == ["PX505"]


@pytest.mark.parametrize("field", ["prompt_cache_key", "cache_salt"])
def test_a_key_of_its_own_for_each_request_is_found(field: str) -> None:
    found = lint([{field: f"k{n}", "messages": [{"role": "system", "content": LINES}, *user(n)]} for n in range(6)])
    assert [(f.code, f.path) for f in found] == [("PX503", field)]
    assert (
        lint([{field: f"t{n % 2}", "messages": [{"role": "system", "content": LINES}, *user(n)]} for n in range(8)])
        == []
    )


def test_an_option_that_varies_is_a_warning() -> None:
    bodies = [
        {"reasoning_effort": ["low", "high"][n % 2], "messages": [{"role": "system", "content": LINES}, *user(n)]}
        for n in range(6)
    ]
    assert [(f.code, f.path, f.char, f.severity.value) for f in lint(bodies)] == [
        ("PX404", "reasoning_effort", 0, "warning")
    ]


def test_provider_limits_are_informations() -> None:
    short = [
        {"messages": [{"role": "system", "content": LINES[:900]}, *user(n)], "timestamp": 1.7e9 + 3000 * n}
        for n in range(4)
    ]
    found = lint(short, LogOptions(engine_rule("vllm"), provider=provider("openai")))
    assert [(f.code, f.severity.value) for f in found] == [("PX501", "info"), ("PX506", "info")]
    burst = [
        {"messages": [{"role": "system", "content": LINES}, *user(n)], "timestamp": 1.7e9 + n / 100} for n in range(6)
    ]
    assert [f.code for f in lint(burst, LogOptions(engine_rule("vllm"), provider=provider("openai")))] == ["PX507"]


def test_minimums_follow_the_model() -> None:
    table = provider("anthropic")
    assert table.minimum_for("claude-opus-4-6-20260101") == 4096
    assert table.minimum_for("claude-sonnet-5") == 1024
    assert table.minimum_for("something else") == 1024


def test_a_prefix_that_ends_inside_a_block_is_told_only_when_asked() -> None:
    bodies = [{"messages": [{"role": "system", "content": LINES[:-3]}, *user(n)]} for n in range(4)]
    assert lint(bodies) == []
    assert [f.code for f in lint(bodies, LogOptions(engine_rule("vllm-hybrid"), straddle=True))] == ["PX502"]
