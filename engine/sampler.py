"""Logits to tokens, row by row.

Greedy rows without penalties take one argmax for the whole batch; every other row is worked alone with its
request's own random numbers, so a token never depends on who else is in the batch. It must not know blocks, text or
HTTP. The trap: log probabilities are reported from the *unmodified* logits, while the choice is made from the
modified ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import torch

from engine.request import Request, SamplingParams, TokenLogprob

_CANDIDATES = 1024  # sorted first; a nucleus that does not fit gets the full sort


class TorchSampler:
    """Samples from float32 logits [rows, vocabulary]. `eos_ids` are forbidden while a request is below its minimum."""

    def __init__(self, eos_ids: Collection[int] = ()) -> None:
        self._eos_ids = frozenset(eos_ids)

    def sample(self, rows: torch.Tensor, requests: Sequence[Request]) -> list[tuple[int, TokenLogprob | None]]:
        if not requests:
            return []
        best: list[int] = rows.argmax(dim=-1).tolist()
        return [
            (best[index], None)
            if request.params.is_greedy and request.params.is_plain
            else self._sample_one(rows[index], request)
            for index, request in enumerate(requests)
        ]

    def _sample_one(self, raw: torch.Tensor, request: Request) -> tuple[int, TokenLogprob | None]:
        params = request.params
        logits = raw if params.is_plain else self._modified(raw, request)
        token = int(logits.argmax()) if params.is_greedy else _draw(logits, params, request.rng.random())
        return token, None if params.logprobs is None else _logprob(raw, token, params.logprobs)

    def _modified(self, raw: torch.Tensor, request: Request) -> torch.Tensor:
        params = request.params
        logits = raw.clone()
        output = Counter(request.tokens[len(request.prompt) :])
        if params.repetition_penalty != 1.0:
            seen = torch.tensor(sorted(set(request.tokens)), device=raw.device)
            values = logits[seen]
            logits[seen] = torch.where(
                values > 0, values / params.repetition_penalty, values * params.repetition_penalty
            )
        if output and (params.presence_penalty or params.frequency_penalty):
            ids = torch.tensor(list(output), device=raw.device)
            counts = torch.tensor(list(output.values()), dtype=logits.dtype, device=raw.device)
            logits[ids] -= params.presence_penalty + params.frequency_penalty * counts
        if request.output_count < params.min_tokens:
            logits[sorted(self._eos_ids | params.stop_token_ids)] = -torch.inf
        return logits


def _draw(logits: torch.Tensor, params: SamplingParams, uniform: float) -> int:
    """One token by inverse transform from one uniform number in [0, 1)."""
    scaled = logits.double() / params.temperature
    if params.top_k == 0 and params.top_p >= 1.0 and params.min_p == 0.0:
        return _pick(torch.softmax(scaled, dim=-1), uniform)
    total = torch.logsumexp(scaled, dim=-1)
    size = scaled.shape[-1]
    for count in (min(max(_CANDIDATES, params.top_k), size), size):
        values, ids = torch.topk(scaled, count)
        kept = _kept((values - total).exp(), params, complete=count == size)
        if kept is not None:
            return int(ids[_pick(torch.softmax(values[:kept], dim=-1), uniform)])
    raise AssertionError("the full sort always decides")


def _kept(probabilities: torch.Tensor, params: SamplingParams, *, complete: bool) -> int | None:
    """How many of the sorted candidates survive top-k, then top-p, then min-p; None where more must be sorted."""
    count = probabilities.shape[0]
    if 0 < params.top_k <= count:
        count = params.top_k
        complete = True
        probabilities = probabilities[:count] / probabilities[:count].sum()
    if params.min_p > 0.0:
        above = int((probabilities >= params.min_p * probabilities[0]).sum())
        complete = complete or above < count
    else:
        above = count
    if params.top_p < 1.0:
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        inside = int((before < params.top_p).sum())
        complete = complete or inside < count
        above = min(above, inside)
    return max(1, above) if complete else None


def _pick(probabilities: torch.Tensor, uniform: float) -> int:
    cumulative = torch.cumsum(probabilities, dim=-1)
    index = int(torch.searchsorted(cumulative, uniform * float(cumulative[-1]), right=True))
    return min(index, probabilities.shape[0] - 1)


def _logprob(raw: torch.Tensor, token: int, alternatives: int) -> TokenLogprob:
    logprobs = torch.log_softmax(raw.float(), dim=-1)
    values, ids = torch.topk(logprobs, min(alternatives, logprobs.shape[-1]))
    top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
    return TokenLogprob(token, float(logprobs[token]), top)
