"""Calls in Python: into the project, to known sources of change, and to the methods that make and order text.

Sinks are handed to the evaluator's `on_call`. The trap: a call into the project comes before the tables,
and what a cached function returns is made once.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opsconsole.lint.frontends import names, pytext, volatile
from opsconsole.lint.frontends.ir import Volatility as V
from opsconsole.lint.frontends.names import words
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
)

if TYPE_CHECKING:
    from opsconsole.lint.frontends.pyeval import Evaluator
    from opsconsole.lint.frontends.pystatements import Frame

MAX_DEPTH = 7
_CACHED = {"cache", "lru_cache", "cached", "memoize", "cached_property", "once"}
_ROLES = {
    "SystemMessage": "system",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "UserMessage": "user",
    "AssistantMessage": "assistant",
    "SystemMessagePromptTemplate": "system",
    "HumanMessagePromptTemplate": "user",
}
_SAME = words(
    "strip lstrip rstrip lower upper title encode decode replace isoformat copy astimezone timestamp "
    "split splitlines text json dedent hex ctime to_dict model_dump expandtabs removeprefix removesuffix "
    "format_map "
)
_WRAPPERS = words(
    "str repr list tuple int float round iter reversed dict enumerate dedent indent dumps cast escape "
    "quote Path format deepcopy copy "
)
_ORDERING = {"sorted", "natsorted"}
_SETS = {"set", "frozenset"}


def call(evaluator: Evaluator, node: ast.Call, frame: Frame) -> Any:
    """The value a call returns."""
    base = None
    func = node.func
    if isinstance(func, ast.Attribute):
        base = evaluator.value(func.value, frame)
        if isinstance(base, Dotted) and base.base is None:
            seen = evaluator.named(base, frame.loops)
            if isinstance(seen, Tainted) and func.attr in ("strftime", "isoformat", "date"):
                base = seen
        made = _method(evaluator, node, func.attr, base, frame)
        if made is not None:
            return made
    target = evaluator.value(func, frame)
    arguments = [evaluator.named(evaluator.value(_bare(item), frame), frame.loops) for item in node.args]
    keywords = {
        word.arg: evaluator.named(evaluator.value(word.value, frame), frame.loops) for word in node.keywords if word.arg
    }
    for word in node.keywords:
        if word.arg is None:
            spread = evaluator.value(word.value, frame)
            if isinstance(spread, Fields):
                keywords.update(spread.fields)
    if isinstance(target, Callee):
        if isinstance(target.node, ast.ClassDef):
            return Dotted(target.node.name, target)
        return inline(evaluator, target, arguments, keywords, frame)
    dotted = target.name if isinstance(target, Dotted) else _written(func)
    special = evaluator.on_call(node, dotted, arguments, keywords, frame)
    if special is not None:
        return special
    return _outside(evaluator, node, dotted, arguments, keywords, frame)


def _bare(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def _written(func: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(func, ast.Attribute):
        parts.append(func.attr)
        func = func.value
    parts.append(func.id if isinstance(func, ast.Name) else "?")
    return ".".join(reversed(parts))


def _outside(
    evaluator: Evaluator, node: ast.Call, dotted: str, arguments: list[Any], keywords: dict[str, Any], frame: Frame
) -> Any:
    last = dotted.rpartition(".")[2]
    first = arguments[0] if arguments else Unknown()
    if last in _SETS or (last in ("union", "intersection", "difference") and not isinstance(first, Text)):
        return Tainted(V.REQUEST, "PX203", "the order of a set", unordered=True, loops=frame.loops)
    if last in _ORDERING:
        return _ordered(first)
    if dotted == "dict" and keywords:
        known = dict(first.fields) if isinstance(first, Fields) else {}
        return Fields({**known, **keywords}, frame.module.spot(node))
    if last == "len":
        counted = isinstance(first, Tainted) and first.volatility >= V.SESSION and not first.unordered
        return Tainted(V.TURN, "PX106", "a count", weak=True, loops=frame.loops) if counted else Unknown()
    if last in _ROLES:
        content = keywords.get("content", keywords.get("template", first))
        return Fields({"role": literal(_ROLES[last]), "content": content}, frame.module.spot(node))
    if last == "Random" and arguments and not isinstance(first, Tainted):
        return Seeded()
    if last in ("open", "read_text", "read", "get_data", "load_prompt", "read_bytes", "getenv", "files"):
        return Stable()
    if last in _WRAPPERS or dotted.endswith(("json.dumps", "textwrap.dedent")):
        return first if not isinstance(first, Dotted) else Unknown()
    found = evaluator.extra_sources.get(dotted) or evaluator.extra_sources.get(last)
    found = found or volatile.source(dotted, evaluator.sources)
    if found is not None:
        if frame.seeded and dotted.startswith(("random.", "np.random", "numpy.random")):
            return Stable()
        fmt = arguments[0].plain if last == "strftime" and arguments and isinstance(first, Text) else None
        return tainted(volatile.format_source(found, fmt), frame)
    return Unknown()


def tainted(found: volatile.Source, frame: Frame) -> Tainted:
    """A source's value, made in the loops of a frame."""
    return Tainted(found.volatility, found.code, found.word, unordered=found.unordered, loops=frame.loops)


