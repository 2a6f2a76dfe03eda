"""How long a step takes, as a model: fitted online by the engine, and standing in for the model runner in simulations.

Time is linear in five things: a fixed cost, sequences that decode, the context they read, prefill tokens, and the
context those attend to. It must not know torch, clocks or queues; durations come as arguments, and the stand-in
runner spends time through a callable. The trap: a fit on decode-only steps says nothing about prefill, so every
coefficient keeps its prior until the evidence moves it, and none becomes negative.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from engine.plan import BatchPlan
from engine.request import Request, TokenLogprob


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step has to do, in the units that cost time."""

    decodes: int = 0  # sequences that compute one token
    context: int = 0  # tokens whose keys those sequences read, summed
    prefill: int = 0  # prompt tokens computed
    attention: int = 0  # (query, key) pairs of the prefill

    def with_prefill(self, tokens: int, start: int) -> StepShape:
        """The same step with `tokens` more prompt tokens, the first of them at position `start`."""
        pairs = tokens * start + tokens * (tokens + 1) // 2
        return StepShape(self.decodes, self.context, self.prefill + tokens, self.attention + pairs)


def shape_of(plan: BatchPlan) -> StepShape:
    """The shape of a planned step. One token that samples is a decode, whatever it continues."""
    shape = StepShape()
    decodes = context = 0
    for item in plan.items:
        if len(item.tokens) == 1 and item.sample:
            decodes += 1
            context += item.start + 1
        else:
            shape = shape.with_prefill(len(item.tokens), item.start)
    return StepShape(decodes, context, shape.prefill, shape.attention)


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """Seconds of a step. The defaults are a 135M model on two slow cores."""

    fixed_s: float = 0.018
    per_decode_s: float = 0.0012
    per_context_token_s: float = 1.5e-6
    per_prefill_token_s: float = 5.0e-4
    per_attention_pair_s: float = 2.0e-7

    def predict(self, shape: StepShape) -> float:
        return (
            self.fixed_s
            + self.per_decode_s * shape.decodes
            + self.per_context_token_s * shape.context
            + self.per_prefill_token_s * shape.prefill
            + self.per_attention_pair_s * shape.attention
        )

    def prefill_that_fits(self, limit_s: float, shape: StepShape, start: int) -> int:
        """The most prompt tokens from position `start` on that keep `shape` within `limit_s`; 0 where none do."""
        left = limit_s - self.predict(shape)
        if left <= 0.0:
            return 0
        # A fit may find that prefill is free; a nanosecond a token keeps the answer finite.
        linear = max(1e-9, self.per_prefill_token_s + self.per_attention_pair_s * (start + 0.5))
        square = self.per_attention_pair_s / 2.0
        # Solve square*c^2 + linear*c = left in the form that stays exact where square is tiny.
        return int(2.0 * left / (linear + (linear * linear + 4.0 * square * left) ** 0.5) + 1e-6)

    @classmethod
    def load(cls, path: str | Path) -> StepTimeModel:
        """Read coefficients from a JSON file; `default` gives the built-in ones."""
        if str(path) == "default":
            return cls()
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        unknown = set(values) - set(asdict(cls()))
        if unknown or not all(isinstance(value, int | float) and value >= 0 for value in values.values()):
            raise ValueError(f"{path} is no step-time model; it may hold {', '.join(asdict(cls()))}, none negative.")
        return cls(**values)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


_SCALE = (1.0, 16.0, 4096.0, 256.0, 65536.0)  # brings the five features near 1, which keeps the fit well conditioned


