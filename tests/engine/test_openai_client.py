"""The official client, unchanged, over a real socket."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import openai
import pytest

Serve = Callable[..., AbstractAsyncContextManager[Any]]


def client_of(served: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


async def test_completions_whole_and_streamed(serve: Serve) -> None:
    async with serve() as served, client_of(served) as client:
        whole = await client.completions.create(model="tiny", prompt="once", max_tokens=8, temperature=0, logprobs=0)
        stream = await client.completions.create(model="tiny", prompt="once", max_tokens=8, temperature=0, stream=True)
        text = "".join([event.choices[0].text async for event in stream])
        assert whole.choices[0].text == text and whole.usage is not None and whole.usage.completion_tokens == 8
        assert whole.usage.prompt_tokens_details is not None


async def test_chat_whole_and_streamed_with_usage(serve: Serve) -> None:
    messages: Any = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    async with serve() as served, client_of(served) as client:
        whole = await client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, temperature=0)
        stream = await client.chat.completions.create(
            model="tiny",
            messages=messages,
            max_completion_tokens=8,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        events = [event async for event in stream]
        text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
        assert whole.choices[0].message.content == text and whole.choices[0].message.role == "assistant"
        assert events[0].choices[0].delta.role == "assistant"
        assert events[-1].usage is not None and whole.usage is not None
        assert events[-1].usage.total_tokens == whole.usage.total_tokens


async def test_models_are_listed(serve: Serve) -> None:
    async with serve() as served, client_of(served) as client:
        models = [model async for model in await client.models.list()]
        assert [model.id for model in models] == ["tiny"]


async def test_errors_become_the_clients_exceptions(serve: Serve) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    async with serve() as served, client_of(served) as client:
        with pytest.raises(openai.NotFoundError, match="does not exist here"):
            await client.completions.create(model="gpt", prompt="x")
        with pytest.raises(openai.BadRequestError, match="tools is not supported") as caught:
            await client.chat.completions.create(model="tiny", messages=messages, tools=[tool])
        assert caught.value.param == "tools" and caught.value.request_id
        served.service.drain()
        with pytest.raises(openai.InternalServerError, match="draining"):
            await client.completions.create(model="tiny", prompt="x")
