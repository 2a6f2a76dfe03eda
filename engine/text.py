"""What the engine's mouth needs of a tokenizer, and a byte-level one for engines without a model.

It must not know where tokenizers come from. The trap: a token may end inside a character, so text for a stream
comes only from a `Decoder`, one per sequence.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Decoder(Protocol):
    """Turns a growing sequence of ids into text, whole characters only."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class Codec(Protocol):
    """Text to ids and back."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, text: str, add_special: bool = True) -> list[int]: ...
    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str: ...
    def token_text(self, token_id: int) -> str: ...


@dataclass(frozen=True, slots=True)
class TextTools:
    """A tokenizer with what belongs to it. `bos` and `eos` are texts that chat templates may name."""

    codec: Codec
    make_decoder: Callable[[], Decoder]
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""


BYTE_EOS = 256
BYTE_VOCABULARY = 257


class ByteCodec:
    """Every byte is a token, and one more ends a text."""

    vocab_size = BYTE_VOCABULARY

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return bytes(token for token in ids if token < 256).decode(errors="replace")

    def token_text(self, token_id: int) -> str:
        return self.decode([token_id])


class ByteDecoder:
    """UTF-8, one byte at a time."""

    def __init__(self) -> None:
        self._inner = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        return self._inner.decode(bytes([token_id])) if token_id < 256 else ""

    def finish(self) -> str:
        return self._inner.decode(b"", final=True)


BYTE_CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_text() -> TextTools:
    """The tools of an engine without a model."""
    return TextTools(ByteCodec(), ByteDecoder, BYTE_CHAT_TEMPLATE)
