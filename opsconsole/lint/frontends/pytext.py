"""Text-making forms of Python: places of f-string fields, `%`, `.format` and templates with named holes.

Knows the grammar of these forms only. The trap: before 3.12 the columns of f-string fields in the syntax tree are wrong
for triple-quoted strings, so fields are found in the source again.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends import names
from opsconsole.lint.frontends.ir import Spot
from opsconsole.lint.frontends.values import Fields, Items, Text, Unknown, from_meaning, literal, text_of

if TYPE_CHECKING:
    from opsconsole.lint.frontends.pyeval import Evaluator
    from opsconsole.lint.frontends.pymodule import Module
    from opsconsole.lint.frontends.pystatements import Frame

_STRING = re.compile(r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>'''|\"\"\"|'|\")")
_FIELD = re.compile(r"\{\{|\}\}|\{(?P<name>[A-Za-z_]?[\w.\[\]]*)(?:![rsa])?(?::[^{}]*)?\}")
_DOLLAR = re.compile(r"\$\$|\$(?P<open>\{)?(?P<name>[A-Za-z_]\w*)(?(open)\})")
_BRACES = re.compile(r"\{\{-?\s*(?P<name>[A-Za-z_]\w*)[^{}]*\}\}|\{#.*?#\}", re.S)
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-#0 +]*\d*(?:\.\d+)?[sdrifgxX]|%%")


def constant_text(node: ast.expr) -> str | None:
    """The text of a constant or of an f-string without fields."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and all(isinstance(part, ast.Constant) for part in node.values):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return None


def fields(node: ast.JoinedStr, module: Module) -> list[Spot]:
    """Places of the expressions of an f-string's fields, in order, found in the source text."""
    start_line, end_line = node.lineno, node.end_lineno or node.lineno
    lines = module.lines[start_line - 1 : end_line]
    first = module.spot(node).col - 1
    source = "\n".join(lines)
    at = first
    found: list[int] = []
    while at < len(source):
        opening = _STRING.match(source, at)
        if opening is None:
            if source[at] == "#":
                newline = source.find("\n", at)
                at = len(source) if newline < 0 else newline
                continue
            at += 1
            continue
        quote, is_format = opening["quote"], "f" in opening["prefix"].lower()
        at = _scan(source, opening.end(), quote, is_format, found)
    return [_spot(source, offset, module.file, start_line) for offset in found]


def _scan(source: str, at: int, quote: str, is_format: bool, found: list[int]) -> int:
    depth = 0
    while at < len(source):
        char = source[at]
        if depth == 0 and source.startswith(quote, at):
            return at + len(quote)
        if char == "\\" and depth == 0:
            at += 2
            continue
        if is_format and char == "{":
            if depth == 0 and source.startswith("{{", at):
                at += 2
                continue
            depth += 1
            if depth == 1:
                inner = at + 1
                while inner < len(source) and source[inner] in " \t\n":
                    inner += 1
                found.append(inner)
        elif is_format and char == "}" and depth:
            depth -= 1
        at += 1
    return at


def _spot(source: str, offset: int, file: str, first_line: int) -> Spot:
    line = source.count("\n", 0, offset)
    return Spot(file, first_line + line, offset - (source.rfind("\n", 0, offset) + 1) + 1)


def percent(evaluator: Evaluator, node: ast.BinOp, left: Text, frame: Frame) -> Any:
    """`text % values`."""
    if left.plain is None:
        return left
    right = evaluator.value(node.right, frame)
    elements = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
    made: list[tuple[Any, Spot]] = []
    here = frame.module.spot(node.left)
    last = index = 0
    for match in _PERCENT.finditer(left.plain):
        made.append((literal(left.plain[last : match.start()]), here))
        last = match.end()
        if match[0] == "%%":
            made.append((literal("%"), here))
        elif match["name"] and isinstance(right, Fields):
            made.append((right.fields.get(match["name"], Unknown()), here))
        elif index < len(elements):
            value = evaluator.named(evaluator.value(elements[index], frame), frame.loops)
            made.append((value, frame.module.spot(elements[index])))
            index += 1
    made.append((literal(left.plain[last:]), here))
    return text_of(made)


def format_call(evaluator: Evaluator, node: ast.Call, base: Text, frame: Frame) -> Any:
    """`text.format(...)`: positional and named fields take the places of their arguments."""
    if base.plain is None:
        return base
    named = {word.arg: word.value for word in node.keywords if word.arg}
    spread = [evaluator.value(word.value, frame) for word in node.keywords if word.arg is None]
    made: list[tuple[Any, Spot]] = []
    here = frame.module.spot(node)
    last = index = 0
    for match in _FIELD.finditer(base.plain):
        made.append((literal(base.plain[last : match.start()]), here))
        last = match.end()
        if match[0] in ("{{", "}}"):
            made.append((literal(match[0][0]), here))
            continue
        key = re.split(r"[.\[]", match["name"])[0]
        argument = named.get(key)
        if argument is None and (not key or key.isdigit()):
            at = int(key) if key else index
            index += 1
            argument = node.args[at] if at < len(node.args) else None
        if argument is not None:
            value = evaluator.named(evaluator.value(argument, frame), frame.loops)
            made.append((value, frame.module.spot(argument)))
            continue
        held = next((item.fields[key] for item in spread if isinstance(item, Fields) and key in item.fields), None)
        made.append((held if held is not None else from_meaning(names.meaning(key), frame.loops), here))
    made.append((literal(base.plain[last:]), here))
    return text_of(made)


def fill(evaluator: Evaluator, node: ast.Call, base: Text, name: str, frame: Frame) -> Any:
    """`Template(...).substitute(...)` of string and `.render(...)` of Jinja: holes take their arguments' places."""
    if base.plain is None:
        return base
    pattern = _BRACES if name == "render" else _DOLLAR
    named = {word.arg: word.value for word in node.keywords if word.arg}
    for item in node.args:
        if isinstance(item, ast.Dict):
            named |= {
                str(key.value): value
                for key, value in zip(item.keys, item.values, strict=True)
                if isinstance(key, ast.Constant)
            }
    made: list[tuple[Any, Spot]] = []
    here = frame.module.spot(node)
    last = 0
    for match in pattern.finditer(base.plain):
        made.append((literal(base.plain[last : match.start()]), here))
        last = match.end()
        given = named.get(match["name"] or "")
        if given is not None:
            made.append((evaluator.named(evaluator.value(given, frame), frame.loops), frame.module.spot(given)))
        elif match["name"]:
            made.append((from_meaning(names.meaning(match["name"]), frame.loops), here))
    made.append((literal(base.plain[last:]), here))
    return text_of(made)


def template(text: str, spot: Spot, given: dict[str, tuple[Any, Spot]], loops: tuple[int, ...]) -> Text:
    """A text with `{name}` holes filled from arguments, else by what the names suggest."""
    made: list[tuple[Any, Spot]] = []
    last = 0
    for match in _FIELD.finditer(text):
        made.append((literal(text[last : match.start()]), spot))
        last = match.end()
        if match[0] in ("{{", "}}"):
            continue
        name = match["name"]
        made.append(given[name] if name in given else (from_meaning(names.meaning(name), loops), spot))
    made.append((literal(text[last:]), spot))
    return text_of(made)


def items_text(value: Items) -> list[str | None]:
    """Plain texts of a list's items, None where one is not known."""
    return [item.plain if isinstance(item, Text) else None for item in value.items]
