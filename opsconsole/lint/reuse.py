"""What an engine reuses of each prompt: a compressed radix tree under the engine's own matching rule.

Works on numbers (segments or token ids) and knows no text. The trap: under a KV budget an entry counts as evicted once
more fresh tokens than the budget were written since its last use, an upper bound of an LRU's reuse distance.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

_WIDTH = 8


class EngineRule(NamedTuple):
    """How a cache matches: unit of tokens, least prefix, lifetime, and whether the last token is always computed."""

    unit: int = 16
    minimum: int = 0
    ttl_s: float | None = None
    last_token_computed: bool = True
    slots: int | None = None

    def reused(self, common: int, total: int) -> int:
        """Tokens reused of a prompt of `total` tokens with `common` leading tokens in the cache."""
        if self.last_token_computed:
            common = min(common, total - 1)
        whole = max(0, common) // self.unit * self.unit
        return whole if whole >= self.minimum else 0


@dataclass(slots=True)
class _Node:
    data: bytes  # numbers of the request that made this edge, 8 bytes each
    start: int
    end: int
    last_written: int = 0
    last_at: float = 0.0
    children: dict[bytes, _Node] = field(default_factory=dict)


def _common(a: bytes, i: int, b: bytes, j: int, n: int) -> int:
    """Length in units of the common run of a[i:] and b[j:], at most n units."""
    if a[i * _WIDTH : (i + n) * _WIDTH] == b[j * _WIDTH : (j + n) * _WIDTH]:
        return n
    low, high = 0, n - 1
    while low < high:
        mid = (low + high + 1) // 2
        if a[(i + low) * _WIDTH : (i + mid) * _WIDTH] == b[(j + low) * _WIDTH : (j + mid) * _WIDTH]:
            low = mid
        else:
            high = mid - 1
    return low


class RadixTree:
    """Prompts seen so far. `add` answers how many leading units an earlier prompt shares, then keeps the prompt."""

    def __init__(self, rule: EngineRule = EngineRule(), budget: int | None = None) -> None:  # noqa: B008
        self._rule = rule
        self._budget = budget
        self._roots: dict[str, _Node] = {}
        self._written = 0

    def add(self, units: array[int], tokens: int, salt: str = "", at: float | None = None) -> int:
        """Leading units of this prompt that are still in the cache."""
        data = units.tobytes()
        length = len(units)
        node = self._roots.setdefault(salt, _Node(b"", 0, 0))
        depth = alive = 0
        lives = True
        now = at if at is not None else 0.0
        while depth < length:
            key = data[depth * _WIDTH : (depth + 1) * _WIDTH]
            child = node.children.get(key)
            if child is None:
                node.children[key] = _Node(data, depth, length, self._written, now)
                break
            shared = _common(child.data, child.start, data, depth, min(child.end - child.start, length - depth))
            lives = lives and self._alive(child, now)
            depth += shared
            alive = depth if lives else alive
            if shared < child.end - child.start:
                child = self._split(node, key, child, shared)
            child.last_written, child.last_at = self._written, now
            node = child
        fresh = tokens if not length else int(tokens * (length - alive) / length)
        self._written += fresh
        return alive

    def _alive(self, node: _Node, now: float) -> bool:
        if self._budget is not None and self._written - node.last_written > self._budget:
            return False
        return self._rule.ttl_s is None or now - node.last_at <= self._rule.ttl_s

    @staticmethod
    def _split(parent: _Node, key: bytes, child: _Node, shared: int) -> _Node:
        head = _Node(child.data, child.start, child.start + shared, child.last_written, child.last_at)
        child.start += shared
        head.children[child.data[child.start * _WIDTH : (child.start + 1) * _WIDTH]] = child
        parent.children[key] = head
        return head
