"""Jinja prompt templates: holes by calls (strong evidence) and by names (weak), with `set` and `for` followed.

Reads the source itself, since the parser gives lines but no columns. The trap: a chat template is another thing and is
rendered, not read (see chat_template).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from opsconsole.lint.frontends import volatile
from opsconsole.lint.frontends.inversion import inversions
from opsconsole.lint.frontends.ir import Literal, Message, Piece, Prompt, Volatility
from opsconsole.lint.frontends.names import meaning
from opsconsole.lint.frontends.plain import SpotAt
from opsconsole.lint.frontends.values import Stable, Tainted, Unknown, from_meaning, literal, pieces
from opsconsole.lint.model import Finding, Note
from opsconsole.lint.segments import estimate

_BLOCK = re.compile(r"\{#.*?#\}|\{%[-+]?\s*(?P<tag>.*?)\s*[-+]?%\}|\{\{[-+]?\s*(?P<expr>.*?)\s*[-+]?\}\}", re.S)
_SET = re.compile(r"set\s+(\w+)\s*=\s*(.+)", re.S)
_FOR = re.compile(r"for\s+([\w, ]+?)\s+in\s+(.+)", re.S)
_CALL = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_STRFTIME = re.compile(r"(?:strftime|strftime_now|format|timestamp_custom)\s*\(\s*(?:'([^']*)'|\"([^\"]*)\")")
_NAME = re.compile(r"(?<![\w.'\"|])([A-Za-z_][\w.]*)")
_STRINGS = re.compile(r"'[^']*'|\"[^\"]*\"")
_TABLE = {
    **volatile.PYTHON,
    "strftime_now": volatile.PYTHON["datetime.now"],
    "uuid4": volatile.PYTHON["uuid.uuid4"],
}
_KEYWORDS = {"if", "else", "not", "and", "or", "in", "is", "true", "false", "none", "True", "False", "None", "defined"}


class Block(NamedTuple):
    """A piece of template source: text, an expression, or a tag."""

    kind: str
    text: str
    start: int


def blocks(source: str) -> Iterator[Block]:
    """Text, expressions and tags in order; comments are left out."""
    last = 0
    for match in _BLOCK.finditer(source):
        if match.start() > last:
            yield Block("text", source[last : match.start()], last)
        last = match.end()
        if match["expr"] is not None:
            yield Block("expr", match["expr"], match.start("expr"))
        elif match["tag"] is not None:
            yield Block("tag", match["tag"], match.start("tag"))
    if last < len(source):
        yield Block("text", source[last:], last)


def expression(text: str, env: dict[str, Any]) -> Any:
    """The value of an expression, by its calls, filters and names."""
    if re.search(r"\|\s*(?:random|shuffle)\b", text):
        return Tainted(Volatility.RANDOM, "PX108", "a random draw")
    bare = _STRINGS.sub(lambda found: " " * len(found[0]), text)
    for match in _CALL.finditer(bare):
        found = volatile.source(match[1], _TABLE)
        if found is not None:
            fmt = _STRFTIME.search(text)
            found = volatile.format_source(found, (fmt[1] or fmt[2]) if fmt else None)
            if re.search(r"\.(?:date)\s*\(\)", text) and found.code == "PX101":
                found = volatile.PYTHON["date.today"]
            return Tainted(found.volatility, found.code, found.word, unordered=found.unordered)
    best: Any = Unknown()
    for match in _NAME.finditer(bare):
        root = match[1].split(".")[0]
        if root in _KEYWORDS:
            continue
        value = env.get(match[1], env.get(root))
        if value is None:
            value = from_meaning(meaning(match[1]))
            value = from_meaning(meaning(root)) if isinstance(value, Unknown) else value
            fmt = _STRFTIME.search(text)
            if isinstance(value, Tainted) and value.code == "PX101" and fmt:
                made = volatile.format_source(
                    volatile.Source(value.volatility, value.code, value.word), fmt[1] or fmt[2]
                )
                value = replace(value, volatility=made.volatility, code=made.code)
        hotter = isinstance(value, Tainted) and (not isinstance(best, Tainted) or value.volatility > best.volatility)
        if hotter or isinstance(best, Unknown):
            best = value
    if isinstance(best, Unknown) and re.fullmatch(r"\s*(?:'[^']*'|\"[^\"]*\")\s*", text):
        return literal(text.strip()[1:-1])
    return best


def check(file: str, source: str, min_tokens: int) -> list[Finding]:
    """Findings of a Jinja template."""
    spot_at = SpotAt(file, source)
    made: list[Piece] = []
    env: dict[str, Any] = {}
    for block in blocks(source):
        if block.kind == "text":
            made.append(Literal(estimate(block.text), len(block.text)))
        elif block.kind == "expr":
            made += pieces(expression(block.text, env), spot_at(block.start))
        else:
            _tag(block.text, env, made)
    prompt = Prompt((Message("template", tuple(made), spot_at(0)),), spot_at(0))
    found: dict[tuple[int, str], Finding] = {}
    for item in inversions(prompt, min_tokens):
        found.setdefault((item.line, item.code), item)
    return list(found.values())


def broken(file: str, source: str) -> list[Note]:
    """What Jinja itself says of a template it cannot parse. Tags of extensions we do not have are no mistake."""
    from jinja2 import Environment, TemplateSyntaxError

    try:
        Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(source)  # parsed, never rendered
    except TemplateSyntaxError as error:
        said = (error.message or "syntax error").rstrip(".")
        if not said.startswith("Encountered unknown tag"):
            return [Note("PX901", f"{file}:{error.lineno}: cannot be parsed ({said})", file, error.lineno)]
    return []


def _tag(text: str, env: dict[str, Any], made: list[Piece]) -> None:
    assigned = _SET.match(text)
    if assigned:
        env[assigned[1]] = expression(assigned[2], env)
        return
    loop = _FOR.match(text)
    if loop:
        value = expression(loop[2], env)
        for name in loop[1].split(","):
            env[name.strip()] = value
    elif text.startswith("include"):
        made += pieces(Stable(), SpotAt("", "")(0))
