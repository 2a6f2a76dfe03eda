"""One simulated replica: the engine's scheduling rules over counts, stepping in closed form while the batch stays.

Decodes first, then prompts partly computed, then new requests, one token budget a step; preemption by recompute of the
last admitted; admission only beside a spare block for everybody who runs. A test holds it equal to the engine's own
scheduler, step for step. While nobody joins, finishes or is thrown out, k steps are one run: every decode adds one
token a step, so the time of k steps is a sum over an arithmetic series. It must not know the fleet. The trap: a run
that is under way ends early only for an arrival that could be admitted, at the end of the step the arrival falls into.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from opsconsole.simulate.kv_counts import KvCounts, Match
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import ReplicaModel

NEVER = math.inf


class Replica:
    """`submit` requests, `finish_run` at `next_at`; what completed is returned."""

    __slots__ = (
        "_base_s",
        "_batch_s",
        "_chunk",
        "_context",
        "_decodes",
        "_ends",
        "_first_s",
        "_full",
        "_growth_s",
        "_items",
        "_phases",
        "_places",
        "_prefilling",
        "_reserve",
        "_slopes",
        "_start",
        "_steps",
        "busy_s",
        "computed_prompt",
        "fast",
        "firsts",
        "kv",
        "max_seqs",
        "model",
        "next_at",
        "output_tokens",
        "preemptions",
        "prompt_tokens",
        "running",
        "step",
        "waiting",
    )

    def __init__(self, model: ReplicaModel, fast: bool = True) -> None:
        self.model = model
        self.kv = KvCounts(model.kv_blocks, model.block_size, model.hash_tokens, model.prefix_cache)
        self.fast = fast  # False: one step at a time, the reference
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.waiting: deque[Sequence] = deque()
        self.next_at = NEVER  # end of the run under way
        self.step = 0  # steps done in which decodes ran
        self.preemptions = 0
        self.output_tokens = 0
        self.prompt_tokens = 0  # of requests that got their first token
        self.computed_prompt = 0  # prompt tokens run through the model, recomputation included
        self.firsts: list[Sequence] = []  # requests that got their first token; whoever reads them empties the list
        self.busy_s = 0.0
        self.max_seqs = model.max_seqs
        self._batch_s = model.step.table(model.chunk)
        curve = model.step
        self._slopes = (curve.per_decode_s, curve.per_context_s, curve.per_prefill_s, curve.per_pair_s)
        self._chunk = model.chunk
        self._reserve = int(model.watermark * model.kv_blocks)
        self._prefilling: list[Sequence] = []
        self._decodes = 0  # requests that decode
        self._context = 0  # tokens they will read in the next step
        self._phases = [0] * model.block_size  # how many of them grow by a block at each residue of the step counter
        self._ends: list[tuple[int, int, Sequence]] = []  # (step at which it is complete, place, request)
        self._places = 0
        # The run under way: `_steps` from `_start` on, the first of `_first_s`, each `_growth_s` longer than the last.
        self._start = 0.0
        self._steps = 0
        self._first_s = 0.0
        self._growth_s = 0.0
        self._items: list[tuple[Sequence, int]] = []  # prompts in each step, and their tokens a step
        self._full = False  # the budget is spent: nobody can be admitted during the run

    # -- what the fleet does with it ---------------------------------------------------------------------------

    def submit(self, request: Sequence, now: float) -> None:
        """A request arrives. The run under way is cut short where the request could join."""
        self.waiting.append(request)
        if self.next_at == NEVER:
            self._plan(now)
        elif self._steps > 1 and not self._full and len(self.waiting) == 1 and self._admissible(request) is not None:
            self._cut(now)

    def finish_run(self) -> list[Sequence]:
        """The run ends: tokens are there, requests complete, the next run begins. Returns the complete ones."""
        now, steps = self.next_at, self._steps
        self.busy_s += now - self._start
        decodes = self._decodes
        if decodes:
            self.kv.take(self._growth(1, steps))
            self.step += steps
            self._context += decodes * steps
            self.output_tokens += decodes * steps
        done: list[Sequence] = []
        for request, count in self._items:
            request.computed += count * steps
            self.computed_prompt += count * steps
            self.kv.commit(request)
        if decodes and self._ends[0][0] <= self.step:
            self._complete_decodes(now, done)
        if self._items:
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
        shared = self.kv.shared_holdings()
        ratio = self.model.hash_tokens // self.model.block_size
        grow = self._phases[(1 - self.step) % self.kv.size] if self.next_at != NEVER else 0
        tables = sum(self._table(r) - ratio * sum(b is not None for b in r.held) for r in self.running)
        self.kv.check(tables + grow + ratio * len(shared))

    # -- a run ends --------------------------------------------------------------------------------------------

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
        self._items = []

    def _join_decodes(self, request: Sequence) -> None:
        request.decoding = True
        request.ends = self.step + request.output - request.generated
        request.phase = (request.tokens - self.step) % self.kv.size
        self._phases[request.phase] += 1
        self._decodes += 1
        self._context += request.tokens
        heapq.heappush(self._ends, (request.ends, request.place, request))

    def _leave_decodes(self, request: Sequence) -> None:
        """Write back what the step counter knows."""
        request.generated = request.output - (request.ends - self.step)
        request.tokens = request.prompt + request.generated
        request.computed = request.tokens - 1
        request.table = max(request.table, self.kv.blocks_for(request.computed))
        request.decoding = False
        self._phases[request.phase] -= 1
        self._decodes -= 1
        self._context -= request.tokens

    def _drop_stale_ends(self) -> None:
        """Entries of requests that were thrown out since."""
        ends = self._ends
        while ends and not (ends[0][2].decoding and ends[0][2].ends == ends[0][0]):
            heapq.heappop(ends)

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
        if items:
            self._price_prompts(items)
        else:
            per_decode, per_context, _, _ = self._slopes
            decodes = self._decodes
            self._first_s = self._batch_s[decodes] + per_decode * decodes + per_context * self._context
            self._growth_s = per_context * decodes
        self._steps = self._length(items) if self.fast else 1
        self.next_at = now + self._run_s(self._steps)

    def _length(self, items: list[tuple[Sequence, int]]) -> int:
        """Steps until the batch changes: somebody completes, a prompt does, or blocks may run short."""
        decodes = self._decodes
        if items:
            request, count = items[0]
            if len(items) > 1 or not self._full:
                return 1
            steps = (request.tokens - request.computed - 1) // count
            if steps < 2:
                return 1
        else:
            steps = self._ends[0][0] - self.step
        if decodes:
            steps = min(steps, self._ends[0][0] - self.step)
            if decodes * (steps // self.kv.size + 1) > self.kv.free:
                steps = min(steps, max(1, self.kv.size * (self.kv.free // decodes - 1)))
        return max(1, steps)

    def _price_prompts(self, items: list[tuple[Sequence, int]]) -> None:
        """Seconds of a step with prompts. One token that samples is a decode, whatever it continues."""
        decodes, context, prefill, pairs = self._decodes, self._context, 0, 0
        for request, count in items:
            start = request.computed
            if count == 1 and request.tokens - start == 1:
                decodes += 1
                context += request.tokens
            else:
                prefill += count
                pairs += count * start + count * (count + 1) // 2
        per_decode, per_context, per_prefill, per_pair = self._slopes
        self._first_s = (
            self._batch_s[decodes + prefill]
            + per_decode * decodes
            + per_context * context
            + per_prefill * prefill
            + per_pair * pairs
        )
        self._growth_s = per_context * self._decodes + per_pair * items[0][1] ** 2

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
        grow = self._phases[(1 - self.step) % self.kv.size]
        if grow <= self.kv.free:
            if grow:
                self.kv.take(grow)
            self._drop_stale_ends()
            return False
        phase = (1 - self.step) % self.kv.size
        grown: set[Sequence] = set()
        for request in list(self.running):
            if not request.decoding or request.phase != phase:
                continue
            while self.kv.free < 1 and request.decoding:
                victim = next(reversed(self.running))
                self._preempt(victim, victim in grown)
            if not request.decoding:
                break
            self.kv.take(1)
            grown.add(request)
        self._drop_stale_ends()
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

    # -- arithmetic --------------------------------------------------------------------------------------------

    def _cut(self, now: float) -> None:
        """End the run with the step that `now` falls into."""
        steps = self._steps_until(now)
        if steps < self._steps:
            self._steps = steps
            self.next_at = self._start + self._run_s(steps)

    def _run_s(self, steps: int) -> float:
        return steps * self._first_s + self._growth_s * (steps * (steps - 1) // 2)

    def _steps_until(self, now: float) -> int:
        """The least number of steps, at least 1, that reach `now`."""
        spent = now - self._start
        slope = self._first_s - self._growth_s / 2
        if slope <= 0.0:
            return self._steps
        guess = 2.0 * spent / (slope + math.sqrt(slope * slope + 2.0 * self._growth_s * spent))
        steps = max(1, min(self._steps, math.ceil(guess)))
        while steps < self._steps and self._run_s(steps) < spent:
            steps += 1
        while steps > 1 and self._run_s(steps - 1) >= spent:
            steps -= 1
        return steps

    def _growth(self, first: int, last: int) -> int:
        """Blocks taken by decodes in steps `first` to `last - 1` of the run, counted from 0."""
        count = last - first
        if count <= 0:
            return 0
        size, phases = self.kv.size, self._phases
        whole, rest = divmod(count, size)
        residue = 1 - self.step - first
        return whole * self._decodes + sum(phases[(residue - i) % size] for i in range(rest))

    def _tokens(self, request: Sequence) -> int:
        return request.prompt + request.output - (request.ends - self.step)

    def _table(self, request: Sequence) -> int:
        if not request.decoding:
            return request.table
        return max(request.table, self.kv.blocks_for(self._tokens(request) - 1))
