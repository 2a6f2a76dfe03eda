"""Exact tokens: encoding by remembered lines gives the ids of whole texts, and falls back where it would not."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsconsole.errors import ConfigError
from opsconsole.lint.request import Part, Request
from opsconsole.lint.tokens import LocalTokenizer

tokenizers = pytest.importorskip("tokenizers")
TEXTS = [
    "Rule 1: be calm.\nRule 2: be kind.\n\n  indented\n\tand tabbed\nlast",
    "a\n\n\nb\r\nc \n d\n",
    "Überschrift\nZeile zwei 日本語\nend\n",
]


def trained(*, joins_lines: bool) -> object:
    """A small byte-level BPE; one that joins lines sees no borders at all."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    if joins_lines:
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    else:
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(TEXTS * 20, trainer)
    return made


def request(text: str) -> Request:
    return Request("f", 1, [Part("messages[0].content", "system", "system", text, 0)])


@pytest.mark.parametrize("joins_lines", [False, True])
def test_ids_by_lines_are_those_of_the_whole_text(joins_lines: bool) -> None:
    encoder = trained(joins_lines=joins_lines)
    source = LocalTokenizer(encoder)
    for text in [*TEXTS, *TEXTS]:
        whole = encoder.encode(f"system\n{text}\n", add_special_tokens=False).ids  # type: ignore[attr-defined]
        assert list(source.ids(request(text))) == whole


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        LocalTokenizer.load(str(tmp_path))
