"""The brain: queues and blocks in, one `BatchPlan` out.

Before every step: running decodes first, then prompts that are partly computed, then new requests, all within one
token budget; a prompt gets what is left of it, in chunks. When blocks run out, the most recently admitted request
(or the least important one) gives its blocks back and starts over from its tokens. It must not know torch, clocks
or text. The trap: a request is admitted only if all its tokens so far fit *beside* one more block for every running
sequence; without that reserve the next step would throw it out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from engine.block_manager import BlockManager
from engine.chunk_cap import StepTime
from engine.config import EngineConfig, QueueOrder
from engine.line import Line
from engine.plan import BatchPlan, BlockCopy, ScheduledRequest
from engine.queue import make_queue
from engine.request import FinishReason, Request, RequestState


@dataclass(slots=True)
class _Draft:
    """A plan in the making."""

    budget: int  # tokens left in this step
    prefill: int  # of which prompt tokens may be
    items: dict[str, ScheduledRequest] = field(default_factory=dict)
    copies: list[BlockCopy] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)

    def add(self, request: Request, count: int, blocks: tuple[int, ...]) -> None:
        end = request.computed + count
        self.items[request.request_id] = ScheduledRequest(
            request.request_id,
            tuple(request.tokens[request.computed : end]),
            request.computed,
            blocks,
            sample=end == len(request.tokens),
        )
        self.budget -= count

    def drop(self, request: Request) -> None:
        item = self.items.pop(request.request_id, None)
        if item is not None:
            self.budget += len(item.tokens)


class Scheduler:
    """Owns the waiting and the running requests of one engine."""

    def __init__(self, config: EngineConfig, blocks: BlockManager) -> None:
        self.config = config
        self.blocks = blocks
        self.waiting = make_queue(config.order)
        self.running: list[Request] = []
        self.preemptions = 0
        self.cache_queries = 0  # prompt tokens looked up at first admissions
        self.cache_hits = 0  # of which were found
        self._step = 0
        self._line = Line(config)

    def add(self, request: Request) -> None:
        """Put a new request in the queue."""
        self.waiting.push(request)

    def schedule(self, now: float, step_time: StepTime | None = None) -> BatchPlan | None:
        """Plan the next step; None where nothing can run."""
        line = self._line
        line.begin(now, step_time if self.config.cap_chunks else None)
        draft = _Draft(self.config.chunk, self._prefill_limit(line))
        self._continue_decodes(draft)
        self._continue_prefills(draft, line)
        if not draft.preempted:
            self._admit(draft, line)
        if not draft.items:
            if draft.preempted:  # the only one to run made room for itself by leaving; plan for those who stay
                return self.schedule(now, step_time)
            assert not self.running and not self.waiting, "requests exist and none can run"
            return None
        self._step += 1
        return BatchPlan(self._step, tuple(draft.items.values()), tuple(draft.copies), tuple(draft.preempted))

    def computed(self, plan: BatchPlan) -> None:
        """The plan ran: its tokens are stored, and full blocks can be found by others."""
        running = {request.request_id: request for request in self.running}
        for item in plan.items:
            request = running[item.request_id]
            request.computed = item.start + len(item.tokens)
            self.blocks.commit(request)

    def fork(self, parent: Request) -> tuple[Request, ...]:
        """Start the children of a request whose prompt has just been computed; they share its blocks."""
        children, parent.children = parent.children, ()
        for child in children:
            self.blocks.fork(parent.request_id, child.request_id)
            child.computed = parent.computed
            child.cached_tokens, child.scheduled_at = parent.cached_tokens, parent.scheduled_at
            child.state = RequestState.RUNNING
        place = self.running.index(parent) + 1
        self.running[place:place] = children
        return children

    def finish(self, request: Request, reason: FinishReason) -> None:
        """Take a request out, wherever it is, and its blocks back."""
        if request.state is RequestState.RUNNING:
            self.running.remove(request)
            self.blocks.release(request.request_id)
        elif request.state is RequestState.WAITING:
            self.waiting.remove(request.request_id)
        request.state = RequestState.FINISHED
        request.finish = reason

    def check(self) -> None:
        """Every request is in one place, and holds blocks exactly while it runs."""
        self.waiting.check()
        self.blocks.check()
        ids = [request.request_id for request in chain(self.running, self.waiting)]
        assert len(set(ids)) == len(ids), "a request is in two places"
        for request in self.running:
            table = self.blocks.table(request.request_id)
            assert request.state is RequestState.RUNNING, f"{request.request_id} runs but is {request.state}"
            assert 0 <= request.computed < len(request.tokens), f"{request.request_id} has nothing left to compute"
            assert request.computed <= len(table) * self.blocks.block_size, f"{request.request_id} lacks blocks"
        for request in self.waiting:
            assert request.state is RequestState.WAITING and request.computed == 0, f"{request.request_id} is not idle"
        assert sum(request.width for request in self.running) <= self.config.max_seqs, "too many sequences run"

    # -- the three passes of a step, in order ------------------------------------------------------------------

    def _continue_decodes(self, draft: _Draft) -> None:
        for request in [request for request in self.running if request.is_decoding]:
            if draft.budget == 0:
                return
            if request.state is not RequestState.RUNNING:
                continue  # gave its blocks to one before it
            if not self._make_room(request, draft):
                return
            draft.copies += self.blocks.grow(request, len(request.tokens))
            draft.add(request, 1, self.blocks.table(request.request_id))

    def _continue_prefills(self, draft: _Draft, line: Line) -> None:
        for request in line.in_order([request for request in self.running if not request.is_decoding]):
            count = self._chunk(request, draft)
            if count == 0:
                return
            self._add_prefill(request, count, draft)

    def _admit(self, draft: _Draft, line: Line) -> None:
        while True:
            request = line.next_to_admit(self.waiting, self.blocks)
            if request is None or self._seats_taken() + request.width > self.config.max_seqs:
                return
            match = self.blocks.match(request)
            if self._chunk(request, draft) == 0 or not self.blocks.can_admit(request, match, self._reserve(request)):
                return
            line.admitted(request, self.waiting)
            self.blocks.admit(request, match)
            self.running.append(request)
            request.state = RequestState.RUNNING
            request.computed = match.tokens
            if request.scheduled_at is None:  # recomputing after a preemption is no new query
                request.scheduled_at = line.now
                request.cached_tokens = match.tokens
                self.cache_queries += len(request.prompt) if self.config.prefix_cache else 0
                self.cache_hits += match.tokens
            self._add_prefill(request, self._chunk(request, draft), draft)

    # -- rules -------------------------------------------------------------------------------------------------

    def _chunk(self, request: Request, draft: _Draft) -> int:
        """Prompt tokens this request may compute now."""
        threshold = self.config.long_prefill_threshold
        alone = len(self.running) + len(self.waiting) == 1
        limit = threshold if threshold > 0 and not alone else request.remaining
        return max(0, min(request.remaining, limit, draft.budget, draft.prefill))

    def _add_prefill(self, request: Request, count: int, draft: _Draft) -> None:
        draft.add(request, count, self.blocks.table(request.request_id))
        draft.prefill -= count

    def _seats_taken(self) -> int:
        return sum(request.width for request in self.running)

    def _reserve(self, request: Request) -> int:
        """Blocks that stay free at admission: the watermark, and the next block of everybody who runs."""
        if not self.running:
            return 0  # alone, anything that fits may start: there is nobody to take its blocks
        return int(self.config.watermark * self.blocks.count) + self._seats_taken() + request.width

    def _prefill_limit(self, line: Line) -> int:
        decoding = [request for request in self.running if request.is_decoding]
        prefilling = [request for request in self.running if not request.is_decoding]
        return line.allowance(decoding, prefilling, self.waiting, self.blocks)

    def _make_room(self, request: Request, draft: _Draft) -> bool:
        """Preempt until the request can grow; False where it had to go itself."""
        while not self.blocks.can_grow(request, len(request.tokens)):
            victim = self._victim()
            self._preempt(victim, draft)
            if victim is request:
                return False
        return True

    def _victim(self) -> Request:
        if self.config.order is QueueOrder.PRIORITY:
            return max(self.running, key=lambda request: (request.priority, request.arrival))
        return self.running[-1]

    def _preempt(self, victim: Request, draft: _Draft) -> None:
        draft.drop(victim)
        self.running.remove(victim)
        self.blocks.release(victim.request_id)
        victim.state = RequestState.WAITING
        victim.computed = 0
        victim.preemptions += 1
        self.preemptions += 1
        self.waiting.push_front(victim)
        draft.preempted.append(victim.request_id)
