"""What one engine step does, as a value.

The scheduler writes it, the model runner (or the step-time stand-in) executes it, and nobody asks the scheduler
anything in between. It must not know torch, queues or sampling parameters. The trap: `blocks` is a snapshot of the
block table as it stands *for this step*; a later preemption may give those blocks to somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy-on-write: the keys and values of block `src` are copied to `dst` before the step runs."""

    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """The tokens of one request that run in this step."""

    request_id: str
    tokens: tuple[int, ...]  # token ids to run, never empty
    start: int  # context position of tokens[0]; equals the number of tokens whose KV is already stored
    blocks: tuple[int, ...]  # physical block ids that cover positions 0 .. start + len(tokens) - 1
    sample: bool  # the logits of the last token are wanted


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One forward pass over many requests. An empty plan (no items) must not be run."""

    step: int  # counts from 1; gaps never occur
    items: tuple[ScheduledRequest, ...]
    copies: tuple[BlockCopy, ...] = ()  # done in order, before the forward pass
    preempted: tuple[str, ...] = ()  # request ids whose blocks were taken back while planning this step

    @property
    def token_count(self) -> int:
        """Tokens computed by the step, over all requests."""
        return sum(len(item.tokens) for item in self.items)

    @property
    def sampled(self) -> tuple[ScheduledRequest, ...]:
        """The items whose last logits the runner returns, in the order of the rows it returns."""
        return tuple(item for item in self.items if item.sample)