def _ordered(value: Any) -> Any:
    if isinstance(value, Tainted) and value.unordered:
        return Stable() if value.code == "PX203" else replace(value, unordered=False)
    return value


def element(iterable: Any) -> Any:
    """What a loop variable stands for."""
    if isinstance(iterable, Items):
        return iterable.items[0] if iterable.items else Unknown()
    return iterable


def _method(evaluator: Evaluator, node: ast.Call, name: str, base: Any, frame: Frame) -> Any:
    """Methods of text, dates, sets and generators; None where the call is another kind."""
    if isinstance(base, Seeded):
        return Stable()
    if name == "join" and isinstance(base, Text) and node.args:
        return _join(evaluator, node, frame)
    if name in ("format", "format_map") and isinstance(base, Text):
        return pytext.format_call(evaluator, node, base, frame)
    if isinstance(base, Text) and name in ("substitute", "safe_substitute", "render"):
        return pytext.fill(evaluator, node, base, name, frame)
    if isinstance(base, Text):
        return base if name in _SAME else None
    if isinstance(base, Stable):
        return (
            Stable()
            if name
            in _SAME | {"read", "read_text", "format", "get", "substitute", "render", "choice", "items", "values"}
            else None
        )
    if isinstance(base, Tainted):
        return _of_tainted(evaluator, node, name, base, frame)
    if isinstance(base, Fields) and name == "get" and node.args and isinstance(node.args[0], ast.Constant):
        return base.fields.get(str(node.args[0].value), Unknown())
    return None


def _of_tainted(evaluator: Evaluator, node: ast.Call, name: str, base: Tainted, frame: Frame) -> Any:
    if base.code == "PX101" and not base.unordered:
        if name == "date" or (name == "replace" and any(word.arg == "hour" for word in node.keywords)):
            return replace(base, volatility=V.DAY, code="PX102", word="today's date")
        if name in ("strftime", "format") and node.args:
            fmt = pytext.constant_text(node.args[0])
            made = volatile.format_source(volatile.Source(base.volatility, base.code, base.word), fmt)
            return replace(base, volatility=made.volatility, code=made.code, word=made.word)
        return base
    found: volatile.Source | None = volatile.source(f"?.{name}", {})
    if (
        found is None
        and base.code in ("PX107", "PX109", "PX104")
        and name in ("search", "query", "get", "invoke", "retrieve")
    ):
        found = volatile.Source(V.TURN, "PX107", "retrieved text")
    return tainted(found, frame) if found is not None else base


def _join(evaluator: Evaluator, node: ast.Call, frame: Frame) -> Any:
    argument = node.args[0]
    value = evaluator.named(evaluator.value(argument, frame), frame.loops)
    spot = frame.module.spot(argument)
    if isinstance(value, Items):
        return text_of([(item, spot) for item in value.items])
    return text_of([(value, spot)])


