"""One simulated replica: the engine's scheduling rules over counts, stepping in closed form while the batch stays.

Decodes first, then prompts partly computed, then new requests, one token budget a step; preemption by recompute of the
last admitted; admission only beside a spare block for everybody who runs. A test holds it equal to the engine's own
scheduler, step for step. While nobody joins, finishes or is thrown out, k steps are one run. It must not know the
fleet. The trap: a run that is under way ends early only for an arrival that could be admitted, at the end of the step
the arrival falls into.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from opsconsole.simulate.batch import Batch, Items
from opsconsole.simulate.kv_counts import Match
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import ReplicaModel

NEVER = math.inf


class Replica(Batch):
    """`submit` requests, `finish_run` at `next_at`; what completed is returned."""

    __slots__ = (
        "_chunk",
        "_full",
        "_items",
        "_places",
        "_prefilling",
        "_reserve",
        "busy_s",
        "computed_prompt",
        "fast",
        "firsts",
        "max_seqs",
        "next_at",
        "output_tokens",
        "preemptions",
        "prompt_tokens",
        "running",
        "waiting",
    )

    def __init__(self, model: ReplicaModel, fast: bool = True) -> None:
        super().__init__(model)
        self.fast = fast  # False: one step at a time, the reference
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.waiting: deque[Sequence] = deque()
        self.next_at = NEVER  # end of the run under way
        self.preemptions = 0
        self.output_tokens = 0
        self.prompt_tokens = 0  # of requests that got their first token
        self.computed_prompt = 0  # prompt tokens run through the model, recomputation included
        self.firsts: list[Sequence] = []  # requests that got their first token; whoever reads them empties the list
        self.busy_s = 0.0
        self.max_seqs = model.max_seqs
        self._chunk = model.chunk
        self._reserve = int(model.watermark * model.kv_blocks)
        self._prefilling: list[Sequence] = []
        self._places = 0
        self._items: Items = []
        self._full = False  # the budget is spent: nobody can be admitted during the run

    # -- what the fleet does with it ---------------------------------------------------------------------------

    def submit(self, request: Sequence, now: float) -> None:
        """A request arrives. The run under way is cut short where the request could join."""
        self.waiting.append(request)
        if self.next_at == NEVER:
            self._plan(now)
        elif self._steps > 1 and not self._full and len(self.waiting) == 1 and self._admissible(request) is not None:
            steps = self._steps_until(now)
            if steps < self._steps:
                self._steps = steps
                self.next_at = self._start + self._run_s(steps)

    def finish_run(self) -> list[Sequence]:
        """The run ends: tokens are there, requests complete, the next run begins. Returns the complete ones."""
        now, steps, items = self.next_at, self._steps, self._items
        self.busy_s += now - self._start
        decodes = self._decodes
        grown = self._growth(1, steps) if decodes else 0
        if grown > self.kv.plain and items and items[0][0].blocks:
            self._compute_by_steps(items, steps)
        else:
            if grown:
                self.kv.take(grown)
            for request, count in items:
                request.computed += count * steps
                self.kv.commit(request)
        if decodes:
            self.step += steps
            self._context += decodes * steps
            self.output_tokens += decodes * steps
        done: list[Sequence] = []
        if decodes and self._ends[0][0] <= self.step:
            self._complete_decodes(now, done)
        if items:
            self.computed_prompt += steps * sum(count for _, count in items)
            self._complete_prompts(now, done)
        self.next_at = NEVER
        if self.running or self.waiting:
            self._plan(now)
        return done

    def give_up(self) -> list[Sequence]:
        """The replica dies: everything it had, in no particular state."""
        left = [*self.running, *self.waiting]
        self.running.clear()
        self.waiting.clear()
        self._prefilling.clear()
        self._ends.clear()
        self.next_at = NEVER
        return left

    def steps_done(self, now: float) -> int:
        """Steps of the run under way that have ended by `now`."""
        if self.next_at == NEVER:
            return 0
        steps = self._steps_until(now)
        return steps if self._run_s(steps) <= now - self._start else steps - 1

    def used_fraction(self, now: float) -> float:
        """Share of the blocks that somebody holds."""
        grown = self._growth(1, self.steps_done(now)) if self._decodes else 0
        return (self.kv.total - self.kv.free + grown) / self.kv.total

    def output_at(self, now: float) -> int:
        """Output tokens made by `now`."""
        return self.output_tokens + self._decodes * self.steps_done(now)

    def busy_at(self, now: float) -> float:
        """Seconds with a batch in flight until `now`."""
        return self.busy_s + (now - self._start if self.next_at != NEVER else 0.0)

    def check(self) -> None:
        """Conservation: every request in one place, every block with one fate, every aggregate equal to its sum."""
        decoding = [request for request in self.running if request.decoding]
        assert len(decoding) == self._decodes and sum(self._phases) == self._decodes, "decodes were miscounted"
        assert self._context == sum(self._tokens(r) for r in decoding), "the context was miscounted"
        assert set(self._prefilling) == {r for r in self.running if not r.decoding}, "a prompt is lost"
        assert len(self.running) <= self.max_seqs, "too many run"
        ratio = self.model.hash_tokens // self.model.block_size
        grow = self._phases[self._residue()] if self.next_at != NEVER else 0
        tables = sum(self._table(r) - ratio * sum(b is not None for b in r.held) for r in self.running)
        self.kv.check(tables + grow + ratio * len(self.kv.shared_holdings()))

    # -- a run ends --------------------------------------------------------------------------------------------

    def _compute_by_steps(self, items: Items, steps: int) -> None:
        """Blocks taken and published in the order of the steps: what is evicted between two of them matters."""
        for step in range(steps):
            if step:
                self.kv.take(self._growth(step, step + 1))
            for request, count in items:
                request.computed += count
                self.kv.commit(request)

    def _complete_decodes(self, now: float, done: list[Sequence]) -> None:
        ends, step = self._ends, self.step
        while ends and ends[0][0] <= step:
            at, _, request = heapq.heappop(ends)
            if request.decoding and request.ends == at:
                self._leave_decodes(request)
                request.last = now
                del self.running[request]
                self.kv.release(request)
                done.append(request)
        self._drop_stale_ends()

    def _complete_prompts(self, now: float, done: list[Sequence]) -> None:
        for request, _ in self._items:
            left = request.tokens - request.computed
            if left == 0:
                self.output_tokens += 1
                request.generated += 1
                request.tokens += 1
                if request.first is None:
                    request.first = now
                    self.prompt_tokens += request.prompt
                    self.firsts.append(request)
                self._prefilling.remove(request)
                if request.generated >= request.output:
                    request.last = now
                    del self.running[request]
                    self.kv.release(request)
                    done.append(request)
                else:
                    self._join_decodes(request)
            elif left == 1 and request.computed >= request.prompt:  # recomputed up to its newest token: goes first now
                self._prefilling.remove(request)
                self._prefilling.insert(0, request)

    # -- a run begins ------------------------------------------------------------------------------------------

    def _plan(self, now: float) -> None:
        """The next run: who is in the batch, for how many steps, and how long that takes."""
        while True:
            preempted = self._make_room()
            budget = self._chunk - self._decodes
            items = self._items = []
            for request in self._prefilling:
                if budget == 0:
                    break
                count = min(request.tokens - request.computed, budget)
                items.append((request, count))
                budget -= count
            if self.waiting and not preempted:
                budget = self._admit(budget)
            if items or self._decodes:
                break
            assert preempted, "requests exist and none can run"
        self._full = budget == 0
        self._start = now
        self._price(items)
        # The step after one that threw somebody out may admit again.
        self._steps = self._length(items, self._full) if self.fast and not preempted else 1
        self.next_at = now + self._run_s(self._steps)

    def _admit(self, budget: int) -> int:
        """Head of the queue first, while the budget, the seats and the blocks last."""
        while budget > 0 and self.waiting:
            request = self.waiting[0]
            match = self._admissible(request)
            if match is None:
                break
            self.waiting.popleft()
            self.kv.admit(request, match)
            request.computed = self.kv.matched_tokens(match)
            if request.cached is None:
                request.cached = request.computed
            request.place = self._places
            self._places += 1
            self.running[request] = None
            self._prefilling.append(request)
            count = min(request.tokens - request.computed, budget)
            self._items.append((request, count))
            budget -= count
        return budget

    def _admissible(self, request: Sequence) -> Match | None:
        """The cached prefix it would start with, where it may start now."""
        seats = len(self.running)
        if seats >= self.max_seqs:
            return None
        match = self.kv.match(request)
        reserve = self._reserve + seats + 1 if seats else 0
        return match if self.kv.fits(request, match, reserve) else None

    def _make_room(self) -> bool:
        """The blocks that decodes grow by in the coming step; True where somebody had to leave for them."""
        if self._decodes == 0:
            return False
        phase = self._residue()
        grow = self._phases[phase]
        if grow <= self.kv.free:
            if grow:
                self.kv.take(grow)
            self._drop_stale_ends()
            return False
        grown: set[Sequence] = set()
        for request in list(self.running):
            if not request.decoding or request.phase != phase:
                continue
            if not self._room_for(request, grown):
                break
            self.kv.take(1)
            grown.add(request)
        self._drop_stale_ends()
        return True

    def _room_for(self, request: Sequence, grown: set[Sequence]) -> bool:
        """Throw out the last admitted until a block is free; False where that was the request itself."""
        while self.kv.free < 1:
            victim = next(reversed(self.running))
            self._preempt(victim, victim in grown)
            if victim is request:
                return False
        return True

    def _preempt(self, victim: Sequence, grown: bool) -> None:
        del self.running[victim]
        if victim.decoding:
            self._leave_decodes(victim)
            victim.table += grown
        else:
            self._prefilling.remove(victim)
        self.kv.release(victim)
        victim.computed = 0
        victim.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(victim)
