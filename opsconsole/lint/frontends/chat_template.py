"""Chat templates: rendered in a sandbox under a fake clock and with one turn more, and compared.

Metamorphic: what changes with the clock calls it, and turn k must be the beginning of turn k + 1. The trap: the sandbox
stops attribute tricks, not loops; templates are files the user names, not those of strangers.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from opsconsole.lint.diverge import common_prefix
from opsconsole.lint.frontends.plain import SpotAt
from opsconsole.lint.model import Finding, Note, Severity
from opsconsole.lint.rules.table import RULES

_CHAT = re.compile(r"\bfor\s+\w+\s+in\s+(?:messages|loop_messages|ns\.messages)\b|add_generation_prompt|\bbos_token\b")
_CLOCK_CALL = re.compile(r"\b(?:strftime_now|now|utcnow|datetime\.now|date\.today)\s*\(")
_CONDITION = re.compile(r"\{%-?\s*(?:if|elif)\s+(?P<cond>.*?)\s*-?%\}", re.S)
_POSITIONAL = re.compile(r"\[-1\]|loop\.(?:last|index0?|revindex)|last|length|\bns\.\w+|num_|idx|index")
_PLACE = re.compile(r"\[-1\]|loop\.(?:last|index0?|revindex)|last_\w+")
_THINK = re.compile(r"<think>.*?</think>\s*", re.S)
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_START = datetime(2026, 3, 9, 17, 59, 58, tzinfo=UTC)
_STEPS = (
    ("second", timedelta(seconds=1)),
    ("minute", timedelta(minutes=1)),
    ("hour", timedelta(hours=1)),
    ("day", timedelta(days=1)),
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks a word up.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]
MIN_LOST_CHARS = 30


class Failure(Exception):
    """The template refuses every conversation tried."""


def looks_like(source: str) -> bool:
    """Whether a Jinja source is a chat template."""
    return _CHAT.search(source) is not None


def conversation(turns: int, *, system: bool = True, thinking: bool = False) -> list[dict[str, str]]:
    """A conversation that ends with an answer."""
    made = [{"role": "system", "content": "You answer questions about orders in short words."}] if system else []
    for turn in range(turns):
        made.append({"role": "user", "content": f"Question {turn}: where is order {turn} and when does it come?"})
        answer = f"Answer {turn}: order {turn} is on its way and comes on the next working day."
        if thinking:
            thought = f"Thought {turn}: the order was packed, so it must be on the road by now."
            made.append(
                {
                    "role": "assistant",
                    "content": f"<think>\n{thought}\n</think>\n\n{answer}",
                    "reasoning_content": thought,
                }
            )
        else:
            made.append({"role": "assistant", "content": answer})
    return made


class Template:
    """A compiled chat template with a clock that stands where it is put."""

    def __init__(self, source: str) -> None:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self.now = _START
        env = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], autoescape=False
        )
        env.filters["tojson"] = _tojson
        env.globals.update(strftime_now=lambda fmt: self.now.strftime(fmt), raise_exception=_refuse)
        env.globals.update(now=lambda *_: self.now, utcnow=lambda: self.now)
        # `generation` marks trained text and prints nothing; it is blanked with its trimming kept out.
        self._template = env.from_string(_GENERATION.sub("", source))

    def render(self, messages: list[dict[str, str]], **options: Any) -> str:
        """The prompt of a conversation, without a generation prompt unless asked."""
        given: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": False, **options}
        return self._template.render(messages=messages, **given)


def _tojson(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)


def _refuse(message: str) -> str:
    raise Failure(message)


def check(file: str, source: str) -> tuple[list[Finding], list[Note]]:
    """Findings of a chat template."""
    from jinja2 import TemplateError

    try:
        template = Template(source)
        shape = _working_shape(template)
    except (TemplateError, Failure, TypeError, ValueError, KeyError, AttributeError) as error:
        return [], [Note("PX901", f"{file}:1: the chat template cannot be rendered ({error})", file)]
    found = _clock(file, source, template, shape) + _moves(file, source, template, shape)
    return found + _options(file, source, template, shape), []


def _working_shape(template: Template) -> dict[str, Any]:
    """Options under which the template renders: with system text and tools if it takes them."""
    problem: Exception | None = None
    for system in (True, False):
        for tools in (_TOOLS, None):
            try:
                template.render(conversation(2, system=system), tools=tools)
            except Exception as error:
                problem = error
                continue
            return {"system": system, "tools": tools}
    raise Failure(str(problem))


def _clock(file: str, source: str, template: Template, shape: dict[str, Any]) -> list[Finding]:
    talk = conversation(2, system=shape["system"])
    for tools in (shape["tools"], None):
        for unit, step in _STEPS:
            template.now = _START
            before = template.render(talk, tools=tools)
            template.now = _START + step
            after = template.render(talk, tools=tools)
            template.now = _START
            if before == after:
                continue
            char = common_prefix(before, after)
            call = _CLOCK_CALL.search(source)
            text = f"the template prints the time, which changes every {unit}, at character {char} of the prompt"
            severity = Severity.INFO if unit == "day" else Severity.ERROR
            return [_finding("PX401", file, source, call.start() if call else 0, text, severity)]
    return []


def _moves(file: str, source: str, template: Template, shape: dict[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    if _broken(template, shape, shape["tools"], thinking=False) and not _only_thinking(template, shape):
        at = _culprit(source, shape, thinking=False)
        text = "what the template prints moves with each turn: turn k is not the beginning of turn k + 1"
        found.append(_finding("PX402", file, source, at, text))
    elif _broken(template, shape, shape["tools"], thinking=True):
        at = _culprit(source, shape, thinking=not _broken(template, shape, shape["tools"], thinking=False))
        text = "the template removes reasoning from earlier turns, so the last answer is computed again"
        found.append(_finding("PX403", file, source, at, text))
    return found


def _broken(template: Template, shape: dict[str, Any], tools: Any, *, thinking: bool) -> bool:
    for turns in (1, 2):
        try:
            short = template.render(conversation(turns, system=shape["system"], thinking=thinking), tools=tools)
            longer = template.render(conversation(turns + 1, system=shape["system"], thinking=thinking), tools=tools)
        except Exception:
            return False
        if len(short) - common_prefix(short, longer) >= MIN_LOST_CHARS:
            return True
    return False


def _only_thinking(template: Template, shape: dict[str, Any]) -> bool:
    """Whether two turns agree once blocks of reasoning, even empty ones, are left out."""
    for turns in (1, 2):
        short, longer = (
            _THINK.sub("", template.render(conversation(n, system=shape["system"]), tools=shape["tools"]))
            for n in (turns, turns + 1)
        )
        if len(short) - common_prefix(short, longer) >= MIN_LOST_CHARS:
            return False
    return True


def _culprit(source: str, shape: dict[str, Any], *, thinking: bool) -> int:
    """The part of a condition that makes content move: set to a constant, it repairs the template."""
    parts = [part for match in _CONDITION.finditer(source) for part in _conjuncts(match["cond"], match.start("cond"))]
    for start, text in sorted(parts, key=lambda part: (_tier(part[1]), part[0])):
        for word in ("true", "false"):
            try:
                template = Template(source[:start] + word + source[start + len(text) :])
                _working_shape(template)
                repaired = not _broken(template, shape, shape["tools"], thinking=thinking)
            except Exception:
                continue
            if repaired:
                return start + len(text) - len(text.lstrip("( "))
    fallback = re.search(r"\[-1\]|loop\.last|</think>|reasoning_content", source)
    return fallback.start() if fallback else 0


def _tier(condition: str) -> int:
    """How much a condition speaks of positions: places in the loop, then counters, then anything."""
    return 0 if _PLACE.search(condition) else 1 if _POSITIONAL.search(condition) else 2


def _conjuncts(condition: str, start: int) -> list[tuple[int, str]]:
    """The parts of a condition joined by `and` and `or` outside of brackets, with their places."""
    made: list[tuple[int, str]] = []
    depth = at = 0
    for match in re.finditer(r"[()\[\]]|\s+(?:and|or)\s+", condition):
        token = match[0]
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif depth == 0:
            made.append((start + at, condition[at : match.start()]))
            at = match.end()
    made.append((start + at, condition[at:]))
    return made


def _options(file: str, source: str, template: Template, shape: dict[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    talk = conversation(2, system=shape["system"])
    for name, values in (
        ("reasoning_effort", ("low", "high")),
        ("enable_thinking", (True, False)),
        ("thinking", (True, False)),
    ):
        if name not in source:
            continue
        try:
            a, b = (template.render(talk, tools=shape["tools"], **{name: value}) for value in values)
        except Exception:
            continue
        if a != b and len(a) - common_prefix(a, b) >= 0.5 * len(a):
            text = f"the option {name} is printed at character {common_prefix(a, b)}, in front of the conversation"
            found.append(_finding("PX404", file, source, source.find(name), text))
    return found


def _finding(code: str, file: str, source: str, at: int, text: str, severity: Severity | None = None) -> Finding:
    rule = RULES[code]
    spot = SpotAt(file, source)(at)
    return Finding(
        code,
        severity or rule.severity,
        text,
        file,
        spot.line,
        spot.col,
        path=f"{file}:{spot.line}",
        confirmed=True,
        fix=rule.fix,
        advice=rule.how,
        subject=code,
    )
