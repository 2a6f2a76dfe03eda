"""One request inside the engine: what was asked, and how far it is.

It must not know HTTP, text or torch. The trap: `tokens` is prompt and output in one list, and `computed` counts
those whose keys and values are stored; after a preemption `computed` falls to 0 while `tokens` keeps everything
generated, so that recomputing is an ordinary prefill.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.config import SloClass

NO_BOUNDS = SloClass("default")


class RequestState(StrEnum):
    """Where a request is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class FinishReason(StrEnum):
    """Why a request ended; the value is the word of the API and of the metrics."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen, and when to stop. Defaults change nothing: plain sampling at temperature 1."""

    max_tokens: int
    temperature: float = 1.0  # 0 = greedy
    top_k: int = 0  # 0 = all
    top_p: float = 1.0
    min_p: float = 0.0  # relative to the most likely token
    repetition_penalty: float = 1.0  # over prompt and output; > 1 discourages
    presence_penalty: float = 0.0  # over the output
    frequency_penalty: float = 0.0  # over the output
    seed: int = 0
    min_tokens: int = 0  # end-of-sequence and stop ids are impossible before
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None  # how many alternatives to report beside the chosen token; None = no logprobs
    n: int = 1  # sequences sampled from one prompt

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def is_plain(self) -> bool:
        """True where the logits are used as they are: nothing to penalise, forbid or report."""
        return (
            self.repetition_penalty == 1.0
            and self.presence_penalty == 0.0
            and self.frequency_penalty == 0.0
            and self.min_tokens == 0
            and self.logprobs is None
        )


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log probabilities of one position, from the unmodified logits."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # (token, logprob), most likely first


@dataclass(slots=True, eq=False)
class Request:
    """A sequence on its way. Compared by identity."""

    request_id: str
    prompt: tuple[int, ...]
    params: SamplingParams
    arrival: float  # seconds on the engine's clock
    priority: int = 0
    slo: SloClass = NO_BOUNDS
    salt: str = ""  # requests share cached prefixes only within one salt
    state: RequestState = RequestState.WAITING
    tokens: list[int] = field(default_factory=list)
    computed: int = 0
    cached_tokens: int | None = None  # prompt tokens found in the cache at first admission; None before it
    preemptions: int = 0
    scheduled_at: float | None = None  # first admission
    first_token_at: float | None = None
    last_token_at: float | None = None
    finish: FinishReason | None = None
    stop_token: int | None = None  # the stop token id that ended it
    children: tuple[Request, ...] = ()  # sequences that fork off once the prompt is computed
    hashes: list[bytes] = field(default_factory=list)  # chain over full blocks of `tokens`
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("The prompt is empty; send at least one token.")
        self.tokens = list(self.prompt)
        self.rng = random.Random(self.params.seed)
        if self.params.n > 1 and not self.children:
            self.children = tuple(self._child(index) for index in range(1, self.params.n))

    def _child(self, index: int) -> Request:
        params = replace(self.params, n=1, seed=self.params.seed + index)
        return Request(
            f"{self.request_id}/{index}", self.prompt, params, self.arrival, self.priority, self.slo, self.salt
        )

    @property
    def output_count(self) -> int:
        return len(self.tokens) - len(self.prompt)

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return len(self.tokens) - self.computed

    @property
    def is_decoding(self) -> bool:
        return self.computed >= len(self.prompt) and len(self.tokens) - self.computed == 1

    @property
    def width(self) -> int:
        """Sequences this request will occupy once its prompt is computed."""
        return 1 + len(self.children)

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; undefined below two tokens."""
        if self.first_token_at is None or self.last_token_at is None or self.output_count < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (self.output_count - 1)
