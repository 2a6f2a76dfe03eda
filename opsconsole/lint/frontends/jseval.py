"""Evaluates JavaScript and TypeScript expressions and statements to abstract values.

A smaller sibling of the Python evaluator over tree-sitter nodes. The trap: `new Date().toISOString()` is one
source at its whole expression.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from opsconsole.lint.frontends import names, volatile
from opsconsole.lint.frontends.ir import Spot
from opsconsole.lint.frontends.ir import Volatility as V
from opsconsole.lint.frontends.jsmodule import FUNCTIONS, JsModule, JsProject
from opsconsole.lint.frontends.values import (
    Callee,
    Dotted,
    Fields,
    Items,
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

MAX_DEPTH = 6
MAX_STEPS = 40_000
_DATE_SLICE = re.compile(
    r"\.(?:slice|substring|substr)\(0, ?10\)|\.split\(['\"]T['\"]\)\[0\]|toDateString|toLocaleDateString"
)


class Scope:
    """Names of one call."""

    def __init__(self, module: JsModule, depth: int = 0) -> None:
        self.module = module
        self.depth = depth
        self.env: dict[str, Any] = {}
        self.returned: Any = None
        self.loops: tuple[int, ...] = ()


class JsEvaluator:
    """Evaluates nodes; `on_call` sees every call with evaluated arguments."""

    def __init__(self, project: JsProject, on_call: Any) -> None:
        self.project = project
        self.on_call = on_call
        self.steps = 0

    def value(self, node: Any, scope: Scope) -> Any:
        """The value of an expression."""
        self.steps += 1
        if node is None or self.steps > MAX_STEPS:
            return Unknown()
        method = _METHODS.get(node.type)
        return method(self, node, scope) if method is not None else Unknown()

    def named(self, value: Any, scope: Scope) -> Any:
        """An outside name by what it suggests."""
        if isinstance(value, Dotted):
            last = value.name.rpartition(".")[2]
            if last.isupper() and len(last) > 1:
                return Stable()
            return from_meaning(names.meaning(last), scope.loops)
        return value

    def settle(self, node: Any, scope: Scope) -> Any:
        """The value of an expression, outside names judged by what they suggest."""
        return self.named(self.value(node, scope), scope)

    def _string(self, node: Any, scope: Scope) -> Any:
        return literal(scope.module.text(node)[1:-1].replace("\\n", "\n"))

    def _template(self, node: Any, scope: Scope) -> Any:
        made: list[tuple[Any, Spot]] = []
        last = node.start_byte + 1
        here = scope.module.spot(node)
        for child in node.named_children:
            if child.type != "template_substitution":
                continue
            made.append((literal(scope.module.source[last : child.start_byte].decode("utf-8", "replace")), here))
            inner = child.named_children[0] if child.named_children else None
            if inner is not None:
                made.append((self.settle(inner, scope), scope.module.spot(inner)))
            last = child.end_byte
        made.append((literal(scope.module.source[last : node.end_byte - 1].decode("utf-8", "replace")), here))
        return text_of(made)

    def _identifier(self, node: Any, scope: Scope) -> Any:
        return self.name(scope.module.text(node), scope.module, scope)

    def name(self, name: str, module: JsModule, scope: Scope | None) -> Any:
        """A local, module-level or imported name."""
        if scope is not None and name in scope.env:
            return scope.env[name]
        if name in module.functions:
            return Callee(module, module.functions[name])
        if name in module.changed and name in module.constants:
            return Tainted(V.TURN, "PX106", name, weak=True) if name in module.counted else Dotted(name)
        if name in module.constants:
            if name not in module.memo:
                module.memo[name] = Unknown()
                made = settled(self.settle(module.constants[name], Scope(module)))
                module.memo[name] = Stable() if isinstance(made, Unknown) and name.isupper() else made
            return module.memo[name]
        if name in module.imports:
            path, original = module.imports[name]
            other = self.project.find(path, module.file)
            if other is not None and (original in other.functions or original in other.constants):
                return self.name(original, other, None)
        return Dotted(name)

    def _member(self, node: Any, scope: Scope) -> Any:
        owner = node.child_by_field_name("object")
        name = scope.module.text(node.child_by_field_name("property"))
        if owner.type == "this" and name in scope.module.methods:
            return Callee(scope.module, scope.module.methods[name])
        base = self.value(owner, scope)
        if isinstance(base, Fields):
            return base.fields.get(name, Dotted(name))
        if isinstance(base, Tainted):
            return base
        return Dotted(f"{base.name}.{name}" if isinstance(base, Dotted) else f"?.{name}")

    def _subscript(self, node: Any, scope: Scope) -> Any:
        return self.settle(node.child_by_field_name("object"), scope)

    def _binary(self, node: Any, scope: Scope) -> Any:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        a, b = self.settle(left, scope), self.settle(right, scope)
        operator = scope.module.text(node.child_by_field_name("operator"))
        if operator == "+":
            if isinstance(a, Tainted) and isinstance(b, Unknown):
                return a
            return text_of([(a, scope.module.spot(left)), (b, scope.module.spot(right))])
        return worst(a, b)

    def _array(self, node: Any, scope: Scope) -> Any:
        made = Items()
        for child in node.named_children:
            if child.type == "spread_element":
                value = self.settle(child.named_children[0], scope)
                made.items += value.items if isinstance(value, Items) else [Spread(value)]
            elif child.type != "comment":
                value = self.settle(child, scope)
                if isinstance(value, Tainted) and value.at is None and not value.growing:
                    value = replace(value, at=scope.module.spot(child))
                made.items.append(value)
        return made

    def _object(self, node: Any, scope: Scope) -> Any:
        made = Fields({}, scope.module.spot(node))
        for child in node.named_children:
            if child.type == "pair":
                key = scope.module.text(child.child_by_field_name("key")).strip("'\"`")
                item = child.child_by_field_name("value")
                value = self.settle(item, scope)
                if isinstance(value, Tainted) and value.at is None:
                    value = replace(value, at=scope.module.spot(item))
                made.fields[key] = value
            elif child.type == "shorthand_property_identifier":
                key = scope.module.text(child)
                made.fields[key] = self.named(self.name(key, scope.module, scope), scope)
            elif child.type == "spread_element":
                value = self.value(child.named_children[0], scope)
                if isinstance(value, Fields):
                    made.fields.update(value.fields)
        return made

    def _ternary(self, node: Any, scope: Scope) -> Any:
        return worst(
            self.settle(node.child_by_field_name("consequence"), scope),
            self.settle(node.child_by_field_name("alternative"), scope),
        )

    def _inner(self, node: Any, scope: Scope) -> Any:
        return self.value(node.named_children[0], scope) if node.named_children else Unknown()

    def _new(self, node: Any, scope: Scope) -> Any:
        name = scope.module.text(node.child_by_field_name("constructor"))
        arguments = node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if name == "Date" and not given:
            return self._source(volatile.JAVASCRIPT["new Date"], scope)
        if name == "Date":
            return self.settle(given[0], scope)
        if name == "Set":
            return Unknown()  # insertion order in JavaScript
        return Unknown()

    def _source(self, found: volatile.Source, scope: Scope) -> Tainted:
        return Tainted(found.volatility, found.code, found.word, unordered=found.unordered, loops=scope.loops)

    def _call(self, node: Any, scope: Scope) -> Any:
        function = node.child_by_field_name("function")
        arguments_node = node.child_by_field_name("arguments")
        given = [child for child in (arguments_node.named_children if arguments_node is not None else [])]
        arguments = [
            self.settle(c.named_children[0] if c.type == "spread_element" else c, scope)
            for c in given
            if c.type not in FUNCTIONS
        ]
        if function.type == "member_expression":
            base = self.value(function.child_by_field_name("object"), scope)
            made = self._method(
                node, scope.module.text(function.child_by_field_name("property")), base, arguments, given, scope
            )
            if made is not None:
                return made
        target = self.value(function, scope)
        if isinstance(target, Callee):
            return self.inline(target, arguments, scope)
        dotted = target.name if isinstance(target, Dotted) else scope.module.text(function)
        if self.on_call(node, dotted, arguments, scope):
            return Unknown()
        if dotted.rpartition(".")[2] in ("String", "stringify", "trim", "from", "resolve"):
            return arguments[0] if arguments else Unknown()
        if dotted.rpartition(".")[2] in ("readFileSync", "readFile"):
            return Stable()
        found = volatile.source(dotted, volatile.JAVASCRIPT)
        if found is None:
            return Unknown()
        return self._source(found, scope)

    def _method(self, node: Any, name: str, base: Any, arguments: list[Any], given: list[Any], scope: Scope) -> Any:
        if isinstance(base, Items) and name in ("push", "unshift"):
            if name == "push":
                base.items += arguments
            else:
                base.items[:0] = arguments
            return Unknown()
        if isinstance(base, Items) and name == "concat":
            return Items([*base.items, *(Spread(item) for item in arguments)])
        if name == "join" and isinstance(base, (Items, Tainted)):
            spot = scope.module.spot(node)
            return text_of([(base, spot)])
        if isinstance(base, Tainted):
            if name in ("concat",):
                return Items([Spread(base), *(Spread(item) for item in arguments)])
            if name in ("map", "filter", "slice") and base.growing:
                return base
            if base.code == "PX101" and _DATE_SLICE.search(scope.module.text(node)):
                return replace(base, volatility=V.DAY, code="PX102", word="today's date")
            return base
        if isinstance(base, (Text, Stable)) and name in ("trim", "toLowerCase", "replace", "toString", "toUpperCase"):
            return base
        return None

    def inline(self, callee: Callee, arguments: list[Any], scope: Scope) -> Any:
        """Run a function of the project."""
        if scope.depth >= MAX_DEPTH:
            return Unknown()
        inner = Scope(callee.module, scope.depth + 1)
        inner.loops = scope.loops
        self.bind_parameters(callee.node, inner, arguments)
        body = callee.node.child_by_field_name("body")
        if body is not None and body.type != "statement_block":
            return self.settle(body, inner)
        self.run(body, inner)
        return inner.returned if inner.returned is not None else Unknown()

    def bind_parameters(self, node: Any, scope: Scope, arguments: list[Any]) -> None:
        """Bind parameters to arguments, else by what their names suggest."""
        given = node.child_by_field_name("parameters")
        items = given.named_children if given is not None else []
        if not items and node.child_by_field_name("parameter") is not None:
            items = [node.child_by_field_name("parameter")]
        for at, item in enumerate(items):
            pattern = item.child_by_field_name("pattern") or item.child_by_field_name("left") or item
            self.bind(pattern, arguments[at] if at < len(arguments) else None, scope)

    def bind(self, pattern: Any, value: Any, scope: Scope) -> None:
        """Assign a value to a name or a pattern."""
        if pattern.type == "identifier":
            name = scope.module.text(pattern)
            known = value is not None and not isinstance(value, Unknown)
            suggested = from_meaning(names.meaning(name), scope.loops)
            scope.env[name] = value if known else Dotted(name) if isinstance(suggested, Unknown) else suggested
        elif pattern.type in ("object_pattern", "array_pattern"):
            for child in pattern.named_children:
                inner = child.child_by_field_name("left") or child.child_by_field_name("value") or child
                key = scope.module.text(child.child_by_field_name("key") or inner)
                part = value.fields.get(key) if isinstance(value, Fields) else None
                if inner.type == "shorthand_property_identifier_pattern":
                    scope.env[key] = part if part is not None else from_meaning(names.meaning(key), scope.loops)
                else:
                    self.bind(inner, part, scope)

    def run(self, node: Any, scope: Scope) -> None:
        """Run a statement or block."""
        from opsconsole.lint.frontends.jsstatements import run

        run(self, node, scope)


_METHODS: dict[str, Any] = {
    "string": JsEvaluator._string,
    "template_string": JsEvaluator._template,
    "identifier": JsEvaluator._identifier,
    "member_expression": JsEvaluator._member,
    "subscript_expression": JsEvaluator._subscript,
    "binary_expression": JsEvaluator._binary,
    "array": JsEvaluator._array,
    "object": JsEvaluator._object,
    "ternary_expression": JsEvaluator._ternary,
    "parenthesized_expression": JsEvaluator._inner,
    "await_expression": JsEvaluator._inner,
    "as_expression": JsEvaluator._inner,
    "satisfies_expression": JsEvaluator._inner,
    "non_null_expression": JsEvaluator._inner,
    "new_expression": JsEvaluator._new,
    "call_expression": JsEvaluator._call,
}
