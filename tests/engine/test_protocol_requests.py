"""Bodies as clients send them, and the sentence each wrong one gets."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chat import ChatTemplate
from engine.protocol import ApiError, parse_body
from engine.protocol_requests import CallSpec, Limits, read_chat, read_completion
from engine.text import BYTE_CHAT_TEMPLATE, ByteCodec

LIMITS = Limits("m", max_model_len=100, max_seqs=8, vocab_size=257, honours_priority=False)
USER = [{"role": "user", "content": "hi"}]


def completion(**body: Any) -> CallSpec:
    return read_completion({"model": "m", "prompt": "hello", **body}, LIMITS, ByteCodec(), lambda: 5)


def chat(**body: Any) -> CallSpec:
    template = ChatTemplate(BYTE_CHAT_TEMPLATE)
    return read_chat({"model": "m", "messages": USER, **body}, LIMITS, ByteCodec(), template, lambda: 5)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("ab", ((97, 98),)),
        (["a", "b"], ((97,), (98,))),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_a_prompt_is_text_or_ids_or_a_list_of_either(prompt: Any, prompts: tuple[tuple[int, ...], ...]) -> None:
    assert completion(prompt=prompt).prompts == prompts


def test_defaults_are_those_of_the_api() -> None:
    params = completion().params[0]
    assert (params.max_tokens, params.temperature, params.top_p, params.n, params.seed) == (16, 1.0, 1.0, 1, 5)
    assert chat().params[0].max_tokens == 100 - len(chat().prompts[0]), "a chat may fill the context"


def test_everything_supported_arrives() -> None:
    spec = completion(
        n=2,
        best_of=2,
        temperature=0.5,
        top_k=4,
        top_p=0.9,
        min_p=0.1,
        seed=-3,
        repetition_penalty=1.2,
        presence_penalty=-1,
        frequency_penalty=2,
        stop=["a", "b"],
        stop_token_ids=[3],
        min_tokens=2,
        max_tokens=20,
        ignore_eos=True,
        logprobs=3,
        stream=True,
        stream_options={"include_usage": True},
        user="u",
        cache_salt="s",
    )
    params = spec.params[0]
    assert (params.n, params.top_k, params.min_p, params.seed, params.logprobs) == (2, 4, 0.1, -3, 3)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (-1.0, 2.0, 1.2)
    assert spec.stops == ("a", "b") and spec.stream and spec.include_usage and spec.cache_salt == "s"
    assert chat(logprobs=True, top_logprobs=2).params[0].logprobs == 2
    assert chat(logprobs=True).params[0].logprobs == 0 and chat(max_completion_tokens=7).params[0].max_tokens == 7


def test_what_asks_for_nothing_is_accepted() -> None:
    completion(echo=False, suffix=None, logit_bias={}, response_format={"type": "text"}, top_k=-1)
    chat(tools=[], tool_choice="none", response_format=None)


def test_text_parts_are_joined_and_developers_are_systems() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    spec = chat(messages=[{"role": "developer", "content": "x"}, {"role": "user", "content": parts}])
    assert bytes(spec.prompts[0]).decode() == "<system>x\n<user>ab\n<assistant>"


def test_prompts_of_one_call_have_seeds_of_their_own() -> None:
    assert [params.seed for params in completion(prompt=["a", "b"], n=3, seed=10).params] == [10, 13]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": "other"}, "model"),
    ({"model": 3}, "model"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": ["a", ""]}, "prompt"),
    ({"prompt": None}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [1.5]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": [257]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"max_tokens": 96}, "prompt"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -4}, "max_tokens"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": 10**400}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": -1}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": []}, "frequency_penalty"),
    ({"n": 0}, "n"),
    ({"n": 9}, "n"),
    ({"best_of": 2}, "best_of"),
    ({"seed": "x"}, "seed"),
    ({"stop": [""]}, "stop"),
    ({"stop": 3}, "stop"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop_token_ids": [999]}, "stop_token_ids"),
    ({"min_tokens": 17}, "min_tokens"),
    ({"logprobs": 21}, "logprobs"),
    ({"logprobs": True}, "logprobs"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options"),
    ({"ignore_eos": 1}, "ignore_eos"),
    ({"priority": 1}, "priority"),
    ({"echo": True}, "echo"),
    ({"suffix": "x"}, "suffix"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"guided_json": {}}, "guided_json"),
    ({"cache_salt": 5}, "cache_salt"),
]


@pytest.mark.parametrize(
    ("body", "field"), WRONG, ids=[str(body) if len(str(body)) < 60 else "long" for body, _ in WRONG]
)
def test_a_wrong_completion_names_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as caught:
        completion(**body)
    assert caught.value.param == field
    assert caught.value.status == (404 if body.get("model") == "other" else 400)
    assert caught.value.message.endswith(".")


WRONG_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0].content"),
    ({"messages": [*USER, {"role": "assistant", "content": "", "tool_calls": [{}]}]}, "messages[1].tool_calls"),
    ({"messages": [{"role": "user", "content": "x" * 200}]}, "messages"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"functions": [{}]}, "functions"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"max_completion_tokens": 100}, "messages"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"prompt": "x"}, "prompt"),
]


@pytest.mark.parametrize(("body", "field"), WRONG_CHATS, ids=[field for _, field in WRONG_CHATS])
def test_a_wrong_chat_names_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat(**body)
    assert caught.value.param == field and caught.value.status == 400


def test_a_model_without_a_template_says_what_to_use() -> None:
    with pytest.raises(ApiError, match="/v1/completions"):
        read_chat({"model": "m", "messages": USER}, LIMITS, ByteCodec(), None, lambda: 0)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\xff{}", "invalid_utf8"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_json"),
        (b'{"temperature": NaN}', "invalid_json"),
        (b'{"prompt": "\\ud800"}', "invalid_utf8"),
        (b"[" * 100_000, "invalid_json"),
        (b"", "invalid_json"),
    ],
    ids=["utf-8", "cut", "list", "nan", "surrogate", "deep", "empty"],
)
def test_a_body_that_is_no_json_object_says_why(raw: bytes, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_body(raw)
    assert caught.value.status == 400 and caught.value.code == code


def test_a_whole_surrogate_pair_is_text() -> None:
    assert parse_body(b'{"prompt": "\\ud83d\\ude00"}') == {"prompt": "\U0001f600"}
