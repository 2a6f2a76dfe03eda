"""Exact token ids of a request: from a tokenizer file, or from an engine that answers /tokenize.

Imports `tokenizers` only when asked. The trap: encoding line by line is exact only when the pre-tokenizer never joins
across a newline; that is checked on the first texts, and whole texts are encoded where it fails.
"""

from __future__ import annotations

import re
from array import array
from typing import Any, Protocol

from opsconsole.errors import ConfigError, UsageError
from opsconsole.lint.request import Request

_CUT = re.compile(r"(?<=\n)(?=[^\s])")
_TRIALS = 12


class TokenSource(Protocol):
    """Anything that turns a request into the ids the engine sees."""

    def ids(self, request: Request) -> array[int]: ...


class LocalTokenizer:
    """A tokenizer.json, with an optional chat template; ids of lines are remembered."""

    def __init__(self, encoder: Any, template: Any | None = None, bos: list[int] | None = None) -> None:
        self._encoder = encoder
        self._template = template
        self._bos = bos or []
        self._lines: dict[str, array[int]] = {}
        self._texts: dict[str, array[int]] = {}
        self._trials = 0
        self._by_line = True

    @classmethod
    def load(cls, path: str, template: Any | None = None) -> LocalTokenizer:
        """Read a tokenizer.json, or the directory that holds one."""
        from pathlib import Path

        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError("--tokenizer needs the package tokenizers; install opsconsole[engine].") from error
        file = Path(path)
        file = file / "tokenizer.json" if file.is_dir() else file
        try:
            return cls(Tokenizer.from_file(str(file)), template)
        except Exception as error:
            raise ConfigError(f"--tokenizer {file}: cannot be read as a tokenizer.json ({error}).") from error

    def ids(self, request: Request) -> array[int]:
        """Ids of the whole prompt."""
        if self._template is not None:
            return array("q", self._bos) + self._encode(self._template(request))
        made = array("q", self._bos)
        for part in request.parts:
            made += self._encode(f"{part.role}\n{part.text}\n")
        return made

    def _encode(self, text: str) -> array[int]:
        known = self._texts.get(text)
        if known is not None:
            return known
        if len(self._texts) > 4000:
            self._texts.clear()
        made = self._piecewise(text) if self._by_line else self._plain(text)
        if self._by_line and self._trials < _TRIALS and text.count("\n") > 1:
            self._trials += 1
            whole = self._plain(text)
            if whole != made:
                self._by_line = False
                made = whole
        self._texts[text] = made
        return made

    def _piecewise(self, text: str) -> array[int]:
        made = array("q")
        table = self._lines
        for line in _CUT.split(text):
            ids = table.get(line)
            if ids is None:
                if len(table) > 200_000:
                    table.clear()
                ids = self._plain(line)
                table[line] = ids
            made += ids
        return made

    def _plain(self, text: str) -> array[int]:
        return array("q", self._encoder.encode(text, add_special_tokens=False).ids)


class EngineTokenizer:
    """An engine's own /tokenize: slow, and exact to the chat template."""

    def __init__(self, url: str, model: str = "") -> None:
        import httpx

        self._client = httpx.Client(base_url=url.rstrip("/"), timeout=60.0)
        self._model = model

    def ids(self, request: Request) -> array[int]:
        """Ids as the engine counts them."""
        messages = chat_messages(request)
        body: dict[str, Any] = {"model": self._model} if self._model else {}
        if request.format in ("openai-completions", "vllm-log"):
            body["prompt"] = "".join(part.text for part in request.parts)
        else:
            body |= {"messages": messages, "add_generation_prompt": True}
        answer = self._client.post("/tokenize", json=body)
        if answer.status_code != 200:
            raise UsageError(f"{self._client.base_url}tokenize answered {answer.status_code}: {answer.text[:200]}")
        return array("q", answer.json()["tokens"])

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()


def chat_messages(request: Request) -> list[dict[str, str]]:
    """Role and text of a request's messages, for a template."""
    made: list[dict[str, str]] = []
    last: tuple[int, str] | None = None
    for part in request.parts:
        if part.kind == "tool":
            continue
        if last == (part.message, part.role) and part.message >= 0:
            made[-1]["content"] += part.text
        else:
            made.append({"role": part.role, "content": part.text})
        last = (part.message, part.role)
    return made
