"""What a completion or chat body asks for, checked against this engine: a `CallSpec`.

Fields that change nothing are ignored by name, fields that would change the answer and are not supported get a 400
that names them. It must not know streams or the scheduler. The trap: a default of `max_tokens` differs between the
two endpoints (16 tokens; whatever the context leaves).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.chat import ChatTemplate, ChatTemplateError
from engine.protocol import ApiError, Body, flag, integer, invalid, number, refuse_unknown, string, strings, token_ids
from engine.request import SamplingParams
from engine.text import Codec

_IGNORED = frozenset({"user", "metadata", "store", "safety_identifier", "prompt_cache_key", "service_tier"})
_SAMPLING = (
    *("model", "n", "temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "min_tokens", "ignore_eos"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "stop", "stop_token_ids"),
    *("stream", "stream_options", "logprobs", "priority", "cache_salt"),
)
# Unsupported fields, each with the values that ask for nothing.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
    "use_beam_search": (False,),
}
_COMPLETION = {
    **dict.fromkeys([*_SAMPLING, "prompt", "best_of"]),
    **_HARMLESS,
    "echo": (False,),
    "suffix": ("",),
}
_CHAT = {
    **dict.fromkeys([*_SAMPLING, "messages", "max_completion_tokens", "top_logprobs"]),
    **_HARMLESS,
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What this engine can do, as far as requests have to know."""

    model_name: str
    max_model_len: int
    max_seqs: int
    vocab_size: int
    honours_priority: bool


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One call: its prompts, how to sample each of them, and how to answer."""

    is_chat: bool
    prompts: tuple[tuple[int, ...], ...]
    params: tuple[SamplingParams, ...]  # one per prompt; each may have n > 1
    stops: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    priority: int = 0
    cache_salt: str | None = None

    @property
    def choices(self) -> int:
        return sum(params.n for params in self.params)


def check_model(body: Body, limits: Limits) -> None:
    """The call must name the model that is served here."""
    model = string(body, "model")
    if model is None:
        raise ApiError(
            400, "model is missing; name the model to use.", param="model", code="missing_required_parameter"
        )
    if model != limits.model_name:
        raise ApiError(
            404,
            f"The model {model!r} does not exist here; this engine serves {limits.model_name!r}.",
            param="model",
            code="model_not_found",
        )


def read_completion(body: Body, limits: Limits, codec: Codec, draw_seed: Callable[[], int]) -> CallSpec:
    """A body of /v1/completions."""
    check_model(body, limits)
    refuse_unknown(body, _COMPLETION, _IGNORED)
    prompts = _prompts(body, limits, codec)
    params = _sampling(body, limits, draw_seed, default_max=16)
    if (best_of := integer(body, "best_of", 1)) is not None and best_of != params.n:
        raise invalid("best_of", "is supported only where it equals n.")
    params = replace(params, logprobs=integer(body, "logprobs", 0, 20))
    return _spec(body, limits, prompts, params, is_chat=False)


def read_chat(
    body: Body, limits: Limits, codec: Codec, template: ChatTemplate | None, draw_seed: Callable[[], int]
) -> CallSpec:
    """A body of /v1/chat/completions."""
    check_model(body, limits)
    refuse_unknown(body, _CHAT, _IGNORED)
    prompt = render_chat(body, codec, template)
    room = limits.max_model_len - len(prompt)
    if room < 1:
        raise _too_long(len(prompt), 1, limits, "messages")
    most = integer(body, "max_completion_tokens", 1)
    params = _sampling(body, limits, draw_seed, default_max=room if most is None else most)
    top = integer(body, "top_logprobs", 0, 20)
    wanted = flag(body, "logprobs")
    if top is not None and not wanted:
        raise invalid("top_logprobs", "needs logprobs to be true.")
    params = replace(params, logprobs=(top or 0) if wanted else None)
    return _spec(body, limits, (prompt,), params, is_chat=True)


def render_chat(body: Body, codec: Codec, template: ChatTemplate | None) -> tuple[int, ...]:
    """The messages as token ids of the model's own template."""
    messages = _messages(body)
    if template is None:
        raise ApiError(400, "This model has no chat template; use /v1/completions.", param="messages")
    try:
        text = template.render(messages)
    except ChatTemplateError as error:
        raise ApiError(400, str(error), param="messages") from error
    prompt = tuple(codec.encode(text, add_special=False))
    if not prompt:
        raise invalid("messages", "give an empty prompt.")
    return prompt


