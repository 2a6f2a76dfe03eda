"""Which blocks hold which prefixes: a hash chain over full blocks.

`h[i] = H(h[i-1], tokens of block i)`, and the salt goes into the chain's root, so it separates every block that
follows. Why a chain and not a radix tree: docs/decisions/0001-prefix-cache.md. It must not know reference counts or
who holds a block; the block manager tells it what is registered and what is evicted. The trap: only the blocks that
are *computed* may be registered; a block planned for this step still holds somebody else's keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b

_DIGEST = 16  # bytes; 128 bits make a collision a matter of cosmic rays rather than of traffic


def root_hash(salt: str) -> bytes:
    """Where a chain starts. The salt is one field of its own, so no salt can imitate another salt's tokens."""
    return blake2b(salt.encode(), digest_size=_DIGEST, person=b"prefix-root").digest()


def extend_chain(chain: list[bytes], tokens: Sequence[int], block_size: int, salt: str) -> None:
    """Append to `chain` the hashes of the full blocks of `tokens` that it does not cover yet."""
    previous = chain[-1] if chain else root_hash(salt)
    for index in range(len(chain), len(tokens) // block_size):
        block = array("q", tokens[index * block_size : (index + 1) * block_size])
        previous = blake2b(block.tobytes(), digest_size=_DIGEST, key=previous).digest()
        chain.append(previous)


class PrefixCache:
    """Two maps that mirror each other: hash to block, block to hash."""

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, block: int) -> bool:
        return block in self._hash_of

    def longest(self, chain: Sequence[bytes], limit: int) -> list[int]:
        """The blocks of the longest cached prefix of `chain`, at most `limit` of them."""
        found: list[int] = []
        for digest in chain[:limit]:
            block = self._block_of.get(digest)
            if block is None:
                break
            found.append(block)
        return found

    def register(self, block: int, digest: bytes) -> bool:
        """Publish a full, computed block. False where another block holds the same content already."""
        if digest in self._block_of:
            return False
        self._block_of[digest] = block
        self._hash_of[block] = digest
        return True

    def evict(self, block: int) -> bool:
        """Forget a block, if it was known."""
        digest = self._hash_of.pop(block, None)
        if digest is None:
            return False
        del self._block_of[digest]
        return True

    def blocks(self) -> Iterator[int]:
        return iter(self._hash_of)

    def check(self) -> None:
        assert len(self._block_of) == len(self._hash_of), "the two maps differ in size"
        for block, digest in self._hash_of.items():
            assert self._block_of.get(digest) == block, f"block {block} is registered one way only"
