"""Evaluates Python expressions to abstract values: what text they make and which parts of it change.

Statements and sinks are its siblings' work. The trap: evaluation follows calls into the project, so depth and steps are
bounded and what lies beyond is unknown, never volatile.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends import names, pycalls, pytext, volatile
from opsconsole.lint.frontends.ir import Spot
from opsconsole.lint.frontends.ir import Volatility as V
from opsconsole.lint.frontends.pymodule import Module, Project
from opsconsole.lint.frontends.values import (
    Callee,
    Dotted,
    Fields,
    Items,
    Seeded,
    Spread,
    Stable,
    Tainted,
    Text,
    Unknown,
    from_meaning,
    literal,
    settled,
    text_of,
    worst,
)

if TYPE_CHECKING:
    from opsconsole.lint.frontends.pystatements import Frame

MAX_DEPTH = 7
MAX_STEPS = 60_000


class Evaluator:
    """Evaluates expressions in frames; `on_call` sees every call with its evaluated arguments."""

    def __init__(self, project: Project, on_call: Any, extra_sources: dict[str, volatile.Source] | None = None) -> None:
        self.project = project
        self.on_call = on_call
        self.sources = volatile.PYTHON
        self.extra_sources = extra_sources or {}
        self.steps = 0
        self.templates: dict[str, str] = {}

    def value(self, node: ast.expr | None, frame: Frame) -> Any:
        """The value of an expression."""
        self.steps += 1
        if node is None or self.steps > MAX_STEPS:
            return Unknown()
        method = _METHODS.get(type(node))
        return method(self, node, frame) if method is not None else Unknown()

    def _constant(self, node: ast.Constant, frame: Frame) -> Any:
        return literal(node.value) if isinstance(node.value, str) else literal(str(node.value))

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        found = frame.lookup(node.id)
        if found is not None:
            return found
        return self.global_name(node.id, frame.module)

    def global_name(self, name: str, module: Module) -> Any:
        """A name of a module: its constant (made once), function, import, or what the name suggests."""
        if name in module.names:
            return Callee(module, module.names[name])
        if name in module.constants and name in module.counted:
            return Tainted(V.TURN, "PX106", name, weak=True)
        if name in module.constants:
            return self._module_constant(name, module)
        if name in module.imports:
            return self._imported(name, module)
        if name.isupper() and len(name) > 1:
            return Stable()
        return Dotted(name)

    def _module_constant(self, name: str, module: Module) -> Any:
        known = module.memo.get(name)
        if known is not None:
            return known
        module.memo[name] = Unknown()
        from opsconsole.lint.frontends.pystatements import Frame, run

        frame = Frame(module)
        run(self, module.constants[name], frame)
        made = settled(frame.env.get(name, Unknown()))
        if isinstance(made, (Unknown, Dotted)) and name.isupper():
            made = Stable()
        module.memo[name] = made
        return made

    def _imported(self, name: str, module: Module) -> Any:
        dotted = module.imports[name]
        whole = self.project.find(dotted, module.file)
        if whole is not None:
            return Dotted(dotted, whole)
        head, _, last = dotted.rpartition(".")
        other = self.project.find(head, module.file) if head else None
        if other is not None and (last in other.names or last in other.constants or last in other.imports):
            return self.global_name(last, other)
        if last.isupper() and len(last) > 1:
            return Stable()
        return Dotted(dotted)

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        base = self.value(node.value, frame)
        if isinstance(base, Dotted):
            if isinstance(base.base, Module):
                return self.global_name(node.attr, base.base)
            if isinstance(base.base, Callee) and isinstance(base.base.node, ast.ClassDef):
                return self._of_class(node.attr, base.base, frame)
            made = Dotted(f"{base.name}.{node.attr}", base.base)
            if base.name in ("self", "cls") and frame.owner is not None:
                return self._member(node.attr, frame, made)
            return made
        if isinstance(base, Tainted):
            return base
        if isinstance(base, Fields):
            return base.fields.get(node.attr, Dotted(node.attr, base))
        if isinstance(base, Seeded):
            return base
        if isinstance(base, Callee) and isinstance(base.node, ast.ClassDef):
            return self._of_class(node.attr, base, frame)
        return Dotted(f"?.{node.attr}", base)

    def _of_class(self, name: str, made_of: Callee, frame: Frame) -> Any:
        """A method or attribute of a class of the project."""
        inner = frame.child()
        inner.module, inner.owner = made_of.module, made_of.node
        return self._member(name, inner, Dotted(f"{made_of.node.name}.{name}"))

    def _member(self, name: str, frame: Frame, otherwise: Dotted) -> Any:
        for node in frame.owner.body if frame.owner is not None else []:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                found = Callee(frame.module, node, frame.owner)
                is_property = any(
                    isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in node.decorator_list
                )
                return pycalls.inline(self, found, [], {}, frame) if is_property else found
        if f"self.{name}" in frame.module.counted:
            return Tainted(V.TURN, "PX106", name, weak=True, loops=frame.loops)
        made = pycalls.instance_attribute(self, name, frame)
        return otherwise if made is None else made

    def named(self, value: Any, loops: tuple[int, ...]) -> Any:
        """A name of the outside world as a value, by what it suggests."""
        if isinstance(value, Dotted) and not isinstance(value.base, (Module, Callee)):
            last = value.name.rpartition(".")[2]
            if last.isupper() and len(last) > 1:
                return Stable()
            return from_meaning(names.meaning(last), loops)
        return value

    def _joined(self, node: ast.JoinedStr, frame: Frame) -> Any:
        values: list[tuple[Any, Spot]] = []
        places = None
        index = 0
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                made = self.named(self.value(part.value, frame), frame.loops)
                if isinstance(made, Tainted) and part.format_spec is not None and made.code == "PX101":
                    made = self._formatted(made, pytext.constant_text(part.format_spec))
                if places is None and isinstance(made, (Tainted, Unknown)):
                    places = pytext.fields(node, frame.module)
                spot = places[index] if places and index < len(places) else frame.module.spot(part.value)
                values.append((made, spot))
                index += 1
            else:
                values.append((self.value(part, frame), frame.module.spot(node)))
        return text_of(values)

    def _formatted(self, made: Tainted, fmt: str | None) -> Tainted:
        found = volatile.format_source(volatile.Source(made.volatility, made.code, made.word), fmt)
        return replace(made, volatility=found.volatility, code=found.code, word=found.word)

    def _binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left = self.named(self.value(node.left, frame), frame.loops)
        right = self.named(self.value(node.right, frame), frame.loops)
        if isinstance(node.op, ast.Add):
            return self._add(node, left, right, frame)
        if isinstance(node.op, ast.Mod) and isinstance(left, Text):
            return pytext.percent(self, node, left, frame)
        for side in (left, right):
            if isinstance(side, Tainted):
                return side
        if isinstance(node.op, ast.Mult) and isinstance(left, Text):
            times = node.right.value if isinstance(node.right, ast.Constant) else None
            if left.plain is not None and isinstance(times, int) and len(left.plain) * times < 100_000:
                return literal(left.plain * times)
            return Stable() if left.pieces else left
        return Unknown()

    def _add(self, node: ast.BinOp, left: Any, right: Any, frame: Frame) -> Any:
        spots = frame.module.spot(node.left), frame.module.spot(node.right)
        lists = (Items,)
        if isinstance(left, lists) or isinstance(right, lists):
            a = left.items if isinstance(left, Items) else [Spread(left)]
            b = right.items if isinstance(right, Items) else [Spread(right)]
            return Items([*a, *b])
        if any(isinstance(side, Tainted) and side.growing for side in (left, right)) and not any(
            isinstance(side, Text) for side in (left, right)
        ):
            return Items([Spread(left), Spread(right)])
        if isinstance(left, Tainted) and isinstance(right, (Tainted, Unknown)) and left.code == "PX101":
            return left
        return text_of([(left, spots[0]), (right, spots[1])])

    def _list(self, node: ast.List | ast.Tuple, frame: Frame) -> Any:
        made = Items()
        for item in node.elts:
            if isinstance(item, ast.Starred):
                value = self.named(self.value(item.value, frame), frame.loops)
                made.items += value.items if isinstance(value, Items) else [Spread(value)]
            else:
                value = self.named(self.value(item, frame), frame.loops)
                if isinstance(value, Tainted) and value.at is None and not value.growing:
                    value = replace(value, at=frame.module.spot(item))
                made.items.append(value)
        return made

    def _set(self, node: ast.expr, frame: Frame) -> Any:
        return Tainted(V.REQUEST, "PX203", "the order of a set", unordered=True, loops=frame.loops)

    def _dict(self, node: ast.Dict, frame: Frame) -> Any:
        made = Fields({}, frame.module.spot(node))
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.named(self.value(item, frame), frame.loops)
            if isinstance(key, ast.Constant):
                value = (
                    value if not isinstance(value, Tainted) or value.at else replace(value, at=frame.module.spot(item))
                )
                made.fields[str(key.value)] = value
            elif key is None and isinstance(value, Fields):
                made.fields.update(value.fields)
        return made

    def _choice(self, node: ast.IfExp, frame: Frame) -> Any:
        return worst(
            self.named(self.value(node.body, frame), frame.loops),
            self.named(self.value(node.orelse, frame), frame.loops),
        )

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        made = [self.named(self.value(item, frame), frame.loops) for item in node.values]
        best = made[0]
        for item in made[1:]:
            best = worst(best, item)
        return best

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        base = self.named(self.value(node.value, frame), frame.loops)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(base, Fields) and isinstance(key, str):
            return base.fields.get(key, from_meaning(names.meaning(key), frame.loops))
        if isinstance(base, Items) and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            return base.items[key]
        if isinstance(base, (Tainted, Stable, Items)):
            return base
        return from_meaning(names.meaning(key), frame.loops) if isinstance(key, str) else Unknown()

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, frame: Frame) -> Any:
        inner = frame.child()
        first: Any = Unknown()
        for at, part in enumerate(node.generators):
            iterable = self.named(self.value(part.iter, inner), frame.loops)
            if isinstance(iterable, Tainted) and iterable.at is None:
                iterable = replace(iterable, at=frame.module.spot(part.iter))
            first = iterable if at == 0 else first
            inner.bind(part.target, pycalls.element(iterable))
        if isinstance(first, Items) and len(node.generators) == 1 and first.items:
            made = Items()
            for item in first.items[:50]:
                inner.bind(node.generators[0].target, item)
                made.items.append(self.named(self.value(node.elt, inner), frame.loops))
            return made
        element = self.named(self.value(node.elt, inner), frame.loops)
        if isinstance(first, Tainted) and (first.unordered or first.growing):
            return first
        return Items([element])

    def _await(self, node: ast.Await, frame: Frame) -> Any:
        return self.value(node.value, frame)

    def _named_expr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        made = self.value(node.value, frame)
        frame.bind(node.target, made)
        return made

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        return pycalls.call(self, node, frame)

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return self.value(node.body, frame.child())


_METHODS: dict[type, Any] = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.JoinedStr: Evaluator._joined,
    ast.BinOp: Evaluator._binop,
    ast.List: Evaluator._list,
    ast.Tuple: Evaluator._list,
    ast.Set: Evaluator._set,
    ast.SetComp: Evaluator._set,
    ast.Dict: Evaluator._dict,
    ast.IfExp: Evaluator._choice,
    ast.BoolOp: Evaluator._boolop,
    ast.Subscript: Evaluator._subscript,
    ast.ListComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.Await: Evaluator._await,
    ast.NamedExpr: Evaluator._named_expr,
    ast.Call: Evaluator._call,
    ast.Lambda: Evaluator._lambda,
}
