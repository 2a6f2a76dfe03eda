"""Answers in the shape of the OpenAI API: whole ones, and the events of a stream.

It must not know how tokens are made. The trap: an event is built for every token of every stream, so what never
changes in it is encoded once per call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engine.call import Call, Choice, Delta, LogprobEntry
from engine.request import FinishReason

DONE = b"data: [DONE]\n\n"


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def usage(call: Call) -> dict[str, Any]:
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "total_tokens": call.prompt_tokens + call.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": call.cached_tokens},
    }


class Replies:
    """Builds what one call answers. `created` is Unix seconds."""

    def __init__(self, call: Call, model: str, created: int) -> None:
        self._call, self._is_chat = call, call.spec.is_chat
        kind = "chat.completion" if self._is_chat else "text_completion"
        prefix = "chatcmpl" if self._is_chat else "cmpl"
        self._head = {"id": f"{prefix}-{call.call_id}", "object": kind, "created": created, "model": model}
        event = {**self._head, "object": "chat.completion.chunk" if self._is_chat else kind}
        self._event_head = b"data: " + encode(event)[:-1] + b',"choices":['
        self._event_tail = b'],"usage":null}\n\n' if call.spec.include_usage else b"]}\n\n"
        self._greeted: set[int] = set()
        self._offsets: dict[int, int] = {}

    def whole(self) -> bytes:
        """The answer of a call that does not stream."""
        choices = [self._choice(choice) for choice in self._call.choices]
        return encode({**self._head, "choices": choices, "usage": usage(self._call)})

    def events(self, deltas: Sequence[Delta]) -> bytes:
        """What is new, one event per choice."""
        return b"".join(self._event_head + self._event_choice(delta) + self._event_tail for delta in deltas)

    def last_events(self) -> bytes:
        """What follows the last token."""
        if not self._call.spec.include_usage:
            return DONE
        return self._event_head + b'],"usage":' + encode(usage(self._call)) + b"}\n\n" + DONE

    def _event_choice(self, delta: Delta) -> bytes:
        finish = delta.finish.value if delta.finish else None
        choice: dict[str, Any] = {"index": delta.index}
        if self._is_chat:
            content: dict[str, str] = {"content": delta.text} if delta.text or delta.finish is None else {}
            if delta.index not in self._greeted:
                self._greeted.add(delta.index)
                content = {"role": "assistant", "content": delta.text}
            choice["delta"] = content
        else:
            choice["text"] = delta.text
        choice["logprobs"] = self._logprobs(delta.index, delta.logprobs)
        choice["finish_reason"] = finish
        if delta.finish is FinishReason.STOP:
            choice["stop_reason"] = self._call.choices[delta.index].stop
        return encode(choice)

    def _choice(self, choice: Choice) -> dict[str, Any]:
        text = "".join(choice.text)
        content = {"message": {"role": "assistant", "content": text, "refusal": None}}
        return {
            "index": choice.index,
            **(content if self._is_chat else {"text": text}),
            "logprobs": self._logprobs(choice.index, choice.logprobs),
            "finish_reason": choice.finish.value if choice.finish else None,
            "stop_reason": choice.stop,
        }

    def _logprobs(self, index: int, entries: Sequence[LogprobEntry]) -> dict[str, Any] | None:
        if self._call.choices[index].request.params.logprobs is None:
            return None
        if self._is_chat:
            return {"content": [_chat_entry(entry) for entry in entries], "refusal": None}
        offsets: list[int] = []
        for entry in entries:
            offsets.append(self._offsets.get(index, 0))
            self._offsets[index] = offsets[-1] + len(entry.token)
        return {
            "tokens": [entry.token for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            # The chosen token is always among them, as clients expect.
            "top_logprobs": [dict([*entry.top, (entry.token, entry.logprob)]) for entry in entries],
            "text_offset": offsets,
        }


def _chat_entry(entry: LogprobEntry) -> dict[str, Any]:
    return {
        **_chat_token(entry.token, entry.logprob),
        "top_logprobs": [_chat_token(token, value) for token, value in entry.top],
    }


def _chat_token(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}
