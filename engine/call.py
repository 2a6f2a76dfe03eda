"""One call of the API while it is answered: its choices, their text so far, and what has not been sent yet.

It must not know threads, HTTP or the scheduler. The trap: a slow reader finds several tokens at once; what is
pending is merged per choice, so that memory stays bounded by the answer and not by the number of events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.config import SloClass
from engine.metrics import Ended
from engine.protocol_requests import CallSpec
from engine.request import FinishReason, Request, TokenLogprob
from engine.stop_strings import StopScanner
from engine.text import Codec, Decoder


class LogprobEntry(NamedTuple):
    """A token's log probability with the texts that the API shows."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """What a choice has for the client since last time."""

    index: int
    text: str
    logprobs: tuple[LogprobEntry, ...]
    finish: FinishReason | None


@dataclass(slots=True, eq=False)
class Choice:
    """One sequence of a call."""

    index: int
    parent: Request  # whose prompt it continues; the request itself unless n > 1
    request: Request
    decoder: Decoder
    stops: tuple[str, ...]
    call: Call = field(init=False)
    text: list[str] = field(default_factory=list)
    logprobs: list[LogprobEntry] = field(default_factory=list)
    tokens: int = 0
    first_at: float | None = None
    last_at: float | None = None
    finish: FinishReason | None = None
    stop: str | int | None = None  # the stop string or token id that ended it
    scanner: StopScanner = field(init=False)
    sent_pieces: int = 0
    sent_logprobs: int = 0
    sent_finish: bool = False

    def __post_init__(self) -> None:
        self.scanner = StopScanner(self.stops)

    def push(self, token: int, logprob: TokenLogprob | None, finish: FinishReason | None, codec: Codec) -> bool:
        """Take in a token; True where its text completes a stop string."""
        self.tokens += 1
        if finish is FinishReason.STOP:
            self.stop = self.request.stop_token
            return self._scan(self.decoder.finish(), last=True)
        if logprob is not None:
            top = tuple((codec.token_text(other), value) for other, value in logprob.top)
            self.logprobs.append(LogprobEntry(codec.token_text(token), logprob.logprob, top))
        piece = self.decoder.push(token)
        if finish is not None:
            piece += self.decoder.finish()
        return self._scan(piece, last=finish is not None)

    def _scan(self, piece: str, *, last: bool) -> bool:
        scan = self.scanner.push(piece)
        text = scan.text + (self.scanner.finish() if last and scan.stop is None else "")
        if text:
            self.text.append(text)
        if scan.stop is not None:
            self.stop = scan.stop
        return scan.stop is not None

    def take(self) -> Delta | None:
        """What is new since the last call; None where nothing is."""
        text = "".join(self.text[self.sent_pieces :])
        logprobs = tuple(self.logprobs[self.sent_logprobs :])
        finish = None if self.sent_finish else self.finish
        if not text and not logprobs and finish is None:
            return None
        self.sent_pieces, self.sent_logprobs = len(self.text), len(self.logprobs)
        self.sent_finish = finish is not None
        return Delta(self.index, text, logprobs, finish)


class Call:
    """All choices of one call. `changed` is set when there is something to take."""

    def __init__(self, call_id: str, spec: CallSpec, slo: SloClass, arrival: float) -> None:
        self.call_id, self.spec, self.slo, self.arrival = call_id, spec, slo, arrival
        self.choices: list[Choice] = []
        self.error: str | None = None
        self.left = False  # the client is gone
        self.changed = asyncio.Event()

    def fail(self, message: str) -> None:
        """End the call with an error, unless it is complete."""
        if not self.is_done:
            self.error = message
        self.changed.set()

    def leave(self) -> None:
        """The client is gone; nobody waits for the rest."""
        self.left = True
        self.changed.set()

    @property
    def is_done(self) -> bool:
        return self.left or self.error is not None or all(choice.finish is not None for choice in self.choices)

    def take(self) -> list[Delta]:
        return [delta for choice in self.choices if (delta := choice.take()) is not None]

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt) for prompt in self.spec.prompts)

    @property
    def cached_tokens(self) -> int:
        return sum(choice.parent.cached_tokens or 0 for choice in self.choices if choice.parent is choice.request)

    @property
    def completion_tokens(self) -> int:
        return sum(choice.tokens for choice in self.choices)

    @property
    def ttft_s(self) -> float | None:
        """Arrival to the first token of any choice."""
        firsts = [choice.first_at for choice in self.choices if choice.first_at is not None]
        return min(firsts) - self.arrival if firsts else None

    @property
    def tpot_s(self) -> float | None:
        """The slowest choice's time per output token."""
        return max(self._tpots(), default=None)

    def _tpots(self) -> Sequence[float]:
        ended = [
            Ended(c.request, c.finish or FinishReason.ABORT, 0.0, c.tokens, c.first_at, c.last_at, 1)
            for c in self.choices
        ]
        return [sequence.tpot_s for sequence in ended if sequence.tpot_s is not None]
