# ruff: noqa: E501 - tables of inputs, one per line
"""Logs of our own, one per kind of defect and per healthy look-alike, with other words and layouts than the cases.

Each is made by a small generator, so that values and lengths differ from request to request.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.model import Finding
from opsconsole.lint.reader import LogFile

POLICY = "".join(
    f"§{n}. Reply politely to point {n}; never guess, and quote paragraph {n} where it helps.\n" for n in range(40)
)
QUESTIONS = [
    "Where is it?",
    "Can I return the shoes I bought?",
    "Open today?",
    "How do I reset the router at home?",
    "Thanks, bye",
]
USERS = ["Anna Berg", "Tom Li", "Maria Rossi", "Jo Park", "Ravi Shah", "Eva Klein", "Omar Said", "Liu Wei"]
WORDS = ["amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "ivory", "jade", "kelp", "lotus"]


def lint(bodies: list[dict[str, Any]]) -> list[Finding]:
    data = "".join(json.dumps(body) + "\n" for body in bodies).encode()
    log = LogFile("log.jsonl", io.BytesIO(data))
    analysis = LogAnalysis(LogOptions())
    for request in log.requests():
        analysis.feed(request)
    return analysis.finish({"log.jsonl": log}).findings


def chat(system: str, asked: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": asked}],
        **more,
    }


def series(make: Callable[[int, random.Random], dict[str, Any]], count: int = 8) -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [make(at, rng) for at in range(count)]


def q(at: int) -> str:
    return f"{QUESTIONS[at % len(QUESTIONS)]} ({at})"


def tool(name: str, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    text = f"Performs {name} for the customer and returns what was found as a table."
    return {
        "type": "function",
        "function": {"name": name, "description": text, "parameters": {"type": "object", "properties": fields}},
    }


TOOLS = [
    tool("find", text="string"),
    tool("pay", sum="number", to="string"),
    tool("mail", to="string"),
    tool("note", text="string"),
]


def shuffled(items: list[Any], rng: random.Random) -> list[Any]:
    return rng.sample(items, len(items))


def nonce(rng: random.Random, size: int) -> str:
    return "".join(rng.choice("0123456789abcdef") for _ in range(size - 2)) + "a7"


POSITIVE: dict[str, tuple[set[str], str, Callable[[int, random.Random], dict[str, Any]]]] = {
    "iso time at the head": ({"PX101"}, "messages[0].content", lambda n, r: chat(f"Now: 2026-05-0{1 + n % 9}T1{n}:0{n}:31Z\n{POLICY}", q(n))),
    "clock without a date in prose": ({"PX101"}, "messages[0].content", lambda n, r: chat(f"Hello! It is {n + 8}:0{n} AM where you are.\n{POLICY}", q(n))),
    "unix time": ({"PX101"}, "messages[0].content", lambda n, r: chat(f"ts={1767225600 + 61 * n}\n{POLICY}", q(n))),
    "five-digit hex nonce": ({"PX103"}, "messages[0].content", lambda n, r: chat(f"x-billing: v=2; cch={nonce(r, 5)};\n{POLICY}", q(n))),
    "uuid of the request": ({"PX103"}, "messages[0].content", lambda n, r: chat(f"Request id: {nonce(r, 8)}-{nonce(r, 4)}-4{nonce(r, 3)}-8{nonce(r, 3)}-{nonce(r, 12)}\n{POLICY}", q(n))),
    "name of the user": ({"PX104"}, "messages[0].content", lambda n, r: chat(f"You assist the customer {USERS[n]} today.\n{POLICY}", q(n))),
    "mail of the user": ({"PX104"}, "messages[0].content", lambda n, r: chat(f"Account: user{n}.{WORDS[n]}@mail.example\n{POLICY}", q(n))),
    "id of the tenant": ({"PX104"}, "messages[0].content", lambda n, r: chat(f"tenant_id: acme-{WORDS[n]}\n{POLICY}", q(n))),
    "working directory": ({"PX105"}, "messages[0].content", lambda n, r: chat(f"cwd: /home/dev/{WORDS[n]}/src\n{POLICY}", q(n))),
    "address of the host": ({"PX105"}, "messages[0].content", lambda n, r: chat(f"Served by 10.0.{n}.{17 + n}\n{POLICY}", q(n))),
    "turn number": ({"PX106"}, "messages[0].content", lambda n, r: chat(f"Turn {n + 1} of 20.\n{POLICY}", q(n))),
    "budget left": ({"PX106"}, "messages[0].content", lambda n, r: chat(f"Tokens left: {90000 - 1371 * n}\n{POLICY}", q(n))),
    "retrieved text in the system prompt": ({"PX107"}, "messages[0].content", lambda n, r: chat("Use these passages:\n" + "\n".join(f"{w} notes about {r.choice(WORDS)} and {n * 7}" for w in r.sample(WORDS, 3)) + f"\n---\n{POLICY}", q(n))),
    "few-shot drawn anew": ({"PX108", "PX107"}, "messages[0].content", lambda n, r: chat("Examples:\n" + "\n".join(f"Q: what is {w}? A: a {w} thing." for w in r.sample(WORDS, 4)) + f"\n\n{POLICY}", q(n))),
    "question before the rules": ({"PX109"}, "messages[0].content", lambda n, r: {"model": "m", "messages": [{"role": "user", "content": f"{q(n)}\n\n{POLICY}"}]}),
    "signed picture": ({"PX110"}, "messages[0].content[0]", lambda n, r: {"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"https://cdn.example/a.png?X-Amz-Signature={nonce(r, 16)}"}}, {"type": "text", "text": POLICY + q(n)}]}]}),
    "tools shuffled": ({"PX201"}, "tools[0]", lambda n, r: chat(POLICY, q(n), tools=shuffled(TOOLS, r) if n else [TOOLS[1], *TOOLS[2:], TOOLS[0]])),
    "keys of a schema shuffled": ({"PX202"}, "tools[0].function.parameters.properties", lambda n, r: chat(POLICY, q(n), tools=[tool("book", **dict(shuffled([("a", "string"), ("b", "number"), ("c", "string"), ("d", "number")], r)))])),
    "trailing blanks": ({"PX204"}, "messages[0].content", lambda n, r: chat(f"Rules follow.{' ' * n}\n{POLICY}", q(n))),
    "one tool more for some": ({"PX205"}, "tools[1]", lambda n, r: chat(POLICY, q(n), tools=[TOOLS[0], tool(f"plugin_{WORDS[n]}", x="string"), TOOLS[2]])),
    "memories in another order": ({"PX206"}, "messages[0].content", lambda n, r: chat("\n".join(f"* {w} is liked" for w in shuffled(WORDS[:5], r)) + f"\n{POLICY}", q(n))),
    "a mood nobody knows": ({"PX111"}, "messages[0].content", lambda n, r: chat(f"Weather is {WORDS[n]} and {WORDS[-1 - n]} all over.\n{POLICY}", q(n))),
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIVE)
def test_a_kind_of_defect_is_found_in_other_words(name: str) -> None:
    codes, path, make = POSITIVE[name]
    findings = lint(series(make))
    assert findings, "nothing found"
    assert findings[0].code in codes
    assert findings[0].path == path
    assert len(findings) == 1


def talk(
    turns: int, system: str = POLICY, change: Callable[[list[dict[str, str]]], list[dict[str, str]]] | None = None
) -> list[dict[str, Any]]:
    bodies = []
    history: list[dict[str, str]] = []
    for turn in range(turns):
        history.append({"role": "user", "content": f"Step {turn}: please look at part {turn} of the plan."})
        sent = change(history) if change else history
        bodies.append({"model": "m", "messages": [{"role": "system", "content": system}, *sent]})
        history = [
            *history,
            {"role": "assistant", "content": f"Part {turn} was read. " + f"It holds item {turn * 3}. " * 12},
        ]
    return bodies


def trimmed(history: list[dict[str, str]]) -> list[dict[str, str]]:
    """Answers older than the last four are cut to their first words."""
    return [
        {**m, "content": m["content"][:24]} if m["role"] == "assistant" and at < len(history) - 9 else m
        for at, m in enumerate(history)
    ]


def test_trimming_old_answers_is_rewritten_history() -> None:
    findings = lint(talk(8, change=trimmed))
    assert [item.code for item in findings] == ["PX301"]
    assert findings[0].path == "messages[2].content"
    assert findings[0].char == 24


def test_a_window_that_drops_one_exchange_each_turn_is_found() -> None:
    findings = lint(talk(9, change=lambda history: history[-5:]))
    assert [item.code for item in findings] == ["PX302"]


def thinking(history: list[dict[str, str]]) -> list[dict[str, str]]:
    last = max((at for at, m in enumerate(history) if m["role"] == "assistant"), default=-1)
    return [
        {**m, "content": "<think>" + "I weigh both sides. " * 20 + "</think>\n" + m["content"]} if at == last else m
        for at, m in enumerate(history)
    ]


def test_reasoning_kept_for_one_turn_only_is_found() -> None:
    assert [item.code for item in lint(talk(7, change=thinking))] == ["PX303"]


def glued(history: list[dict[str, str]]) -> list[dict[str, str]]:
    return [*history[:-1], {**history[-1], "content": f"<state>{len(history)} open</state>\n{history[-1]['content']}"}]


def test_a_block_removed_from_the_last_turn_is_an_information() -> None:
    findings = lint(talk(6, change=glued))
    assert [(item.code, item.severity.value) for item in findings] == [("PX306", "info")]


def test_two_defects_of_one_prompt_are_both_named() -> None:
    findings = lint(
        series(
            lambda n, r: chat(
                f"Now: 2026-05-01T10:0{n}:31Z\n{POLICY[:1500]}\nYou assist the customer {USERS[n]}.\n{POLICY}", q(n)
            )
        )
    )
    assert {item.code for item in findings} == {"PX101", "PX104"}


def test_a_system_message_behind_the_question_is_found() -> None:
    bodies = [
        {"messages": [{"role": "user", "content": q(n)}, {"role": "system", "content": POLICY}]} for n in range(6)
    ]
    assert [(item.code, item.path) for item in lint(bodies)] == [("PX304", "messages[0].content")]


def test_a_system_message_behind_the_history_is_found() -> None:
    bodies = [{"messages": [*body["messages"][1:], body["messages"][0]]} for body in talk(6)]
    assert [item.code for item in lint(bodies)] == ["PX304"]


def test_many_users_with_a_few_requests_each_are_found() -> None:
    names = [f"{first.split()[0]} {word.title()}" for first in USERS for word in WORDS[:2]]
    order = [name for turn in range(3) for name in names]
    bodies = [chat(f"You are talking to {name}.\n{POLICY}", q(n)) for n, name in enumerate(order)]
    assert [item.code for item in lint(bodies)] == ["PX104"]


NEGATIVE: dict[str, list[dict[str, Any]]] = {
    "clock in the newest turn": series(lambda n, r: chat(POLICY, f"<now>2026-05-01T10:0{n}:31Z</now> {q(n)}")),
    "append-only conversation": talk(9),
    "conversation that keeps its clocks": talk(7, change=lambda h: [{**m, "content": f"[{at}:0{at}] {m['content']}"} for at, m in enumerate(h)]),
    "two tenants with prompts of their own": series(lambda n, r: chat(("Shop A. " if n % 2 else "Club B. ") + (POLICY if n % 2 else POLICY.replace("Reply", "Answer")), q(n)), 12),
    "three profiles over one rule book": series(lambda n, r: chat(f"Profile {WORDS[n % 3]}.\n{POLICY}", q(n)), 18),
    "fixed dates and a fixed uuid": series(lambda n, r: chat(f"Version of 2024-11-05, ref 550e8400-e29b-41d4-a716-446655440000.\n{POLICY}", q(n))),
    "ids in metadata": series(lambda n, r: chat(POLICY, q(n), user=f"u{n}", seed=n, metadata={"trace": nonce(r, 16)})),
    "session id last": series(lambda n, r: chat(f"{POLICY}Session {nonce(r, 8)}", q(n))),
    "documents last": series(lambda n, r: chat(POLICY, f"{q(n)}\n<documents>\n{' '.join(r.sample(WORDS, 8))}\n</documents>")),
    "the same request again and again": series(lambda n, r: chat(POLICY, "Where is it?")),
    "unrelated requests": series(lambda n, r: chat(" ".join(r.choice(WORDS) + str(r.random()) for _ in range(90)), q(n))),
    "short prompts": series(lambda n, r: chat(f"It is 10:0{n}. Be brief.", q(n))),
    "one compaction in a long talk": [*talk(7), *talk(7, system=POLICY)[6:]],
    "two tool sets used in turns": series(lambda n, r: chat(POLICY, q(n), tools=TOOLS[:2] if n % 2 else TOOLS), 16),
}  # fmt: skip


@pytest.mark.parametrize("name", NEGATIVE)
def test_healthy_traffic_is_silent(name: str) -> None:
    assert [(item.code, item.path) for item in lint(NEGATIVE[name])] == []


def test_a_date_that_changes_daily_is_only_an_information() -> None:
    days = series(lambda n, r: chat(f"Today is {1 + n} June 2026.\n{POLICY}", q(n)))
    assert [(item.code, item.severity.value) for item in lint(days)] == [("PX102", "info")]
