"""Where Python sends prompts: known client calls, raw HTTP, LangChain forms; and the prompt each of them sends.

Knows which arguments carry the prompt, and their order to the model. The trap: a call counts by what it is given, so
wrappers of unknown clients are found, but a function of the project is followed instead.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends import pytext
from opsconsole.lint.frontends.ir import Message, Prompt, Spot
from opsconsole.lint.frontends.names import meaning, words
from opsconsole.lint.frontends.values import (
    Fields,
    Items,
    Spread,
    Tainted,
    Text,
    Unknown,
    from_meaning,
    is_message,
    is_messages,
    literal,
    messages,
    pieces,
)

if TYPE_CHECKING:
    from opsconsole.lint.frontends.pystatements import Frame

_PROMPT_CALLS = words(
    "completion acompletion generate agenerate complete text_completion generate_text "
    "predict create chat generate_content invoke ainvoke stream astream converse "
    "parse batch call acall send_message run "
)
_SYSTEM_KEYS = ("system", "instructions", "system_instruction", "system_prompt", "systemInstruction")
_TEMPLATES = ("ChatPromptTemplate.from_messages", "from_messages", "ChatPromptTemplate", "PromptTemplate.from_template",
              "ChatPromptTemplate.from_template", "PromptTemplate", "from_template")  # fmt: skip
_TUPLE_ROLES = {"system": "system", "human": "user", "user": "user", "ai": "assistant", "assistant": "assistant"}


class Sinks:
    """Collects the prompts that calls send."""

    def __init__(self, extra: frozenset[str] = frozenset()) -> None:
        self.prompts: list[Prompt] = []
        self._extra = extra

    def on_call(
        self, node: ast.Call, dotted: str, arguments: list[Any], keywords: dict[str, Any], frame: Frame
    ) -> Any | None:
        """Take a call; returns a value where the call makes one that is known here."""
        last = dotted.rpartition(".")[2]
        if last == "MessagesPlaceholder":
            return Tainted(*_history())
        if dotted.endswith(_TEMPLATES) or last in _TEMPLATES:
            return self._template(node, arguments, keywords, frame)
        if last in ("render", "substitute", "safe_substitute", "Template"):
            return _render(node, last, arguments, keywords, frame)
        keywords = _unwrapped(keywords)
        made = self._messages(node, dotted, arguments, keywords, frame)
        if made:
            self.prompts.append(Prompt(tuple(made), frame.module.spot(node), frame.loops))
        return None

    def _messages(
        self, node: ast.Call, dotted: str, arguments: list[Any], keywords: dict[str, Any], frame: Frame
    ) -> list[Message]:
        spot = frame.module.spot(node)
        last = dotted.rpartition(".")[2]
        known = last in self._extra or dotted in self._extra or last in _PROMPT_CALLS
        carried = next((keywords[key] for key in ("messages", "input", "contents") if key in keywords), None)
        if carried is None:
            carried = next((item for item in arguments if is_messages(item)), None)
        made: list[Message] = []
        tools = keywords.get("tools") or keywords.get("functions")
        systems = [keywords[key] for key in _SYSTEM_KEYS if key in keywords]
        is_list = is_messages(carried) or (isinstance(carried, Tainted) and carried.growing)
        if (
            not (is_list or (known and (carried is not None or "prompt" in keywords or systems)))
            and not (
                known
                and last in ("generate", "predict", "invoke", "ainvoke", "complete", "completion", "generate_content")
                and arguments
                and isinstance(arguments[0], Text)
            )
            and not (arguments and (last in self._extra or dotted in self._extra))
        ):
            return []
        if tools is not None:
            made.append(_tools(tools, _spot_of(node, "tools", frame)))
        for value in systems:
            made.append(Message("system", pieces(value, spot), spot))
        if carried is not None:
            made += messages(carried, spot)
        elif "prompt" in keywords:
            made.append(Message("prompt", pieces(keywords["prompt"], _spot_of(node, "prompt", frame)), spot))
        elif arguments:
            made.append(Message("prompt", pieces(arguments[0], spot), spot))
        return made

    def _template(self, node: ast.Call, arguments: list[Any], keywords: dict[str, Any], frame: Frame) -> Any:
        given = arguments[0] if arguments else keywords.get("messages", keywords.get("template"))
        made: list[Message] = []
        nodes = node.args[0].elts if node.args and isinstance(node.args[0], (ast.List, ast.Tuple)) else []
        if isinstance(given, Items):
            for at, item in enumerate(given.items):
                spot = frame.module.spot(nodes[at]) if at < len(nodes) else frame.module.spot(node)
                made += _template_message(item, spot, nodes[at] if at < len(nodes) else None, frame)
        elif isinstance(given, Text) and given.plain:
            spot = frame.module.spot(node.args[0] if node.args else node)
            made.append(_template_text("prompt", given.plain, spot, node.args[0] if node.args else None, frame))
        if made:
            self.prompts.append(Prompt(tuple(made), frame.module.spot(node), frame.loops))
        return Unknown()


def _history() -> tuple[Any, ...]:
    from opsconsole.lint.frontends.ir import Volatility as V

    return (V.SESSION, "", "history", True, True)


def _template_message(item: Any, spot: Spot, node: ast.expr | None, frame: Frame) -> list[Message]:
    if isinstance(item, Items) and len(item.items) == 2 and all(isinstance(part, Text) for part in item.items):
        role = _TUPLE_ROLES.get(item.items[0].plain or "", "user")
        written = node.elts[1] if isinstance(node, ast.Tuple) and len(node.elts) == 2 else None
        if (item.items[0].plain or "") == "placeholder":
            return [Message("user", pieces(Tainted(*_history()), spot), spot)]
        text = item.items[1]
        if text.plain is None:
            return [Message(role, text.pieces, spot)]
        where = frame.module.spot(written) if written is not None else spot
        return [_template_text(role, text.plain, where, written, frame)]
    if is_message(item):
        return messages(item, spot)
    if isinstance(item, Tainted):
        return [Message("user", pieces(item, spot), spot)]
    return messages(item, spot)


def _template_text(role: str, text: str, spot: Spot, node: ast.expr | None, frame: Frame) -> Message:
    """A template text; each hole stands where its brace is written, if the text is written in one line."""
    made: list[tuple[Any, Spot]] = []
    last = 0
    source = frame.module.lines[spot.line - 1] if node is not None else ""
    for match in pytext._FIELD.finditer(text):
        made.append((literal(text[last : match.start()]), spot))
        last = match.end()
        if match["name"]:
            at = source.find(match[0], spot.col - 1)
            where = Spot(spot.file, spot.line, at + 1) if at >= 0 else spot
            made.append((from_meaning(meaning(match["name"]), frame.loops), where))
    made.append((literal(text[last:]), spot))
    return Message(role, tuple(piece for value, where in made for piece in pieces(value, where)), spot)


def _render(node: ast.Call, last: str, arguments: list[Any], keywords: dict[str, Any], frame: Frame) -> Any | None:
    if last == "Template":
        first = arguments[0] if arguments else None
        return first if isinstance(first, Text) else None
    return None


def _unwrapped(keywords: dict[str, Any]) -> dict[str, Any]:
    """Arguments of raw HTTP (`json=`, `data=`) and of configuration objects, as if given directly."""
    made = dict(keywords)
    for key in ("json", "data", "content", "body", "config", "extra_body"):
        value = keywords.get(key)
        if isinstance(value, Fields) and any(
            k in value.fields for k in ("messages", "prompt", "system", "system_instruction", "tools")
        ):
            made.update(value.fields)
    return made


def _spot_of(node: ast.Call, name: str, frame: Frame) -> Spot:
    for word in node.keywords:
        if word.arg == name:
            return frame.module.spot(word.value)
    return frame.module.spot(node)


def _tools(value: Any, spot: Spot) -> Message:
    """Tools stand first; an unordered collection of them is PX201."""
    from dataclasses import replace

    if isinstance(value, Spread):
        value = value.value
    if isinstance(value, Tainted) and value.unordered:
        value = replace(value, code="PX201", word="tools in no fixed order", at=value.at or spot)
    return Message("tools", pieces(value, spot), spot)