def mutate(evaluator: Evaluator, node: ast.Call, frame: Frame) -> bool:
    """`list.append` and its like on a known list; True where it was one."""
    func = node.func
    assert isinstance(func, ast.Attribute)
    if func.attr == "seed" and node.args and _written(func).startswith(("random.", "np.random", "numpy.random")):
        frame.seeded = isinstance(node.args[0], ast.Constant)
    if func.attr not in ("append", "extend", "insert", "shuffle", "update") or not node.args:
        return False
    if func.attr == "shuffle":
        _shuffle(evaluator, node, frame)
        return True
    base = evaluator.value(func.value, frame)
    value = evaluator.named(evaluator.value(_bare(node.args[-1]), frame), frame.loops)
    if isinstance(base, Fields) and func.attr == "update" and isinstance(value, Fields):
        base.fields.update(value.fields)
        return True
    if isinstance(base, Tainted) and base.growing and isinstance(func.value, ast.Name):
        base = Items([Spread(base)])
        frame.env[func.value.id] = base
    if not isinstance(base, Items):
        return False
    if func.attr == "append":
        base.items.append(value)
    elif func.attr == "extend":
        base.items += value.items if isinstance(value, Items) else [Spread(value)]
    elif func.attr == "insert":
        first = isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        base.items.insert(0 if first else len(base.items), value)
    return True


def _shuffle(evaluator: Evaluator, node: ast.Call, frame: Frame) -> None:
    owner = evaluator.value(node.func, frame)
    name = node.args[0]
    seeded = isinstance(owner, Seeded) or frame.seeded
    if isinstance(name, ast.Name) and not seeded:
        frame.env[name.id] = Tainted(V.RANDOM, "PX108", "a random order", loops=frame.loops)


def inline(evaluator: Evaluator, callee: Callee, arguments: list[Any], keywords: dict[str, Any], frame: Frame) -> Any:
    """Run a function of the project with these arguments and return what it returns."""
    from opsconsole.lint.frontends.pystatements import Frame as NewFrame
    from opsconsole.lint.frontends.pystatements import parameters, run

    if frame.depth >= MAX_DEPTH:
        return Unknown()
    node = callee.node
    inner = NewFrame(callee.module, callee.owner, frame.depth + 1)
    inner.loops = frame.loops
    parameters(node, inner)
    positional = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
    if positional and positional[0] in ("self", "cls") and callee.owner is not None:
        positional = positional[1:]
    defaults = node.args.defaults
    for name, default in zip(
        [a.arg for a in node.args.args][-len(defaults) :] if defaults else [], defaults, strict=False
    ):
        value = evaluator.value(default, NewFrame(callee.module))
        if not isinstance(value, Unknown) and not (isinstance(default, ast.Constant) and default.value is None):
            inner.env[name] = settled(value)
    for name, value in [*zip(positional, arguments, strict=False), *keywords.items()]:
        inner.env[name] = value if not isinstance(value, Unknown) else inner.env.get(name, value)
    run(evaluator, node.body, inner)
    made = inner.returned if inner.returned is not None else Unknown()
    if any(_decorator(item) in _CACHED for item in node.decorator_list):
        return settled(made)
    return made


def _decorator(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def instance_attribute(evaluator: Evaluator, name: str, frame: Frame) -> Any:
    """`self.name`: what a class constant or `__init__` gives it, made once; None where neither does."""
    from opsconsole.lint.frontends.pystatements import Frame as NewFrame

    memo = frame.module.memo
    key = f"{frame.owner.name if frame.owner else ''}.{name}"
    if key in memo:
        return memo[key]
    memo[key] = None
    if frame.owner is None:
        return None
    made: Any = None
    for node in frame.owner.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                made = settled(evaluator.value(node.value, NewFrame(frame.module)))
        elif isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__post_init__"):
            made = _assigned_in(evaluator, node, name, frame) or made
    if isinstance(made, (Unknown, Dotted)):
        made = from_meaning(names.meaning(name), ())
        made = None if isinstance(made, Unknown) else made
    memo[key] = made
    return made


def _assigned_in(evaluator: Evaluator, node: ast.FunctionDef, name: str, frame: Frame) -> Any:
    from opsconsole.lint.frontends.pystatements import Frame as NewFrame
    from opsconsole.lint.frontends.pystatements import parameters

    for statement in node.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets):
            inner = NewFrame(frame.module, frame.owner, frame.depth + 1)
            parameters(node, inner)
            value = evaluator.named(evaluator.value(statement.value, inner), ())
            if isinstance(value, Tainted) and (value.growing or value.weak):
                return value
            return settled(value)
    return None
