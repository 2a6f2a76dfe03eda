"""Runs JavaScript and TypeScript statements over abstract values, in source order.

A sibling of the Python statements. The trap: after an `if`, the value that changes more often wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends.jsmodule import FUNCTIONS
from opsconsole.lint.frontends.values import Callee, Items, Unknown, fork, literal, text_of, worst

if TYPE_CHECKING:
    from opsconsole.lint.frontends.jseval import JsEvaluator, Scope


def run(evaluator: JsEvaluator, node: Any, scope: Scope) -> None:
    """Run a statement or block."""
    if node is None:
        return
    kind = node.type
    if kind in ("lexical_declaration", "variable_declaration"):
        for item in node.named_children:
            target, value = item.child_by_field_name("name"), item.child_by_field_name("value")
            if target is not None and value is not None:
                made = Callee(scope.module, value) if value.type in FUNCTIONS else evaluator.settle(value, scope)
                evaluator.bind(target, made, scope)
    elif kind == "return_statement":
        value = evaluator.settle(node.named_children[0], scope) if node.named_children else Unknown()
        scope.returned = value if scope.returned is None else worst(scope.returned, value)
    elif kind == "expression_statement":
        _expression(evaluator, node.named_children[0], scope)
    elif kind == "if_statement":
        _branch(evaluator, node, scope)
    elif kind in ("for_statement", "for_in_statement", "while_statement", "do_statement"):
        _loop(evaluator, node, scope)
    elif kind in FUNCTIONS:
        name = node.child_by_field_name("name")
        if name is not None:
            scope.env[scope.module.text(name)] = Callee(scope.module, node)
    elif kind in (
        "statement_block",
        "try_statement",
        "catch_clause",
        "finally_clause",
        "else_clause",
        "program",
        "export_statement",
    ):
        for child in node.named_children:
            run(evaluator, child, scope)


def _expression(evaluator: JsEvaluator, node: Any, scope: Scope) -> None:
    if node.type in ("assignment_expression", "augmented_assignment_expression"):
        target = node.child_by_field_name("left")
        value = evaluator.settle(node.child_by_field_name("right"), scope)
        if target.type == "identifier":
            name = scope.module.text(target)
            if node.type.startswith("augmented"):
                if name not in scope.env and name in scope.module.counted:
                    return
                value = text_of(
                    [
                        (scope.env.get(name, literal("")), scope.module.spot(target)),
                        (value, scope.module.spot(node.child_by_field_name("right"))),
                    ]
                )
            scope.env[name] = value
        return
    evaluator.value(node, scope)


def _branch(evaluator: JsEvaluator, node: Any, scope: Scope) -> None:
    before = {name: fork(value) for name, value in scope.env.items()}
    run(evaluator, node.child_by_field_name("consequence"), scope)
    first, scope.env = scope.env, before
    run(evaluator, node.child_by_field_name("alternative"), scope)
    for name, value in first.items():
        scope.env[name] = worst(value, scope.env[name]) if name in scope.env else value


def _loop(evaluator: JsEvaluator, node: Any, scope: Scope) -> None:
    outer = scope.loops
    scope.loops = (*outer, int(node.start_byte))
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        value = evaluator.settle(right, scope)
        evaluator.bind(left, value.items[0] if isinstance(value, Items) and value.items else value, scope)
    run(evaluator, node.child_by_field_name("body"), scope)
    scope.loops = outer
