"""Prompts kept as values of YAML, JSON and TOML files: strings under prompt-like keys, and lists of messages.

Uses YAML's node marks for places (JSON is YAML). The trap: a large data file is no prompt file, so size is bounded and
only keys that speak of prompts count.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from opsconsole.lint.frontends import chat_template
from opsconsole.lint.frontends.inversion import inversions
from opsconsole.lint.frontends.ir import Message, Prompt, Spot
from opsconsole.lint.frontends.plain import HOLE, SpotAt, text_pieces
from opsconsole.lint.model import Finding, Note

MAX_CHARS = 400_000
_KEY = re.compile(r"prompt|system|instruction|template|content|message|persona|preamble", re.I)


def check(file: str, text: str, min_tokens: int) -> tuple[list[Finding], list[Note]]:
    """Findings of the prompts in a YAML, JSON or TOML file."""
    if len(text) > MAX_CHARS or not (HOLE.search(text) or "chat_template" in text):
        return [], []
    if file.endswith(".toml"):
        return _toml(file, text, min_tokens)
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return [], [Note("PX901", f"{file}: cannot be parsed ({str(error).splitlines()[0]})", file)]
    found: list[Finding] = []
    notes: list[Note] = []
    _walk(root, "", file, text, min_tokens, found, notes)
    return found, notes


def _walk(node: Any, key: str, file: str, text: str, min_tokens: int, found: list[Finding], notes: list[Note]) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            _walk(value, str(name.value), file, text, min_tokens, found, notes)
    elif isinstance(node, yaml.SequenceNode):
        messages = [_message(item, file, text) for item in node.value]
        if messages and all(message is not None for message in messages):
            made = tuple(message for message in messages if message is not None)
            found += inversions(Prompt(made, Spot(file, node.start_mark.line + 1, 1)), min_tokens)
            return
        for item in node.value:
            _walk(item, key, file, text, min_tokens, found, notes)
    elif isinstance(node, yaml.ScalarNode) and isinstance(node.value, str):
        if key == "chat_template" and chat_template.looks_like(node.value):
            made_findings, made_notes = chat_template.check(file, node.value)
            found += made_findings
            notes += made_notes
        elif _KEY.search(key):
            message = _scalar("template", node, file, text)
            found += inversions(Prompt((message,), message.spot), min_tokens)


def _message(node: Any, file: str, text: str) -> Message | None:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    fields = {name.value: value for name, value in node.value}
    if "role" not in fields or not isinstance(fields.get("content"), yaml.ScalarNode):
        return None
    return _scalar(str(fields["role"].value), fields["content"], file, text)


def _scalar(role: str, node: Any, file: str, text: str) -> Message:
    return Message(
        role,
        text_pieces(node.value, _Found(file, text, node.value, node.start_mark.index)),
        Spot(file, node.start_mark.line + 1, node.start_mark.column + 1),
    )


class _Found(SpotAt):
    """Places of a value's holes, found again in the raw file after the value's start."""

    def __init__(self, file: str, text: str, value: str, start: int) -> None:
        super().__init__(file, text)
        self._value, self._start = value, start

    def __call__(self, at: int) -> Spot:
        match = HOLE.match(self._value, at)
        token = match[0] if match else self._value[at : at + 12]
        earlier = self._value[:at].count(token)
        where = self._start
        for _ in range(earlier + 1):
            where = self._text.find(token, where + (1 if _ else 0))
        return super().__call__(max(where, 0))


def _toml(file: str, text: str, min_tokens: int) -> tuple[list[Finding], list[Note]]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [], [Note("PX901", f"{file}: cannot be parsed ({error})", file)]
    found: list[Finding] = []

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                walk(item, name)
        elif isinstance(value, list):
            for item in value:
                walk(item, key)
        elif isinstance(value, str) and _KEY.search(key) and HOLE.search(value):
            start = max(text.find(value[:24]), 0)
            place = _Found(file, text, value, start)
            found.extend(
                inversions(Prompt((Message("template", text_pieces(value, place), place(0)),), place(0)), min_tokens)
            )

    walk(data, "")
    return found, []
