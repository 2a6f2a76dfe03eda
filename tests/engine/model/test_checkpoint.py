"""Every tensor type and layout on disk against values worked out here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from engine.loader import load_model
from engine.model.checkpoint import GgufCheckpoint, gguf_name, open_checkpoint
from engine.model.config import UnsupportedModelError
from engine.model.gguf_file import gguf_metadata

OracleOf = Callable[[str], tuple[Path, Any]]
HIDDEN, FFN = 256, 512


def half(value: float) -> bytes:
    return np.float16(value).tobytes()


def q4_k_block(draw: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """256 values: 8 groups of 32 with 6-bit scales and minima, two halves of a byte 32 apart."""
    scales, minima, quants = draw.integers(0, 64, 8), draw.integers(0, 64, 8), draw.integers(0, 16, (8, 32))
    packed = bytearray(12)
    for i in range(4):
        packed[i] = int(scales[i]) | (int(scales[i + 4]) >> 4 << 6)
        packed[i + 4] = int(minima[i]) | (int(minima[i + 4]) >> 4 << 6)
        packed[i + 8] = (int(scales[i + 4]) & 15) | ((int(minima[i + 4]) & 15) << 4)
    nibbles = b"".join(bytes((quants[i] | (quants[i + 1] << 4)).astype(np.uint8)) for i in range(0, 8, 2))
    values = 0.5 * scales[:, None] * quants - 0.25 * minima[:, None]
    return half(0.5) + half(0.25) + bytes(packed) + nibbles, values.reshape(-1)


def q6_k_block(draw: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """256 values of 6 bits: low 4 in one array, high 2 in another, a signed scale for every 16."""
    quants, scales = draw.integers(0, 64, (2, 4, 32)), draw.integers(-128, 128, 16).astype(np.int8)
    low = [bytes(((q[i] & 15) | ((q[i + 2] & 15) << 4)).astype(np.uint8)) for q in quants for i in (0, 1)]
    high = [bytes(sum((q[i] >> 4) << (2 * i) for i in range(4)).astype(np.uint8)) for q in quants]
    values = 0.125 * np.repeat(scales.astype(float), 16) * (quants.reshape(-1) - 32)
    return b"".join(low) + b"".join(high) + scales.tobytes() + half(0.125), values


def matrix(kind: str, rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Raw bytes (or floats) as stored, and the values they mean."""
    draw = np.random.default_rng(seed)
    if kind in ("Q4_K", "Q6_K"):
        blocks = [(q4_k_block if kind == "Q4_K" else q6_k_block)(draw) for _ in range(rows * columns // 256)]
        raw = np.frombuffer(b"".join(block for block, _ in blocks), dtype=np.uint8).reshape(rows, -1)
        return raw, np.concatenate([values for _, values in blocks]).reshape(rows, columns)
    values = draw.standard_normal((rows, columns)).astype(np.float32)
    if kind == "F32":
        return values, values
    if kind == "F16":
        return values.astype(np.float16), values.astype(np.float16)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    return raw, values


def write_gguf(path: Path, kind: str, architecture: str = "llama", norm_kind: str = "F32") -> dict[str, np.ndarray]:
    """A one-layer model whose matrices are of `kind`; gives what each tensor means."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_vocab_size(64)
    writer.add_token_list(["a", "é", "🦙"])
    writer.add_array("test.numbers", [1, 2, 3])
    shapes = {
        "token_embd": (64, HIDDEN), "blk.0.attn_q": (HIDDEN, HIDDEN), "blk.0.attn_k": (HIDDEN // 2, HIDDEN),
        "blk.0.attn_v": (HIDDEN // 2, HIDDEN), "blk.0.attn_output": (HIDDEN, HIDDEN), "blk.0.ffn_gate": (FFN, HIDDEN),
        "blk.0.ffn_up": (FFN, HIDDEN), "blk.0.ffn_down": (HIDDEN, FFN),
    }  # fmt: skip
    meant = {}
    for seed, (name, (rows, columns)) in enumerate(shapes.items()):
        raw, meant[name] = matrix(kind, rows, columns, seed)
        quantised = None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind]
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=quantised)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


@pytest.mark.parametrize(
    ("kind", "error"),
    [("F32", 0), ("F16", 0), ("BF16", 0.02), ("Q8_0", 0.02), ("Q4_0", 0.4), ("Q4_1", 0.3), ("Q4_K", 0), ("Q6_K", 0)],
)
def test_every_gguf_type_means_what_it_says(kind: str, error: float, tmp_path: Path) -> None:
    meant = write_gguf(tmp_path / "m.gguf", kind)
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    assert checkpoint.is_quantised == kind.startswith("Q") and checkpoint.config.tied_embeddings
    read = checkpoint.tensor("layers.0.mlp.down_proj.weight").float().numpy()
    assert np.abs(read - meant["blk.0.ffn_down"]).max() <= error + 1e-6
    # The rows of q come interleaved: row 1 of the file is dimension 32 of the first head of 64.
    q = checkpoint.tensor("layers.0.self_attn.q_proj.weight").float().numpy()
    assert np.abs(q[32] - meant["blk.0.attn_q"][1]).max() <= error + 1e-6
    assert np.abs(q[1] - meant["blk.0.attn_q"][2]).max() <= error + 1e-6


def test_other_architectures_are_not_permuted(tmp_path: Path) -> None:
    meant = write_gguf(tmp_path / "m.gguf", "F32", architecture="qwen2")
    q = open_checkpoint(tmp_path / "m.gguf").tensor("layers.0.self_attn.q_proj.weight").numpy()
    assert np.array_equal(q, meant["blk.0.attn_q"])


def test_a_gguf_of_any_kind_loads_and_runs_in_int8_or_float(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "Q4_K")
    assert load_model(tmp_path / "m.gguf", dtype="fp32", threads=1).weight_bytes > 0
    assert load_model(tmp_path, threads=1).config.hidden == HIDDEN


def test_an_unknown_tensor_type_is_named(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "Q5_0")
    with pytest.raises(UnsupportedModelError, match=r"Q5_0.*Q4_K"):
        GgufCheckpoint(tmp_path / "m.gguf")


def test_metadata_is_what_the_gguf_package_reads(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "F32")
    plain = {name: field.contents() for name, field in gguf.GGUFReader(tmp_path / "m.gguf").fields.items()}
    assert dict(gguf_metadata(tmp_path / "m.gguf")) == plain
    assert plain["tokenizer.ggml.tokens"] == ["a", "é", "🦙"] and plain["test.numbers"] == [1, 2, 3]


def test_names_translate() -> None:
    assert gguf_name("layers.3.mlp.up_proj.weight") == "blk.3.ffn_up.weight"
    assert gguf_name("layers.11.self_attn.q_proj.bias") == "blk.11.attn_q.bias"
    assert gguf_name("lm_head.weight") == "output.weight"


def test_shards_are_read_through_their_index(oracle_of: OracleOf, tmp_path: Path) -> None:
    folder, oracle = oracle_of("llama3")
    assert len(list(folder.glob("*.safetensors"))) > 1
    checkpoint = open_checkpoint(folder)
    for name in ("embed_tokens.weight", "layers.2.mlp.down_proj.weight", "norm.weight"):
        assert torch.equal(checkpoint.tensor(name), oracle.state_dict()[f"model.{name}"])
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    next(broken.glob("model-*.safetensors")).unlink()
    with pytest.raises(UnsupportedModelError, match="which its index names"):
        open_checkpoint(broken)


def test_what_cannot_be_read_says_so(oracle_of: OracleOf, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="neither a folder"):
        open_checkpoint(tmp_path / "nothing")
    folder, _ = oracle_of("qwen2")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(UnsupportedModelError, match="no safetensors"):
        open_checkpoint(tmp_path)
    with pytest.raises(UnsupportedModelError, match=r"layers\.0\.mlp\.middle"):
        open_checkpoint(folder).tensor("layers.0.mlp.middle.weight")


def test_integers_in_safetensors_are_refused(tmp_path: Path, oracle_of: OracleOf) -> None:
    from safetensors.torch import save_file

    folder, _ = oracle_of("qwen2")
    (tmp_path / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text())))
    save_file({"model.norm.weight": torch.ones(64, dtype=torch.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedModelError, match="int8"):
        open_checkpoint(tmp_path).tensor("norm.weight")