class StepTimeFit:
    """Least squares over recent steps by relative error, none of the coefficients negative.

    What recent steps say nothing about stays as it was: the solution is pulled towards the last one, very weakly, so
    long stretches of decoding do not forget what prefill costs.
    """

    def __init__(self, prior: StepTimeModel | None = None, forgetting: float = 0.995) -> None:
        self.model = prior or StepTimeModel()
        self.steps = 0
        self._forgetting = forgetting
        self._weights = [value * scale for value, scale in zip(asdict(self.model).values(), _SCALE, strict=True)]
        self._products = [[0.0] * 5 for _ in range(5)]  # sums of feature times feature
        self._targets = [0.0] * 5  # sums of feature times seconds

    def observe(self, shape: StepShape, seconds: float) -> None:
        """Learn from one step. A step ten times slower than predicted is a hiccup and teaches nothing."""
        self.steps += 1
        if seconds <= 0.0 or (self.steps > 16 and seconds > 10.0 * self.model.predict(shape)):
            return
        raw = (1, shape.decodes, shape.context, shape.prefill, shape.attention)
        # Dividing both sides by the seconds makes every step count by its relative error.
        features = [value / scale / seconds for value, scale in zip(raw, _SCALE, strict=True)]
        for row, products in zip(features, self._products, strict=True):
            for column in range(5):
                products[column] = products[column] * self._forgetting + row * features[column]
        for index, feature in enumerate(features):
            self._targets[index] = self._targets[index] * self._forgetting + feature
        self._solve()
        self.model = StepTimeModel(*(weight / scale for weight, scale in zip(self._weights, _SCALE, strict=True)))

    def _solve(self) -> None:
        """Coordinate descent from the last solution; a few sweeps per step are plenty."""
        weights, before = self._weights, tuple(self._weights)
        for _ in range(6):
            for index, products in enumerate(self._products):
                pull = 1e-4 * products[index] + 1e-9
                rest = sum(a * b for a, b in zip(products, weights, strict=True)) - products[index] * weights[index]
                weights[index] = max(
                    0.0, (self._targets[index] - rest + pull * before[index]) / (products[index] + pull)
                )


class StandInRunner:
    """Runs plans without a model. It stores a fingerprint of the context per KV slot and reads it through the tables.

    Its tokens depend on the whole context, so a wrong table, a missing copy or a stale cached block shows as wrong
    tokens. `elapse` is told how long the step took: a simulation moves its clock, a process sleeps.
    """

    kv_bytes_per_block = 0

    def __init__(
        self,
        kv_blocks: int,
        block_size: int,
        vocab_size: int,
        model: StepTimeModel | None = None,
        elapse: Callable[[float], None] = lambda seconds: None,
        first_token: int = 0,  # tokens are first_token .. first_token + vocab_size - 1
    ) -> None:
        self._first = first_token
        self._slots = [0] * (kv_blocks * block_size)
        self._block_size = block_size
        self._vocab = vocab_size
        self._model = model or StepTimeModel()
        self._elapse = elapse

    def run(self, plan: BatchPlan) -> list[int]:
        """The next token of every item that samples, in order."""
        size = self._block_size
        for copy in plan.copies:
            self._slots[copy.dst * size : (copy.dst + 1) * size] = self._slots[copy.src * size : (copy.src + 1) * size]
        rows: list[int] = []
        for item in plan.items:
            state = self._slots[self._slot(item.blocks, item.start - 1)] if item.start else 0
            for offset, token in enumerate(item.tokens):
                state = _mix(state, token)
                self._slots[self._slot(item.blocks, item.start + offset)] = state
            if item.sample:
                rows.append(self.next_token(state))
        self._elapse(self._model.predict(shape_of(plan)))
        return rows

    def next_token(self, state: int) -> int:
        return self._first + state % self._vocab

    def _slot(self, blocks: Sequence[int], position: int) -> int:
        return blocks[position // self._block_size] * self._block_size + position % self._block_size


def _mix(state: int, token: int) -> int:
    return int.from_bytes(blake2b(b"%d,%d" % (state, token), digest_size=6).digest(), "big")


def fingerprint(tokens: Sequence[int]) -> int:
    """What the stand-in stores after these tokens; an oracle for tests."""
    state = 0
    for token in tokens:
        state = _mix(state, token)
    return state


class StandInSampler:
    """Takes the stand-in's tokens as they are. Forked sequences move apart by their own seeds."""

    def __init__(self, vocab_size: int, first_token: int = 0) -> None:
        self._vocab, self._first = vocab_size, first_token

    def sample(self, rows: Sequence[int], requests: Sequence[Request]) -> list[tuple[int, TokenLogprob | None]]:
        return [(self._pick(row, request), None) for row, request in zip(rows, requests, strict=True)]

    def _pick(self, row: int, request: Request) -> int:
        if request.params.is_greedy:
            return row
        return self._first + (row - self._first + request.rng.randrange(self._vocab)) % self._vocab
