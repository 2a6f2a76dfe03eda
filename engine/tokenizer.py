"""Text to token ids and back, whatever the file says about its tokenizer.

Must not know: torch, requests. Trap: a token may end in the middle of a character; only `IncrementalDecoder` may turn a
growing list of ids into text for a stream, and it holds back what is not yet whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.model.gguf_file import gguf_metadata
from engine.model.gguf_tokenizer import from_gguf_metadata
from engine.model.sidecars import chat_template, end_of_text_ids, gguf_chat_template, gguf_end_of_text_ids

if TYPE_CHECKING:
    import tokenizers

REPLACEMENT = "\ufffd"  # what an incomplete or invalid UTF-8 sequence decodes to


class Tokenizer:
    """A `tokenizers.Tokenizer` and the few facts the engine needs with it."""

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        *,
        bos_id: int | None,
        adds_bos: bool | None,  # None: the tokenizer's own post-processor decides
        eos_ids: Sequence[int],
        chat_template: str | None,
    ) -> None:
        self._inner, self._adds_bos = inner, adds_bos
        self.bos_id, self.eos_ids, self.chat_template = bos_id, tuple(eos_ids), chat_template

    @property
    def vocab_size(self) -> int:
        return self._inner.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Special tokens in the text are recognised; `add_special` adds those that every prompt begins with."""
        ids: list[int] = self._inner.encode(text, add_special_tokens=add_special).ids
        if add_special and self._adds_bos and self.bos_id is not None:
            return [self.bos_id, *ids]
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return self._inner.decode(list(ids), skip_special_tokens=skip_special)

    def token_text(self, token_id: int) -> str:
        """One token alone, for logprobs; bytes that are no character show as U+FFFD."""
        return self._inner.decode([token_id], skip_special_tokens=False)

    def token_id(self, token: str) -> int | None:
        return self._inner.token_to_id(token)


class IncrementalDecoder:
    """Streams text over a growing list of ids; the pieces joined equal the whole decoded at once."""

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        self._tokenizer, self._skip_special = tokenizer, skip_special
        # Only ids after the last character boundary are decoded, with the ids before it as context: some tokenizers
        # drop the space that leads a text.
        self._context: list[int] = []
        self._pending: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that became whole with this token; often one word, empty inside a character."""
        self._pending.append(token_id)
        before, after = self._decoded()
        # Four bytes make any character: after eight tokens without one the bytes are not UTF-8 and are let go as they
        # are.
        if after.endswith(REPLACEMENT) and len(self._pending) < 8:
            return ""
        self._context, self._pending = self._pending, []
        return after[len(before) :]

    def finish(self) -> str:
        """What was held back, with U+FFFD where no character came of it."""
        before, after = self._decoded()
        self._context, self._pending = self._pending, []
        return after[len(before) :]

    def _decoded(self) -> tuple[str, str]:
        before = self._tokenizer.decode(self._context, self._skip_special)
        return before, self._tokenizer.decode(self._context + self._pending, self._skip_special)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """From a folder with tokenizer.json, or from the metadata of a GGUF file."""
    path = Path(path).resolve()
    if path.is_dir() and not (path / "tokenizer.json").exists() and len(files := sorted(path.glob("*.gguf"))) == 1:
        path = files[0]
    if path.suffix == ".gguf":
        facts = gguf_metadata(path)
        bos = facts.get("tokenizer.ggml.bos_token_id")
        return Tokenizer(
            from_gguf_metadata(facts),
            bos_id=None if bos is None else int(bos),
            adds_bos=bool(facts.get("tokenizer.ggml.add_bos_token", facts.get("tokenizer.ggml.model") == "llama")),
            eos_ids=gguf_end_of_text_ids(facts),
            chat_template=gguf_chat_template(facts),
        )
    if not (path / "tokenizer.json").exists():
        raise FileNotFoundError(f"{path} has no tokenizer.json; other tokenizer formats are not read.")
    from tokenizers import Tokenizer as Inner

    inner = Inner.from_file(str(path / "tokenizer.json"))
    inner.no_padding()
    inner.no_truncation()
    return Tokenizer(
        inner,
        bos_id=_bos_id(path, inner),
        adds_bos=None,
        eos_ids=end_of_text_ids(path),
        chat_template=chat_template(path),
    )


def _bos_id(folder: Path, inner: tokenizers.Tokenizer) -> int | None:
    for name in ("config.json", "tokenizer_config.json"):
        facts = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        if isinstance(facts.get("bos_token_id"), int):
            return int(facts["bos_token_id"])
        token = facts.get("bos_token")
        token = token.get("content") if isinstance(token, dict) else token
        if token and (found := inner.token_to_id(token)) is not None:
            return found
    return None
