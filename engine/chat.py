"""Chat messages to a prompt, through the model's own template in a sandbox.

A template comes with the weights, so it is somebody else's program: it runs in Jinja's immutable sandbox, without
loaders, and sees only what is passed here. It must not know tokens or requests. The trap: many templates call
`raise_exception` for message orders they do not like; that is the caller's error and not the server's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


class ChatTemplateError(ValueError):
    """The template refused the messages, or cannot be used."""


class ChatTemplate:
    """A compiled template. `bos` and `eos` are texts it may name."""

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        self._names = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"The model's chat template does not compile: {error}.") from error

    def render(self, messages: Sequence[dict[str, str]], *, add_generation_prompt: bool = True) -> str:
        """The prompt for these messages, ready for the assistant's turn."""
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=add_generation_prompt, **self._names
            )
        except (jinja2.TemplateError, TypeError) as error:
            raise ChatTemplateError(f"The model's chat template refused the messages: {error}.") from error


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
