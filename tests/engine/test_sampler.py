"""Each way to choose a token, against its definition on small distributions."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

from engine.request import Request, SamplingParams
from engine.sampler import TorchSampler

LOGITS = [3.0, 2.0, 1.0, 0.0, -1.0, -2.0, -3.0, -4.0]
PROBABILITIES = torch.softmax(torch.tensor(LOGITS), dim=-1).tolist()


def request(prompt: tuple[int, ...] = (7,), output: tuple[int, ...] = (), **params: Any) -> Request:
    made = Request("r", prompt, SamplingParams(max_tokens=9999, **params), 0.0)
    made.tokens += output
    return made


def draws(count: int, **params: Any) -> Counter[int]:
    made, sampler, rows = request(**params), TorchSampler(), torch.tensor([LOGITS])
    return Counter(sampler.sample(rows, [made])[0][0] for _ in range(count))


def test_greedy_rows_take_the_most_likely_token() -> None:
    rows = torch.tensor([[0.0, 2.0, 1.0], [5.0, 2.0, 1.0]])
    assert TorchSampler().sample(rows, [request(temperature=0.0)] * 2) == [(1, None), (0, None)]
    assert TorchSampler().sample(rows[:0], []) == []


def test_sampling_follows_the_distribution() -> None:
    count = 20_000
    seen = draws(count, seed=1)
    statistic = sum((seen[i] - count * p) ** 2 / (count * p) for i, p in enumerate(PROBABILITIES))
    assert statistic < 18.5, "chi-square with 7 degrees of freedom, p = 0.01"


def test_temperature_scales_logits() -> None:
    count = 4000
    seen = draws(count, seed=2, temperature=2.0)
    halved = torch.softmax(torch.tensor(LOGITS) / 2.0, dim=-1).tolist()
    assert seen[0] / count == pytest.approx(halved[0], abs=0.03)


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 3}, {0, 1, 2}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.7}, {0, 1}),  # the first alone has 0.63
        ({"min_p": 0.2}, {0, 1}),  # e^-1 is 0.37, e^-2 is 0.14
        ({"top_k": 3, "top_p": 0.99}, {0, 1, 2}),
        ({"top_k": 5, "min_p": 0.1, "top_p": 0.95}, {0, 1, 2}),
    ],
    ids=str,
)
def test_filters_keep_what_they_say(params: dict[str, float], allowed: set[int]) -> None:
    assert set(draws(3000, seed=3, **params)) == allowed


def test_a_nucleus_wider_than_the_first_sort_is_complete() -> None:
    rows = torch.zeros(1, 5000)
    made = request(seed=4, top_p=0.999)
    sampler = TorchSampler()
    assert max(sampler.sample(rows, [made])[0][0] for _ in range(200)) > 4000


def test_a_seed_gives_the_same_tokens_whatever_the_batch() -> None:
    sampler = TorchSampler()
    row, others = torch.tensor([LOGITS]), torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    alone, together = request(seed=9), request(seed=9)
    one = [sampler.sample(row, [alone])[0][0] for _ in range(50)]
    crowd = [request(seed=number) for number in range(5)]
    many = [sampler.sample(torch.cat([others, row]), [*crowd, together])[5][0] for _ in range(50)]
    assert one == many
    assert one != [sampler.sample(row, [request(seed=10)])[0][0] for _ in range(50)]


def test_the_repetition_penalty_covers_prompt_and_output_and_respects_signs() -> None:
    rows = torch.tensor([[2.0, 1.5, -1.0, -1.5]])
    params: dict[str, Any] = {"temperature": 0.0, "repetition_penalty": 2.0}
    assert TorchSampler().sample(rows, [request((0,), **params)])[0][0] == 1
    assert TorchSampler().sample(rows, [request((3,), (0, 1), **params)])[0][0] == 0
    negative = torch.tensor([[-1.0, -1.5]])
    assert TorchSampler().sample(negative, [request((0,), **params)])[0][0] == 1, "a negative logit falls further"


def test_presence_counts_once_and_frequency_each_time_and_the_prompt_never() -> None:
    rows = torch.tensor([[2.0, 1.2, 0.0]])
    sampler = TorchSampler()
    assert sampler.sample(rows, [request((0, 0, 0), temperature=0.0, presence_penalty=1.0)])[0][0] == 0
    assert sampler.sample(rows, [request((2,), (0,), temperature=0.0, presence_penalty=1.0)])[0][0] == 1
    assert sampler.sample(rows, [request((2,), (0, 0), temperature=0.0, frequency_penalty=0.3)])[0][0] == 0
    assert sampler.sample(rows, [request((2,), (0, 0, 0), temperature=0.0, frequency_penalty=0.3)])[0][0] == 1


def test_below_the_minimum_nothing_ends() -> None:
    rows = torch.tensor([[5.0, 4.0, 3.0]])
    made = request(temperature=0.0, min_tokens=1, stop_token_ids=frozenset({1}))
    sampler = TorchSampler(eos_ids={0})
    assert sampler.sample(rows, [made])[0][0] == 2
    made.tokens.append(2)
    assert sampler.sample(rows, [made])[0][0] == 0


def test_logprobs_come_from_the_unmodified_logits() -> None:
    rows = torch.tensor([LOGITS])
    made = request((0,), temperature=0.0, repetition_penalty=10.0, logprobs=2)
    token, logprob = TorchSampler().sample(rows, [made])[0]
    assert token == 1 and logprob is not None
    assert logprob.logprob == pytest.approx(math.log(PROBABILITIES[1]), abs=1e-5)
    assert [other for other, _ in logprob.top] == [0, 1]
    assert logprob.top[0][1] == pytest.approx(math.log(PROBABILITIES[0]), abs=1e-5)
    assert rows[0].tolist() == LOGITS, "the rows belong to the runner"


def test_logprobs_without_alternatives_name_the_token_alone() -> None:
    _, logprob = TorchSampler().sample(torch.tensor([LOGITS]), [request(temperature=0.0, logprobs=0)])[0]
    assert logprob is not None and logprob.top == ()
