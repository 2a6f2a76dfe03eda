"""The HTTP surface over a real socket: answers, errors, ids, keys, drains, disconnects."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from engine.config import SloClass
from engine.server import ServerOptions
from engine.service import Phase

Serve = Callable[..., AbstractAsyncContextManager[Any]]


def ask(**body: Any) -> dict[str, Any]:
    return {"model": "tiny", "prompt": "hello", "max_tokens": 5, "temperature": 0, **body}


def events(text: str) -> list[Any]:
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(line[6:]) for line in text.split("\n\n")[:-2]]


async def metric(client: httpx.AsyncClient, start: str) -> float:
    page = (await client.get("/metrics")).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(start))


async def test_a_stream_says_what_the_whole_answer_says(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        whole = (await client.post("/v1/completions", json=ask(max_tokens=20))).json()
        body = ask(max_tokens=20, stream=True, stream_options={"include_usage": True})
        streamed = events((await client.post("/v1/completions", json=body)).text)
        assert "".join(e["choices"][0]["text"] for e in streamed[:-1]) == whole["choices"][0]["text"]
        assert streamed[-1]["choices"] == [] and streamed[-1]["usage"]["completion_tokens"] == 20
        assert streamed[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
        assert len({event["id"] for event in streamed}) == 1


async def test_cached_tokens_are_told_and_a_repeat_answers_the_same(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        prompt = "x" * 100
        first = (await client.post("/v1/completions", json=ask(prompt=prompt))).json()
        again = (await client.post("/v1/completions", json=ask(prompt=prompt))).json()
        assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
        assert again["usage"]["prompt_tokens_details"] == {"cached_tokens": 96}
        assert first["choices"] == again["choices"]


async def test_lists_of_prompts_and_n_give_numbered_choices(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        body = ask(prompt=["first", "second"], n=2, temperature=1, seed=3)
        answer = (await client.post("/v1/completions", json=body)).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert answer["usage"]["prompt_tokens"] == 11 and answer["usage"]["completion_tokens"] == 20
        assert len({choice["text"] for choice in answer["choices"]}) == 4
        assert (await client.post("/v1/completions", json=body)).json()["choices"] == answer["choices"]


async def test_a_stop_string_ends_the_text_before_it_and_frees_the_slot(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        text = (await client.post("/v1/completions", json=ask(max_tokens=30))).json()["choices"][0]["text"]
        stop = text[10:13]
        stopped = (await client.post("/v1/completions", json=ask(max_tokens=3000, stop=stop))).json()
        assert stopped["choices"][0]["text"] == text[: text.index(stop)]
        assert stopped["choices"][0]["finish_reason"] == "stop" and stopped["choices"][0]["stop_reason"] == stop
        assert stopped["usage"]["completion_tokens"] == text.index(stop) + 3
        await served.until(lambda: served.core.stats().running == 0)
        streamed = events((await client.post("/v1/completions", json=ask(max_tokens=99, stop=stop, stream=True))).text)
        assert "".join(e["choices"][0]["text"] for e in streamed) == text[: text.index(stop)]


async def test_a_client_that_leaves_frees_its_slot(serve: Serve) -> None:
    async with serve(step_s=0.02) as served, served.client() as client:
        async with client.stream("POST", "/v1/completions", json=ask(max_tokens=3000, stream=True)) as response:
            await anext(response.aiter_bytes())
            assert served.core.stats().running == 1
        await served.until(lambda: not served.service.calls)
        steps = served.core.stats().steps
        await served.until(lambda: served.core.stats().running == 0)
        assert served.core.stats().steps - steps <= 1, "within one step"
        assert await metric(client, "vllm:request_success_total{") == 1
        assert await metric(client, "opsconsole:slo_requests_total{") == 0, "nobody's failure"


async def test_a_client_that_leaves_without_streaming_frees_its_slot_too(serve: Serve) -> None:
    async with serve(step_s=0.02) as served, served.client() as client:
        task = asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=3000)))
        await served.until(lambda: served.core.stats().running == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await served.until(lambda: served.core.stats().running == 0 and not served.service.calls)


@pytest.mark.parametrize(
    ("path", "content", "status", "code"),
    [
        ("/v1/completions", b"\xff", 400, "invalid_utf8"),
        ("/v1/completions", b"{", 400, "invalid_json"),
        ("/v1/completions", b'{"model": "other", "prompt": "x"}', 404, "model_not_found"),
        ("/v1/completions", b'{"model": "tiny", "prompt": "x", "max_tokens": 5000}', 400, "context_length_exceeded"),
        ("/v1/completions", b'{"model": "tiny", "prompt": ""}', 400, "invalid_value"),
        ("/v1/chat/completions", b'{"model": "tiny", "messages": [{"role": "user"}]}', 400, "invalid_value"),
        ("/tokenize", b'{"model": "tiny"}', 400, "invalid_value"),
        ("/v1/embeddings", b"{}", 404, "unknown_url"),
        ("/v1/models", b"{}", 405, "unknown_url"),
    ],
)
async def test_bad_input_gets_the_error_body_of_the_api(
    serve: Serve, path: str, content: bytes, status: int, code: str
) -> None:
    async with serve() as served, served.client() as client:
        answer = await client.post(path, content=content, headers={"x-request-id": "mine"})
        error = answer.json()["error"]
        assert answer.status_code == status and error["code"] == code and error["request_id"] == "mine"
        assert set(error) == {"message", "type", "param", "code", "request_id"} and error["message"].endswith(".")
        assert answer.headers["x-request-id"] == "mine"


async def test_a_body_over_the_limit_is_refused_declared_or_not(serve: Serve) -> None:
    async def pieces() -> Any:
        for _ in range(40):
            yield b"x" * 1000

    async with serve(server=ServerOptions(body_limit=20_000)) as served, served.client() as client:
        declared = await client.post("/v1/completions", content=b"x" * 20_001)
        chunked = await client.post("/v1/completions", content=pieces())
        assert declared.status_code == chunked.status_code == 413
        assert chunked.json()["error"]["code"] == "body_too_large"


async def test_ids_go_through_logs_and_headers_and_hostile_ones_are_replaced(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine")
    async with serve() as served, served.client() as client:
        good = await client.post("/v1/completions", json=ask(), headers={"x-request-id": "abc-1"})
        bad = await client.post("/v1/completions", json=ask(), headers={"x-request-id": "a b" + "c" * 200})
        assert good.headers["x-request-id"] == "abc-1" and good.json()["id"] == "cmpl-abc-1"
        assert len(bad.headers["x-request-id"]) == 32
    logged = [record for record in caplog.records if record.getMessage() == "answered"]
    assert [getattr(record, "request_id", None) for record in logged] == ["abc-1", bad.headers["x-request-id"]]
    assert "hello" not in caplog.text, "no prompt in the log"


async def test_the_same_id_twice_at_a_time_is_two_requests(serve: Serve) -> None:
    async with serve() as served, served.client(**{"x-request-id": "same"}) as client:
        answers = await asyncio.gather(*(client.post("/v1/completions", json=ask(max_tokens=40)) for _ in range(3)))
        assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [40, 40, 40]


async def test_a_key_is_asked_for_except_by_probes(serve: Serve) -> None:
    async with serve(server=ServerOptions(api_key="k3y")) as served, served.client() as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        for headers in ({}, {"authorization": "Bearer nope"}, {"authorization": "Basic k3y"}):
            answer = await client.post("/v1/completions", json=ask(), headers=headers)
            assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
            assert (await client.post("/drain", headers=headers)).status_code == 401
        right = {"authorization": "Bearer k3y"}
        assert (await client.post("/v1/completions", json=ask(), headers=right)).status_code == 200


async def test_a_full_queue_says_when_to_come_back(serve: Serve) -> None:
    async with serve(step_s=0.02, max_seqs=1, max_queued_requests=1) as served, served.client() as client:
        tasks = []
        for running, waiting in ((1, 0), (1, 1)):
            tasks.append(asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=500))))
            await served.until(
                lambda r=running, w=waiting: (served.core.stats().running, served.core.stats().waiting) == (r, w)
            )
        refused = await client.post("/v1/completions", json=ask())
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert await metric(client, "vllm:admission_rejections_total{") == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_limit_on_queued_tokens_refuses_too(serve: Serve) -> None:
    async with serve(step_s=0.02, max_seqs=1, max_queued_tokens=30) as served, served.client() as client:
        tasks = [asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=500))) for _ in range(2)]
        await served.until(lambda: served.core.stats().waiting == 1)
        refused = await client.post("/v1/completions", json=ask(prompt="y" * 40))
        assert refused.status_code == 429 and refused.json()["error"]["code"] == "max_num_queued_tokens"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_draining_refuses_new_calls_finishes_old_ones_and_can_be_undone(serve: Serve) -> None:
    async with serve(step_s=0.01) as served, served.client() as client:
        running = asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=30)))
        await served.until(lambda: served.core.stats().running == 1)
        drained = await client.post("/drain")
        assert drained.status_code == 202 and drained.json() == {"status": "draining", "streams": 1}
        health = await client.get("/health")
        assert health.status_code == 503 and health.json() == {"status": "draining"}
        refused = await client.post("/v1/completions", json=ask())
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert await metric(client, "opsconsole:engine_draining") == 1
        assert (await running).json()["usage"]["completion_tokens"] == 30
        assert (await client.post("/undrain")).status_code == 202
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/v1/completions", json=ask())).status_code == 200


async def test_a_deadline_cuts_what_still_runs_and_counts_it(serve: Serve) -> None:
    async with serve(step_s=0.01) as served, served.client() as client:
        running = asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=3000, stream=True)))
        await served.until(lambda: served.core.stats().running == 1 and served.core.stats().steps > 6)
        served.service.drain()
        assert await served.service.drained(0.05) == 1
        text = (await running).text
        assert "deadline" in text and "[DONE]" not in text
        await served.until(lambda: not served.service.calls)
        assert await metric(client, "opsconsole:streams_cut_total") == 1


async def test_outcomes_are_joint_and_by_class(serve: Serve) -> None:
    classes = {"fast": SloClass("fast", ttft_s=30.0, tpot_s=30.0), "never": SloClass("never", tpot_s=1e-9)}
    async with serve(slo_classes=classes) as served, served.client() as client:
        for name in ("fast", "never", "never"):
            assert (await client.post("/v1/completions", json=ask(), headers={"x-slo-class": name})).status_code == 200
        base = "opsconsole:slo_requests_total{" + 'model_name="tiny",engine="0",slo_class='
        assert await metric(client, base + '"fast",outcome="met"') == 1
        assert await metric(client, base + '"never",outcome="missed"') == 2
        assert await metric(client, base + '"default"') == 0
        unknown = await client.post("/v1/completions", json=ask(), headers={"x-slo-class": "gold"})
        assert unknown.status_code == 400 and "fast" in unknown.json()["error"]["message"]


async def test_only_a_trusted_router_sets_the_salt_by_header(serve: Serve) -> None:
    async def cached(client: httpx.AsyncClient, headers: dict[str, str], **body: Any) -> int:
        answer = await client.post("/v1/completions", json=ask(prompt="z" * 50, **body), headers=headers)
        return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    async with serve(server=ServerOptions(router_token="t")) as served, served.client() as client:
        tenant = {"x-cache-salt": "a", "x-opsconsole-router": "t"}
        assert await cached(client, tenant) == 0
        assert await cached(client, tenant) == 48, "the same salt shares"
        assert await cached(client, {**tenant, "x-cache-salt": "b"}) == 0, "another does not"
        assert await cached(client, {**tenant, "x-opsconsole-router": "guess"}) == 0
        assert await cached(client, {}) == 48, "the guess was served without a salt"
        assert await cached(client, {}, cache_salt="a") == 0, "a client cannot imitate the router"
        assert await cached(client, tenant, cache_salt="x") == 48, "the router's salt wins"


async def test_ready_only_after_a_token_and_not_counted_as_traffic(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        assert served.service.phase is Phase.READY and served.core.stats().steps >= 2
        assert await metric(client, "vllm:generation_tokens_total") == 0
        assert await metric(client, "opsconsole:engine_steps_total") == 0
        assert await metric(client, "opsconsole:engine_ready") == 1


async def test_before_the_first_token_the_engine_is_not_ready(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        served.service._warm = False
        assert (await client.get("/health")).json() == {"status": "starting"}
        assert (await client.post("/v1/completions", json=ask())).status_code == 503


async def test_a_failing_step_ends_every_request_with_an_error(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def run(self, plan: object) -> object:
            raise RuntimeError("out of memory")

    async with serve(step_s=0.01) as served, served.client() as client:
        stream = asyncio.create_task(client.post("/v1/completions", json=ask(max_tokens=3000, stream=True)))
        await served.until(lambda: served.core.stats().running == 1)
        served.core._runner = Broken()
        assert "The engine failed" in (await stream).text
        assert (await client.get("/health")).json() == {"status": "broken"}
        refused = await client.post("/v1/completions", json=ask())
        assert refused.status_code == 500 and refused.json()["error"]["type"] == "server_error"
    assert "out of memory" in caplog.text


async def test_tokenize_counts_what_a_prompt_costs(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        plain = (await client.post("/tokenize", json={"model": "tiny", "prompt": "héllo"})).json()
        assert plain == {"count": 6, "max_model_len": 4096, "tokens": list("héllo".encode())}
        messages = [{"role": "user", "content": "hi"}]
        chat = (await client.post("/tokenize", json={"messages": messages})).json()
        body = {"model": "tiny", "messages": messages, "max_tokens": 2}
        answer = (await client.post("/v1/chat/completions", json=body)).json()
        assert answer["usage"]["prompt_tokens"] == chat["count"]


async def test_a_hundred_clients_at_once_get_their_own_answers(serve: Serve) -> None:
    async with serve(step_s=0.0, kv_blocks=40, max_model_len=200) as served, served.client() as client:
        bodies = [ask(prompt=f"client {number}", max_tokens=12, stream=number % 2 == 0) for number in range(100)]
        crowd = await asyncio.gather(*(client.post("/v1/completions", json=body) for body in bodies))
        for body, answer in list(zip(bodies, crowd, strict=True))[::13]:
            alone = (await client.post("/v1/completions", json={**body, "stream": False})).json()
            text = (
                "".join(event["choices"][0]["text"] for event in events(answer.text))
                if body["stream"]
                else answer.json()["choices"][0]["text"]
            )
            assert text == alone["choices"][0]["text"]
        assert served.core.stats().kv_usage == 0.0
