"""A `tokenizers.Tokenizer` from the vocabulary that a GGUF file carries; ids equal llama.cpp's.

Must not know: files, torch. Trap: GGUF names the pre-tokeniser (`tokenizer.ggml.pre`) and does not describe it; a
wrong one gives text that is nearly right. An unknown name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.model.config import UnsupportedModelError

if TYPE_CHECKING:
    import tokenizers

# How each family cuts text before merging; the expressions of the published tokenizers.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
EVERY_DIGIT = r"\p{N}"
PRE_TOKENISERS: dict[str, tuple[str, ...]] = {
    "gpt-2": (GPT2,),
    "smollm": (EVERY_DIGIT, GPT2),
    "llama-bpe": (rf"{WORDS}|\p{{N}}{{1,3}}|{TAIL}",),
    "qwen2": (rf"{WORDS}|\p{{N}}|{TAIL}",),
    "tekken": (TEKKEN,),
}
SAME_AS = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "smaug-bpe": "llama-bpe", "deepseek-r1-qwen": "qwen2"}
WHOLE_WORDS_FIRST = ("llama-bpe", "tekken")  # a word that is a token is not merged up from its parts
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4  # tokenizer.ggml.token_type


def from_gguf_metadata(facts: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Byte-level BPE (`gpt2`) or SentencePiece BPE (`llama`)."""
    kind = facts.get("tokenizer.ggml.model")
    if kind == "gpt2":
        inner = _byte_level(facts)
    elif kind == "llama":
        inner = _sentence_piece(facts)
    else:
        raise UnsupportedModelError(f"GGUF tokenizer {kind!r} is not supported, only gpt2 and llama.")
    from tokenizers import AddedToken

    tokens, types = facts["tokenizer.ggml.tokens"], facts.get("tokenizer.ggml.token_type") or ()
    by_type = list(zip(tokens, types, strict=False))
    inner.add_tokens([AddedToken(t, normalized=False) for t, kind in by_type if kind == USER_DEFINED])
    inner.add_special_tokens(
        [AddedToken(t, normalized=False, special=True) for t, kind in by_type if kind in (CONTROL, UNKNOWN)]
    )
    return inner


def _byte_level(facts: Mapping[str, Any]) -> tokenizers.Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    named = str(facts.get("tokenizer.ggml.pre", "default"))
    named = SAME_AS.get(named, named)
    if named not in PRE_TOKENISERS:
        raise UnsupportedModelError(
            f"GGUF pre-tokeniser {named!r} is not supported; these are: {', '.join(PRE_TOKENISERS)}."
        )
    vocabulary = {token: index for index, token in enumerate(facts["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in facts["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=named in WHOLE_WORDS_FIRST))
    cuts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in PRE_TOKENISERS[named]]
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    return inner


def _sentence_piece(facts: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """SentencePiece merges the pair whose union scores best: as BPE, every split of every token, best union first."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    tokens, scores = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.scores"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    ranked = sorted(range(len(tokens)), key=lambda index: (-scores[index], index))
    merges = []
    for index in ranked:
        token = tokens[index]
        cuts = ((token[:at], token[at:]) for at in range(1, len(token)))
        merges += sorted(
            (cut for cut in cuts if cut[0] in vocabulary and cut[1] in vocabulary),
            key=lambda cut: (vocabulary[cut[0]], vocabulary[cut[1]]),
        )
    unknown = tokens[int(facts.get("tokenizer.ggml.unknown_token_id", 0))]
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = bool(facts.get("tokenizer.ggml.add_space_prefix", True))
    spaces = normalizers.Replace(" ", "▁")
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces] if prefix else [spaces])
    strip = [decoders.Strip(content=" ", left=1)] if prefix else []
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return inner
