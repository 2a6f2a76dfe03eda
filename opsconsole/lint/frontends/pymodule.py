"""Python modules of the tree under check: parsed on demand, with their imports, functions and constants.

Knows syntax, no prompts. The trap: a file is parsed only when its text may send a prompt or another file imports it, so
that a large tree costs little.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from opsconsole.lint.frontends.ir import Spot

MAYBE_PROMPT = re.compile(
    r"completions|messages|prompt|\brole\b|generate_content|converse|invoke|litellm|ChatPromptTemplate|SystemMessage|"
    r"instructions\s*=|system\s*=",
    re.I,
)


@dataclass(slots=True)
class Module:
    """One parsed file."""

    file: str
    text: str
    tree: ast.Module
    names: dict[str, ast.stmt] = field(default_factory=dict)  # top-level functions, classes
    constants: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    relative: dict[str, int] = field(default_factory=dict)
    seeds_random: bool = False
    _lines: list[str] | None = None
    _counted: frozenset[str] | None = None
    memo: dict[str, object] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def counted(self) -> frozenset[str]:
        """Names and `self.` attributes that a function of the file counts up or down by a number."""
        if self._counted is None:
            has_counter = re.search(r"[+-]=\s*\d", self.text) is not None
            self._counted = frozenset(_counters(self.tree)) if has_counter else frozenset()
        return self._counted

    def spot(self, node: ast.AST) -> Spot:
        """The place of a node, in characters."""
        line: int = getattr(node, "lineno", 1)
        col: int = getattr(node, "col_offset", 0)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if not text.isascii():
            col = len(text.encode()[:col].decode(errors="replace"))
        return Spot(self.file, line, col + 1)


def _counters(tree: ast.Module) -> set[str]:
    made: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        shared: set[str] = set()
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global):
                shared.update(inner.names)
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.value, ast.Constant):
                target, number = inner.target, inner.value.value
                if not isinstance(number, (int, float)):
                    continue
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    made.add(f"{target.value.id}.{target.attr}")
                elif isinstance(target, ast.Name) and target.id in shared:
                    made.add(target.id)
    return made


def parse(file: str, text: str) -> Module:
    """Parse a file and index its top level. Raises SyntaxError."""
    module = Module(file, text, ast.parse(text))
    _index(module, module.tree.body)
    return module


def _index(module: Module, body: list[ast.stmt]) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            module.names[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}".lstrip(".")
                module.relative[alias.asname or alias.name] = node.level
        elif isinstance(node, (ast.If, ast.Try)):
            _index(module, node.body)
            _index(module, node.orelse)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    module.constants.setdefault(target.id, []).append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value.func
            if isinstance(call, ast.Attribute) and call.attr == "seed":
                module.seeds_random = True


class Project:
    """The Python files of a run, by path; modules are parsed when first asked for."""

    def __init__(self, files: dict[str, Callable[[], str]]) -> None:
        self._files = files
        self._modules: dict[str, Module | None] = {}
        self._by_stem: dict[str, list[str]] = {}
        for file in sorted(files):
            path = PurePosixPath(file)
            stem = path.parent.name if path.stem == "__init__" else path.stem
            self._by_stem.setdefault(stem, []).append(file)
        self.errors: dict[str, SyntaxError] = {}

    def module(self, file: str, text: str | None = None) -> Module | None:
        """The module of a file, or None where it cannot be parsed."""
        if file not in self._modules:
            try:
                self._modules[file] = parse(file, self._files[file]() if text is None else text)
            except SyntaxError as error:
                self.errors[file] = error
                self._modules[file] = None
            except (ValueError, RecursionError) as error:
                self.errors[file] = SyntaxError(str(error))
                self._modules[file] = None
        return self._modules[file]

    def find(self, dotted: str, importer: str) -> Module | None:
        """The module a dotted name means, seen from a file: the candidate whose path ends like the name."""
        parts = [part for part in dotted.split(".") if part]
        if not parts:
            return None
        best: tuple[int, str] | None = None
        for file in self._by_stem.get(parts[-1], []):
            if file == importer:
                continue
            path = PurePosixPath(file)
            tail = list(path.with_suffix("").parts)
            if tail[-1] == "__init__":
                tail.pop()
            score = 0
            while score < min(len(parts), len(tail)) and tail[-1 - score] == parts[-1 - score]:
                score += 1
            near = len(_common(path.parts, PurePosixPath(importer).parts))
            if score == len(parts) or score == len(tail):
                rank = (score * 100 + near, file)
                best = max(best, rank) if best else rank
        return self.module(best[1]) if best else None


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> list[str]:
    made: list[str] = []
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        made.append(x)
    return made
