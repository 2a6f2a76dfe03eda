"""OpenAI bodies: chat, completions and Responses. Tools stand first, as in the templates that print them in front.

Knows nothing of files. The trap: an `input` or `prompt` may be a string, a list of strings or token ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.lint.request import Mark, Part, Request, Unreadable, as_mapping, dump

OPTIONS = (
    "reasoning_effort",
    "reasoning",
    "response_format",
    "tool_choice",
    "chat_template_kwargs",
    "thinking",
    "text",
)
_TEXT_TYPES = {"text", "input_text", "output_text"}


def add_content(parts: list[Part], value: Any, path: str, kind: str, role: str, index: int) -> list[str]:
    """Append the parts of a message's content; returns the lifetimes of breakpoints met, '' where none is given."""
    marks: list[str] = []
    if isinstance(value, str):
        parts.append(Part(path, kind, role, value, index))
    elif isinstance(value, list):
        for at, block in enumerate(value):
            if isinstance(block, str):
                parts.append(Part(f"{path}[{at}]", kind, role, block, index))
            elif isinstance(block, dict):
                text = block.get("text")
                if isinstance(text, str) and block.get("type", "text") in _TEXT_TYPES:
                    parts.append(Part(f"{path}[{at}].text", kind, role, text, index))
                else:
                    parts.append(Part(f"{path}[{at}]", kind, role, dump(block), index))
                control = block.get("cache_control") or block.get("prompt_cache_breakpoint")
                if control:
                    marks.append(str(as_mapping(control).get("ttl", "5m")))
    elif value is not None:
        parts.append(Part(path, kind, role, dump(value), index))
    return marks


def _message(parts: list[Part], message: Any, path: str, index: int) -> list[str]:
    if not isinstance(message, dict):
        raise Unreadable(f"{path} is not an object; a message needs role and content")
    role = str(message.get("role") or message.get("type") or "user")
    kind = "system" if role in ("system", "developer") else "message"
    marks: list[str] = []
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            parts.append(Part(f"{path}.{key}", kind, role, message[key], index))
    if "content" in message:
        marks = add_content(parts, message["content"], f"{path}.content", kind, role, index)
    for key in ("tool_calls", "function_call", "arguments", "output", "summary"):
        if message.get(key):
            value = message[key]
            parts.append(Part(f"{path}.{key}", kind, role, value if isinstance(value, str) else dump(value), index))
    return marks


def add_tools(parts: list[Part], marks: list[Mark], tools: Any) -> None:
    """Append the tools of a body; each is one part."""
    if not isinstance(tools, list):
        return
    for at, tool in enumerate(tools):
        parts.append(Part(f"tools[{at}]", "tool", "tool", dump(tool), -1))
        control = as_mapping(tool).get("cache_control")
        if control:
            marks.append(Mark(len(parts) - 1, str(as_mapping(control).get("ttl", "5m"))))


def add_messages(parts: list[Part], marks: list[Mark], messages: Any, name: str) -> None:
    """Append a list of messages."""
    if not isinstance(messages, list):
        raise Unreadable(f"{name} is not a list of messages")
    for index, message in enumerate(messages):
        for ttl in _message(parts, message, f"{name}[{index}]", index):
            marks.append(Mark(len(parts) - 1, ttl))


def read(body: Mapping[str, Any]) -> Request:
    """Parts of a chat, completions or Responses body."""
    parts: list[Part] = []
    marks: list[Mark] = []
    request = Request("", 0, parts, "openai", marks=marks)
    add_tools(parts, marks, body.get("tools") or body.get("functions"))
    if "messages" in body:
        add_messages(parts, marks, body["messages"], "messages")
    elif "input" in body or "instructions" in body:
        request.format = "openai-responses"
        if isinstance(body.get("instructions"), str):
            parts.append(Part("instructions", "system", "system", body["instructions"], -1))
        given = body.get("input")
        if isinstance(given, str):
            parts.append(Part("input", "message", "user", given, 0))
        elif given is not None:
            add_messages(parts, marks, given, "input")
    else:
        _prompt(request, body.get("prompt"))
    schema = as_mapping(as_mapping(body.get("response_format")).get("json_schema"))
    if schema:
        parts.insert(0, Part("response_format", "tool", "format", dump(body["response_format"]), -1))
        request.marks[:] = [Mark(mark.after_part + 1, mark.ttl) for mark in marks]
    request.options = {
        key: body[key] if isinstance(body[key], str) else dump(body[key])
        for key in OPTIONS
        if key in body and not (schema and key == "response_format")
    }
    key = body.get("prompt_cache_key")
    request.cache_key = key if isinstance(key, str) else None
    return request


def _prompt(request: Request, prompt: Any) -> None:
    request.format = "openai-completions"
    if isinstance(prompt, str):
        request.parts.append(Part("prompt", "message", "user", prompt, 0))
    elif isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt):
        request.tokens, request.tokens_path = tuple(prompt), "prompt"
        request.format = "token-ids"
    elif isinstance(prompt, list) and prompt and all(isinstance(item, str) for item in prompt):
        for at, text in enumerate(prompt):
            request.parts.append(Part(f"prompt[{at}]", "message", "user", text, at))
    else:
        raise Unreadable("no prompt found (looked for messages, input, instructions, prompt, prompt_token_ids)")