def _spec(
    body: Body, limits: Limits, prompts: tuple[tuple[int, ...], ...], params: SamplingParams, *, is_chat: bool
) -> CallSpec:
    for prompt in prompts:
        if len(prompt) + params.max_tokens > limits.max_model_len:
            raise _too_long(len(prompt), params.max_tokens, limits, "messages" if is_chat else "prompt")
    stream = flag(body, "stream")
    options = body.get("stream_options")
    if options is not None:
        if not stream:
            raise invalid("stream_options", "needs stream to be true.")
        if not isinstance(options, dict) or set(options) - {"include_usage"}:
            raise invalid("stream_options", "may hold include_usage and nothing else.")
    priority = integer(body, "priority", -(2**31), 2**31, default=0) or 0
    if priority and not limits.honours_priority:
        raise invalid("priority", "needs an engine started with --policy priority.")
    return CallSpec(
        is_chat=is_chat,
        prompts=prompts,
        params=tuple(
            replace(params, seed=params.seed + index * params.n) if index else params for index in range(len(prompts))
        ),
        stops=strings(body, "stop", most=16),
        stream=stream,
        include_usage=stream and flag(options or {}, "include_usage"),
        priority=priority,
        cache_salt=string(body, "cache_salt"),
    )


def _sampling(body: Body, limits: Limits, draw_seed: Callable[[], int], default_max: int) -> SamplingParams:
    max_tokens = integer(body, "max_tokens", 1, default=default_max)
    min_tokens = integer(body, "min_tokens", 0, default=0)
    top_k = integer(body, "top_k", -1, default=0)
    seed = integer(body, "seed", -(2**63), 2**64)
    assert max_tokens is not None and min_tokens is not None and top_k is not None
    if min_tokens > max_tokens:
        raise invalid("min_tokens", f"is {min_tokens}, more than max_tokens ({max_tokens}).")
    stop_ids = body.get("stop_token_ids")
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=number(body, "temperature", 0.0, 2.0, 1.0),
        top_k=max(0, top_k),
        top_p=number(body, "top_p", 0.0, 1.0, 1.0, above=True),
        min_p=number(body, "min_p", 0.0, 1.0, 0.0),
        repetition_penalty=number(body, "repetition_penalty", 0.0, 10.0, 1.0, above=True),
        presence_penalty=number(body, "presence_penalty", -2.0, 2.0, 0.0),
        frequency_penalty=number(body, "frequency_penalty", -2.0, 2.0, 0.0),
        seed=draw_seed() if seed is None else seed,
        min_tokens=min_tokens,
        ignore_eos=flag(body, "ignore_eos"),
        stop_token_ids=frozenset(() if stop_ids is None else token_ids(stop_ids, "stop_token_ids", limits.vocab_size)),
        n=integer(body, "n", 1, limits.max_seqs, default=1) or 1,
    )


def _prompts(body: Body, limits: Limits, codec: Codec) -> tuple[tuple[int, ...], ...]:
    value = body.get("prompt")
    if value is None:
        raise ApiError(400, "prompt is missing; send text or token ids.", param="prompt")
    if isinstance(value, str):
        prompts = [tuple(codec.encode(value))] if value else [()]
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        prompts = [tuple(codec.encode(item)) if item else () for item in value]
    elif isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        prompts = [token_ids(item, "prompt", limits.vocab_size) for item in value]
    else:
        prompts = [token_ids(value, "prompt", limits.vocab_size)]
    if len(prompts) > 256:
        raise invalid("prompt", f"holds {len(prompts)} prompts; at most 256 are allowed in one call.")
    if not all(prompts):
        raise invalid("prompt", "is empty; send at least one token.")
    return tuple(prompts)


def _messages(body: Body) -> list[dict[str, str]]:
    value = body.get("messages")
    if not isinstance(value, list) or not value:
        raise invalid("messages", "must be a non-empty list.")
    messages: list[dict[str, str]] = []
    for index, message in enumerate(value):
        place = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid(place, "must be an object with a role and a content.")
        if message["role"] not in ("system", "developer", "user", "assistant"):
            raise invalid(f"{place}.role", f"is {message['role']!r}; it must be system, developer, user or assistant.")
        for field, given in message.items():
            if field not in ("role", "content", "name", "refusal") and given:
                raise invalid(f"{place}.{field}", "is not supported by this engine.")
        role = "system" if message["role"] == "developer" else message["role"]
        messages.append({"role": role, "content": _content(message.get("content"), place)})
    return messages


def _content(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise invalid(f"{place}.content", "must be a string or a list of text parts.")
    for part in value:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise invalid(f"{place}.content", "may hold text parts only; this engine reads text.")
    return "".join(part["text"] for part in value)


def _too_long(prompt: int, output: int, limits: Limits, field: str) -> ApiError:
    return ApiError(
        400,
        f"This model's context is {limits.max_model_len} tokens; the prompt has {prompt}, and {output} more are asked"
        " for. Shorten the prompt or lower max_tokens.",
        param=field,
        code="context_length_exceeded",
    )
