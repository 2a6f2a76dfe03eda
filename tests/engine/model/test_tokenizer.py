"""Ids equal llama.cpp's, text survives the round trip, and a stream never shows half a character."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.model.config import UnsupportedModelError
from engine.model.gguf_tokenizer import from_gguf_metadata
from engine.tokenizer import IncrementalDecoder, Tokenizer, load_tokenizer

STORED = Path(__file__).parents[2] / "data" / "engine" / "llama_cpp_ids.json"
LLAMA = "OPSCONSOLE_LLAMA_PYTHON"  # a Python that has llama_cpp
SCRIPTS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
    (0xB80, 0xBFF), (0xE00, 0xE7F), (0x10D0, 0x10FF), (0x1100, 0x11FF), (0x13A0, 0x13FF), (0x1680, 0x169F),
    (0x2000, 0x206F), (0x2150, 0x218F), (0x2460, 0x24FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0x1E900, 0x1E95F), (0x300, 0x36F), (0x1, 0x1F),
)  # fmt: skip
WORDS = [
    "the", "quick", "it's", "I'LL", "we've", "x=1", "3.14", "2026-11-30", "café", "", "\t", "\n\n", "\r\n", "def",
    "f(x):", "x**2", "½", "²", "٣", "中文", ",", "...", "!!!", "'s",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return load_tokenizer(smollm2)


def strings(count: int, seed: int) -> list[str]:
    """Words, spaces and characters of many scripts, in every neighbourhood."""
    draw = random.Random(seed)

    def piece() -> str:
        if draw.random() < 0.4:
            return draw.choice(WORDS)
        if draw.random() < 0.2:
            return draw.choice([" ", "  ", "\n", "\t", "\u00a0", "\u3000", "   \n"])
        first, last = draw.choice(SCRIPTS)
        return "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 8)))

    return [
        "".join(piece() + draw.choice(["", " ", "  ", "\n"]) for _ in range(draw.randint(1, 12))) for _ in range(count)
    ]


@pytest.mark.model
def test_ids_equal_those_llama_cpp_gave(tokenizer: Tokenizer) -> None:
    cases = json.loads(STORED.read_text())["cases"]
    assert len(cases) == 400
    assert [text for text, ids in cases if tokenizer.encode(text, add_special=False) != ids] == []


@pytest.mark.model
@pytest.mark.skipif(
    LLAMA not in os.environ, reason=f"{LLAMA} names no Python with llama_cpp; the stored ids are compared"
)
def test_ids_equal_llama_cpps_on_ten_thousand_strings(tokenizer: Tokenizer, smollm2: Path) -> None:
    program = (
        "import json, sys, llama_cpp; m = llama_cpp.Llama(model_path=sys.argv[1], vocab_only=True, verbose=False);"
        "json.dump([m.tokenize(s.encode(), add_bos=False, special=True) for s in json.load(sys.stdin)], sys.stdout)"
    )
    texts = strings(10_000, seed=20)
    command = [os.environ[LLAMA], "-c", program, str(smollm2)]
    told = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True).stdout
    different = [text for text, ids in zip(texts, json.loads(told), strict=True) if tokenizer.encode(text) != ids]
    assert different == []


@pytest.mark.model
def test_text_survives_the_round_trip_whole_and_streamed(tokenizer: Tokenizer) -> None:
    for drawn in strings(300, seed=5):
        text = "".join(letter for letter in drawn if letter >= " " or letter in "\n\t")  # some controls have no token
        ids = tokenizer.encode(text, add_special=False)
        whole = tokenizer.decode(ids)
        assert whole == text
        stream = IncrementalDecoder(tokenizer)
        pieces = [stream.push(token) for token in ids]
        assert not any(piece.endswith("\ufffd") for piece in pieces if "\ufffd" not in text)
        assert "".join([*pieces, stream.finish()]) == whole


@pytest.mark.model
def test_half_a_character_is_held_back_until_it_is_whole_or_the_text_ends(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("🦙", add_special=False)
    assert len(ids) > 1
    stream = IncrementalDecoder(tokenizer)
    assert [stream.push(token) for token in ids] == [""] * (len(ids) - 1) + ["🦙"]
    assert [stream.push(token) for token in ids[:-1]] == [""] * (len(ids) - 1)
    assert set(stream.finish()) == {"\ufffd"} and stream.finish() == ""


@pytest.mark.model
def test_bytes_that_are_no_text_do_not_hold_the_stream_up_for_ever(tokenizer: Tokenizer) -> None:
    stray = tokenizer.encode("🦙", add_special=False)[0]
    stream = IncrementalDecoder(tokenizer)
    shown = "".join(stream.push(stray) for _ in range(20))
    assert shown and shown + stream.finish() == tokenizer.decode([stray] * 20)


@pytest.mark.model
def test_special_tokens_are_recognised_and_left_out_of_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>user\nhi<|im_end|>")
    assert (ids[0], ids[-1]) == (1, 2) and tokenizer.eos_ids == (2,)
    assert tokenizer.decode(ids) == "user\nhi"
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|>user\nhi<|im_end|>"
    assert tokenizer.vocab_size == 49_152 and tokenizer.token_id("<|im_end|>") == 2
    assert tokenizer.chat_template is not None and "im_start" in tokenizer.chat_template


def sentence_piece() -> dict[str, Any]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "h", "e", "l", "o", "he", "ll", "▁he"]
    tokens += ["llo", "hello", "▁hello"]
    scores = [0.0] * 259 + [-10.0 - i for i in range(5)] + [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
    }


def test_sentence_piece_merges_by_score_and_falls_back_to_bytes() -> None:
    inner = from_gguf_metadata(sentence_piece())
    assert inner.encode("hello hello").tokens == ["▁hello", "▁hello"]
    assert inner.encode("é").tokens == ["▁", "<0xC3>", "<0xA9>"]
    assert inner.decode(inner.encode("hello é").ids) == "hello é"


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"tokenizer.ggml.model": "bert"}, "bert"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "klingon", "tokenizer.ggml.tokens": []}, "klingon"),
    ],
)
def test_what_is_not_known_is_refused_by_name(facts: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModelError, match=named):
        from_gguf_metadata(facts)


def test_a_folder_with_tokenizer_json_is_read_with_its_side_files(tmp_path: Path) -> None:
    inner = from_gguf_metadata(sentence_piece())
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<s>"}, "chat_template": "T"}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 2}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.chat_template) == (1, (2, 7), "T")
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
    (tmp_path / "chat_template.jinja").write_text("J")
    assert load_tokenizer(tmp_path).chat_template == "J"


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
