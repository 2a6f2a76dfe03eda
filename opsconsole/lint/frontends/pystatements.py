"""Runs Python statements over abstract values: assignments, branches, loops, appends.

One pass in source order. The trap: both branches of an `if` run on copies, and the value that changes more often wins;
joining them as text would make stable text appear behind a hole.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends import names, pycalls
from opsconsole.lint.frontends.pymodule import Module
from opsconsole.lint.frontends.values import (
    Callee,
    Dotted,
    Fields,
    Items,
    Stable,
    Tainted,
    Text,
    Unknown,
    fork,
    from_meaning,
    text_of,
    worst,
)

if TYPE_CHECKING:
    from opsconsole.lint.frontends.pyeval import Evaluator


class Frame:
    """Names of one call, the module it runs in, and the loops around the current statement."""

    def __init__(self, module: Module, owner: ast.ClassDef | None = None, depth: int = 0) -> None:
        self.module = module
        self.owner = owner
        self.depth = depth
        self.env: dict[str, Any] = {}
        self.returned: Any = None
        self.loops: tuple[int, ...] = ()
        self.parent: Frame | None = None
        self.seeded = module.seeds_random

    def lookup(self, name: str) -> Any:
        """A local value, or None."""
        found = self.env.get(name)
        if found is None and self.parent is not None:
            return self.parent.lookup(name)
        return found

    def child(self) -> Frame:
        """A nested scope (comprehension, lambda)."""
        made = Frame(self.module, self.owner, self.depth)
        made.parent, made.loops, made.seeded = self, self.loops, self.seeded
        return made

    def bind(self, target: ast.expr, value: Any) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for at, item in enumerate(target.elts):
                part = value.items[at] if isinstance(value, Items) and at < len(value.items) else None
                if part is None and isinstance(value, Tainted):
                    part = value
                self.bind(item, part if part is not None else _suggested(item, self.loops))
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)


def _suggested(target: ast.expr, loops: tuple[int, ...]) -> Any:
    return from_meaning(names.meaning(target.id), loops) if isinstance(target, ast.Name) else Unknown()


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    """Bind parameters by what their names suggest; `self` stays a name."""
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        name = argument.arg
        if name in ("self", "cls"):
            frame.env[name] = Dotted(name)
            continue
        made = from_meaning(names.meaning(name), frame.loops)
        frame.env[name] = Dotted(name) if isinstance(made, Unknown) else made


def run(evaluator: Evaluator, body: list[ast.stmt], frame: Frame) -> None:
    """Run statements in order."""
    for node in body:
        method = _STATEMENTS.get(type(node))
        if method is not None:
            method(evaluator, node, frame)


def _assign(evaluator: Evaluator, node: ast.Assign, frame: Frame) -> None:
    value = evaluator.named(evaluator.value(node.value, frame), frame.loops)
    for target in node.targets:
        _store(evaluator, target, value, frame)


def _store(evaluator: Evaluator, target: ast.expr, value: Any, frame: Frame) -> None:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        base = evaluator.value(target.value, frame)
        key = target.slice.value
        if isinstance(base, Fields):
            base.fields[str(key)] = value
        elif isinstance(base, Items) and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            base.items[key] = value
        return
    if isinstance(value, Unknown) and isinstance(target, ast.Name):
        value = from_meaning(names.meaning(target.id), frame.loops) if not target.id.isupper() else Stable()
        value = Unknown() if isinstance(value, Tainted) and value.code not in ("PX107",) else value
    frame.bind(target, value)


def _annotated(evaluator: Evaluator, node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        _store(evaluator, node.target, evaluator.named(evaluator.value(node.value, frame), frame.loops), frame)


def _augmented(evaluator: Evaluator, node: ast.AugAssign, frame: Frame) -> None:
    if not isinstance(node.target, ast.Name) or not isinstance(node.op, ast.Add):
        return
    old = frame.lookup(node.target.id)
    new = evaluator.named(evaluator.value(node.value, frame), frame.loops)
    if isinstance(old, Items):
        old.items += new.items if isinstance(new, Items) else [new]
    elif isinstance(old, (Text, Tainted, Stable)):
        made = text_of([(old, frame.module.spot(node)), (new, frame.module.spot(node.value))])
        frame.env[node.target.id] = made if isinstance(old, Text) or isinstance(new, Text) else old


def _branch(evaluator: Evaluator, node: ast.If, frame: Frame) -> None:
    evaluator.value(node.test, frame)
    before = frame.env
    frame.env = {name: fork(value) for name, value in before.items()}
    run(evaluator, node.body, frame)
    first, frame.env = frame.env, {name: fork(value) for name, value in before.items()}
    run(evaluator, node.orelse, frame)
    second = frame.env
    merged = dict(second)
    for name, value in first.items():
        merged[name] = worst(value, second[name]) if name in second else value
    before.clear()
    before.update(merged)
    frame.env = before


def _match(evaluator: Evaluator, node: ast.Match, frame: Frame) -> None:
    evaluator.value(node.subject, frame)
    before = frame.env
    merged: dict[str, Any] = {name: fork(value) for name, value in before.items()}
    for case in node.cases:
        frame.env = {name: fork(value) for name, value in before.items()}
        run(evaluator, case.body, frame)
        for name, value in frame.env.items():
            merged[name] = worst(value, merged[name]) if name in merged else value
    before.clear()
    before.update(merged)
    frame.env = before


def _loop(evaluator: Evaluator, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    iterable = evaluator.named(evaluator.value(node.iter, frame), frame.loops)
    outer = frame.loops
    frame.loops = (*outer, node.lineno * 1000 + node.col_offset)
    if isinstance(iterable, Tainted) and iterable.at is None and iterable.unordered:
        from dataclasses import replace

        iterable = replace(iterable, at=frame.module.spot(node.iter))
    frame.bind(node.target, pycalls.element(iterable))
    run(evaluator, node.body, frame)
    frame.loops = outer
    run(evaluator, node.orelse, frame)


def _while(evaluator: Evaluator, node: ast.While, frame: Frame) -> None:
    outer = frame.loops
    frame.loops = (*outer, node.lineno * 1000 + node.col_offset)
    evaluator.value(node.test, frame)
    run(evaluator, node.body, frame)
    frame.loops = outer


def _with(evaluator: Evaluator, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
    for item in node.items:
        value = evaluator.value(item.context_expr, frame)
        if item.optional_vars is not None:
            frame.bind(item.optional_vars, value)
    run(evaluator, node.body, frame)


def _try(evaluator: Evaluator, node: ast.Try, frame: Frame) -> None:
    run(evaluator, node.body, frame)
    for handler in node.handlers:
        run(evaluator, handler.body, frame)
    run(evaluator, node.orelse, frame)
    run(evaluator, node.finalbody, frame)


def _return(evaluator: Evaluator, node: ast.Return, frame: Frame) -> None:
    value = evaluator.named(evaluator.value(node.value, frame), frame.loops)
    frame.returned = value if frame.returned is None else worst(frame.returned, value)


def _expression(evaluator: Evaluator, node: ast.Expr, frame: Frame) -> None:
    value = node.value
    if isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await)) and isinstance(value.value, ast.expr):
        value = value.value
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and pycalls.mutate(evaluator, value, frame)
    ):
        return
    evaluator.value(value, frame)


def _function(evaluator: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    frame.env[node.name] = Callee(frame.module, node, frame.owner)


_STATEMENTS: dict[type, Any] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _branch,
    ast.Match: _match,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
}
