"""The JavaScript and TypeScript front end: prompts are objects with `messages`, `system`, `prompt` or `input`.

Drives the evaluator and the inversion check. The trap: any call may be a client, so a call counts when an argument
carries a list of messages, or a system text together with messages or a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opsconsole.lint.frontends.inversion import inversions
from opsconsole.lint.frontends.ir import Message, Prompt
from opsconsole.lint.frontends.jseval import JsEvaluator, Scope
from opsconsole.lint.frontends.jsmodule import FUNCTIONS, MAYBE_PROMPT, JsModule, JsProject
from opsconsole.lint.frontends.values import Fields, Tainted, Text, is_messages, messages, pieces
from opsconsole.lint.model import Finding

_SYSTEM = ("system", "instructions", "systemInstruction", "systemPrompt")


class JsFrontend:
    """Checks JS and TS files."""

    def __init__(self, files: dict[str, Callable[[], str]], min_tokens: int = 64) -> None:
        self._project = JsProject(files)
        self._min_tokens = min_tokens

    def check(self, file: str, text: str) -> list[Finding]:
        """Findings of one file."""
        if not MAYBE_PROMPT.search(text):
            return []
        module = self._project.module(file, text)
        found: dict[tuple[str, int, str], Finding] = {}
        for prompt in self._prompts(module):
            for item in sorted(inversions(prompt, self._min_tokens), key=Finding.order):
                found.setdefault((item.file, item.line, item.code), item)
        return list(found.values())

    def _prompts(self, module: JsModule) -> Iterator[Prompt]:
        made: list[Prompt] = []

        def on_call(node: Any, dotted: str, arguments: list[Any], scope: Scope) -> bool:
            prompt = _prompt(node, arguments, scope)
            if prompt is not None:
                made.append(prompt)
            return prompt is not None

        evaluator = JsEvaluator(self._project, on_call)
        evaluator.run(module.root, Scope(module))
        for node in _functions(module.root):
            evaluator.steps = 0
            scope = Scope(module)
            evaluator.bind_parameters(node, scope, [])
            body = node.child_by_field_name("body")
            if body is not None and body.type != "statement_block":
                evaluator.settle(body, scope)
            else:
                evaluator.run(body, scope)
        yield from made


def _functions(node: Any) -> Iterator[Any]:
    for child in node.named_children:
        if child.type in FUNCTIONS:
            yield child
        yield from _functions(child)


def _prompt(node: Any, arguments: list[Any], scope: Scope) -> Prompt | None:
    spot = scope.module.spot(node)
    for value in arguments:
        if is_messages(value):
            return Prompt(tuple(messages(value, spot)), spot, scope.loops)
        if not isinstance(value, Fields):
            continue
        fields = value.fields
        for key in ("body", "json", "data", "config"):
            inner = fields.get(key)
            if isinstance(inner, Fields) and ("messages" in inner.fields or "prompt" in inner.fields):
                fields = inner.fields
        carried = next((fields[key] for key in ("messages", "input", "contents") if key in fields), None)
        systems = [fields[key] for key in _SYSTEM if key in fields]
        prompt = fields.get("prompt")
        is_list = is_messages(carried) or (isinstance(carried, Tainted) and carried.growing)
        if (
            not is_list
            and not (systems and (carried is not None or prompt is not None))
            and not isinstance(prompt, Text)
        ):
            continue
        made = [Message("tools", pieces(fields["tools"], spot), spot)] if "tools" in fields else []
        made += [Message("system", pieces(item, spot), spot) for item in systems]
        if carried is not None:
            made += messages(carried, spot)
        elif prompt is not None:
            made.append(Message("prompt", pieces(prompt, spot), spot))
        return Prompt(tuple(made), spot, scope.loops)
    return None
