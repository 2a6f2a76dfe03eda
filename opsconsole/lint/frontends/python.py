"""The Python front end: from files to findings, by way of the prompts their functions send.

Drives parsing, evaluation and the inversion check. The trap: only functions whose source lines may send a prompt are
evaluated, so the cost follows the prompts and not the lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from opsconsole.lint.frontends.inversion import inversions
from opsconsole.lint.frontends.ir import Prompt
from opsconsole.lint.frontends.pyeval import Evaluator
from opsconsole.lint.frontends.pymodule import MAYBE_PROMPT, Module, Project
from opsconsole.lint.frontends.pysinks import Sinks
from opsconsole.lint.frontends.pystatements import Frame, parameters, run
from opsconsole.lint.frontends.values import Dotted, settled
from opsconsole.lint.frontends.volatile import Source
from opsconsole.lint.model import Finding, Note

_SINK = re.compile(
    r"\.(?:create|stream|parse|generate\w*|a?invoke|converse|complete|predict|post|request|chat|batch|send_message|run|call)\("
    r"|completion\(|messages\s*=|prompt\s*=|PromptTemplate|from_messages|\[\s*\{?\s*[\"']role[\"']|[\"']messages[\"']"
)


class PythonFrontend:
    """Checks Python files; `files` gives the text of each by name."""

    def __init__(
        self,
        files: dict[str, Callable[[], str]],
        min_tokens: int = 64,
        sinks: frozenset[str] = frozenset(),
        sources: dict[str, Source] | None = None,
    ) -> None:
        self._project = Project(files)
        self._min_tokens = min_tokens
        self._extra = sinks
        self._sources = sources
        self._pattern = re.compile(
            "|".join([_SINK.pattern, *(rf"\b{re.escape(s.rpartition('.')[2])}\(" for s in sinks)])
        )

    def check(self, file: str, text: str) -> tuple[list[Finding], list[Note]]:
        """Findings of one file."""
        if not MAYBE_PROMPT.search(text) and not any(sink.rpartition(".")[2] in text for sink in self._extra):
            return [], []
        lines = _lines_of(self._pattern, text)
        if not lines:
            return [], []
        module = self._project.module(file, text)
        if module is None:
            error = self._project.errors[file]
            note = Note("PX901", f"{file}:{error.lineno or 1}: cannot be parsed ({error.msg})", file, error.lineno or 1)
            return [], [note]
        found: dict[tuple[str, int, int, str], Finding] = {}
        for prompt in self._prompts(module, lines):
            for item in inversions(prompt, self._min_tokens):
                found.setdefault((item.file, item.line, item.col, item.code), item)
        return _one_per_line(list(found.values())), []

    def _prompts(self, module: Module, lines: list[int]) -> Iterator[Prompt]:
        for node, owner in _roots(module.tree.body, lines):
            sinks = Sinks(self._extra)
            evaluator = Evaluator(self._project, sinks.on_call, self._sources)
            frame = Frame(module, owner)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                parameters(node, frame)
                for default_name, default in _defaults(node):
                    if isinstance(default, (ast.Constant, ast.JoinedStr, ast.Name)):
                        value = evaluator.value(default, Frame(module))
                        if not isinstance(value, Dotted) and not _is_none(default):
                            frame.env[default_name] = settled(value)
                run(evaluator, node.body, frame)
            else:
                run(evaluator, [node], frame)
            yield from sinks.prompts


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or not isinstance(node.value, str))


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    names = [argument.arg for argument in node.args.args]
    yield from zip(names[len(names) - len(node.args.defaults) :], node.args.defaults, strict=True)
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            yield argument.arg, default


def _lines_of(pattern: re.Pattern[str], text: str) -> list[int]:
    made: list[int] = []
    line, last = 1, 0
    for match in pattern.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        if not made or made[-1] != line:
            made.append(line)
    return made


def _roots(body: list[ast.stmt], lines: list[int]) -> Iterator[tuple[ast.stmt, ast.ClassDef | None]]:
    """Functions, methods and top-level statements that hold a line which may send a prompt."""
    from bisect import bisect_left

    def holds(node: ast.stmt) -> bool:
        at = bisect_left(lines, node.lineno)
        return at < len(lines) and lines[at] <= (node.end_lineno or node.lineno)

    for node in body:
        if not holds(node):
            continue
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and holds(inner):
                    yield inner, node
        else:
            yield node, None


def _one_per_line(found: list[Finding]) -> list[Finding]:
    """Several values of one kind in one line are one finding, at the first of them."""
    made: dict[tuple[str, int, str], Finding] = {}
    for item in sorted(found, key=Finding.order):
        made.setdefault((item.file, item.line, item.code), item)
    return list(made.values())
