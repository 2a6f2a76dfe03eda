"""JavaScript and TypeScript modules: syntax trees by tree-sitter, with their functions, constants and relative imports.

Knows syntax, no prompts. The trap: tree-sitter counts columns in bytes; places are given in characters.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from opsconsole.lint.frontends.ir import Spot

SUFFIXES = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts")
MAYBE_PROMPT = re.compile(r"messages|prompt|\brole\b|system|instructions|completions|generateText|streamText", re.I)
FUNCTIONS = (
    "function_declaration",
    "arrow_function",
    "function_expression",
    "method_definition",
    "generator_function_declaration",
)


@cache
def parser(kind: str) -> Any:
    """The parser of a language."""
    from tree_sitter import Language, Parser

    if kind == "js":
        import tree_sitter_javascript

        return Parser(Language(tree_sitter_javascript.language()))
    import tree_sitter_typescript

    make = tree_sitter_typescript.language_tsx if kind == "tsx" else tree_sitter_typescript.language_typescript
    return Parser(Language(make()))


@dataclass(slots=True)
class JsModule:
    """One parsed file."""

    file: str
    source: bytes
    root: Any
    functions: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)  # of the file's classes, by name; the first one wins
    constants: dict[str, Any] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()  # names of module level that some function assigns anew
    counted: frozenset[str] = frozenset()  # those of them it counts up or down
    memo: dict[str, Any] = field(default_factory=dict)

    def text(self, node: Any) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def spot(self, node: Any) -> Spot:
        """The place of a node, in characters."""
        row, col = node.start_point
        start = node.start_byte - col
        return Spot(self.file, row + 1, len(self.source[start : node.start_byte].decode("utf-8", "replace")) + 1)


def parse(file: str, text: str) -> JsModule:
    """Parse a file and index its top level; broken parts of the source are skipped."""
    kind = "tsx" if file.endswith(".tsx") else "ts" if file.endswith((".ts", ".mts", ".cts")) else "js"
    source = text.encode()
    module = JsModule(file, source, parser(kind).parse(source).root_node)
    for node in module.root.named_children:
        _index(module, node.named_children[-1] if node.type == "export_statement" and node.named_children else node)
        if node.type == "import_statement":
            _imports(module, node)
    if b"let " in source or b"var " in source:
        _changes(module)
    return module


def _changes(module: JsModule) -> None:
    """Note which names functions count up or assign: what those hold is not made once."""
    changed: set[str] = set()
    counted: set[str] = set()
    stack = [(module.root, False)]
    while stack:
        node, inside = stack.pop()
        target = None
        if inside and node.type in ("assignment_expression", "augmented_assignment_expression"):
            target = node.child_by_field_name("left")
        elif inside and node.type == "update_expression":
            target = node.child_by_field_name("argument")
        if target is not None and target.type == "identifier":
            name = module.text(target)
            changed.add(name)
            right = node.child_by_field_name("right")
            if right is None or (node.type.startswith("augmented") and right.type == "number"):
                counted.add(name)
        stack += [(child, inside or node.type in FUNCTIONS) for child in node.named_children]
    module.changed, module.counted = frozenset(changed), frozenset(counted)


def _index(module: JsModule, node: Any) -> None:
    name = node.child_by_field_name("name")
    if node.type == "class_declaration":
        for method in _all(node, "method_definition"):
            module.methods.setdefault(module.text(method.child_by_field_name("name")), method)
    elif node.type in FUNCTIONS and name is not None:
        module.functions[module.text(name)] = node
    elif node.type in ("lexical_declaration", "variable_declaration"):
        for item in node.named_children:
            target, value = item.child_by_field_name("name"), item.child_by_field_name("value")
            if target is None or value is None:
                continue
            if value.type in FUNCTIONS:
                module.functions[module.text(target)] = value
            else:
                module.constants[module.text(target)] = value


def _imports(module: JsModule, node: Any) -> None:
    source = node.child_by_field_name("source")
    path = module.text(source).strip("'\"`") if source is not None else ""
    for spec in _all(node, "import_specifier"):
        name, alias = spec.child_by_field_name("name"), spec.child_by_field_name("alias")
        if name is not None:
            module.imports[module.text(alias or name)] = (path, module.text(name))
    for clause in _all(node, "import_clause"):
        for child in clause.named_children:
            if child.type == "identifier":
                module.imports[module.text(child)] = (path, "default")


def _all(node: Any, kind: str) -> list[Any]:
    made = [node] if node.type == kind else []
    for child in node.named_children:
        made += _all(child, kind)
    return made


class JsProject:
    """The JS and TS files of a run, parsed on demand."""

    def __init__(self, files: dict[str, Callable[[], str]]) -> None:
        self._files = files
        self._modules: dict[str, JsModule] = {}

    def module(self, file: str, text: str | None = None) -> JsModule:
        if file not in self._modules:
            self._modules[file] = parse(file, self._files[file]() if text is None else text)
        return self._modules[file]

    def find(self, path: str, importer: str) -> JsModule | None:
        """The module of a relative import, or None."""
        if not path.startswith("."):
            return None
        base = posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))
        stem = re.sub(r"\.(?:js|mjs|cjs|ts|tsx|jsx)$", "", base)
        for name in (base, *(stem + suffix for suffix in SUFFIXES), *(f"{base}/index{suffix}" for suffix in SUFFIXES)):
            if name in self._files:
                return self.module(name)
        return None
