"""What a request looks like to the router: salted hashes of its growing prefix, and a guess at its tokens.

Two requests share a hash only when everything before it is equal *and* they come from the same tenant. No text is kept.
Trap: the engine keeps its cache apart by the same salt, so a client must not choose it: its own is stripped.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

TEXT_CHUNK, ID_CHUNK = 256, 64  # bytes, token ids: about 64 tokens either way
CHUNKS_MOST = 256
BYTES_PER_TOKEN = 4.0
DEFAULT_OUTPUT = 64  # tokens assumed where a request sets no limit


def tenant_salt(secret: bytes, api_key: str) -> str:
    """The cache salt of whoever holds this key; nobody can compute another's."""
    return hmac.new(secret, api_key.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:32]


def prefix_hashes(body: Mapping[str, Any], salt: str) -> tuple[int, ...]:
    """One 64-bit hash per chunk, each covering everything before it."""
    running = hashlib.blake2b(salt.encode(), digest_size=8)
    hashes = []
    for chunk in _chunks(body):
        running.update(chunk)
        hashes.append(int.from_bytes(running.copy().digest(), "big"))
        if len(hashes) == CHUNKS_MOST:
            break
    return tuple(hashes)


def estimated_tokens(body: Mapping[str, Any]) -> float:
    """Prompt and answer together, without a tokenizer."""
    prompt = body.get("prompt")
    if _is_ids(prompt):
        count = float(len(prompt))
    elif isinstance(prompt, str):
        count = len(prompt) / BYTES_PER_TOKEN
    else:
        count = len(_text_of(body)) / BYTES_PER_TOKEN
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    output = limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else DEFAULT_OUTPUT
    return count + output


def _chunks(body: Mapping[str, Any]) -> Iterator[bytes]:
    """Whole chunks only: a hash of a part would never be met again."""
    prompt = body.get("prompt")
    if _is_ids(prompt):
        for start in range(0, len(prompt) - ID_CHUNK + 1, ID_CHUNK):
            yield ",".join(map(str, prompt[start : start + ID_CHUNK])).encode() + b";"
        return
    text = prompt.encode("utf-8", "surrogatepass") if isinstance(prompt, str) else _text_of(body)
    for start in range(0, len(text) - TEXT_CHUNK + 1, TEXT_CHUNK):
        yield text[start : start + TEXT_CHUNK]


def _is_ids(prompt: object) -> TypeGuard[list[int]]:
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], int)


def _text_of(body: Mapping[str, Any]) -> bytes:
    """The messages (or whatever stands for a prompt), in the order the model reads them: tools come first."""
    parts = [body.get("tools"), body.get("messages"), body.get("prompt")]
    return json.dumps([part for part in parts if part is not None], ensure_ascii=False).encode("utf-8", "surrogatepass")
