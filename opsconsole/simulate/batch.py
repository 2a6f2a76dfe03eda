"""The batch of a simulated replica: who decodes, when each is complete, and what a run of equal steps costs.

All decodes add one token a step, so one counter serves them all: a request that joins at step s with r tokens to go is
complete at step s + r, grows by a block whenever its residue of the counter comes round, and the context they read
grows by their number each step. k steps are then sums over arithmetic series. It must not know queues or admission. The
trap: what the counter knows is written back into a request only when it leaves.
"""

from __future__ import annotations

import heapq
import math

from opsconsole.simulate.kv_counts import KvCounts
from opsconsole.simulate.sequence import Sequence
from opsconsole.simulate.settings import ReplicaModel

Items = list[tuple[Sequence, int]]  # prompts in each step of a run, and their tokens a step


class Batch:
    """Aggregates of the decodes, and the run under way: `_steps` steps from `_start` on."""

    __slots__ = (
        "_batch_s",
        "_context",
        "_decodes",
        "_ends",
        "_first_s",
        "_growth_s",
        "_phases",
        "_slopes",
        "_start",
        "_steps",
        "kv",
        "model",
        "step",
    )

    def __init__(self, model: ReplicaModel) -> None:
        self.model = model
        self.kv = KvCounts(model.kv_blocks, model.block_size, model.hash_tokens, model.prefix_cache)
        self.step = 0  # steps done in which decodes ran
        curve = model.step
        self._batch_s = curve.table(model.chunk)
        self._slopes = (curve.per_decode_s, curve.per_context_s, curve.per_prefill_s, curve.per_pair_s)
        self._decodes = 0  # requests that decode
        self._context = 0  # tokens they will read in the next step
        self._phases = [0] * model.block_size  # how many of them grow by a block, by residue; see `_residue`
        self._ends: list[tuple[int, int, Sequence]] = []  # (step at which it is complete, place, request)
        self._start = 0.0
        self._steps = 0
        self._first_s = 0.0  # seconds of the run's first step
        self._growth_s = 0.0  # by which each step is longer than the one before

    # -- who decodes -------------------------------------------------------------------------------------------

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

    def _residue(self, step: int = 0) -> int:
        """Decodes of this phase need a fresh block in the step `step` steps from now: their tokens begin one."""
        return (1 - self.step - step) % self.kv.size

    def _growth(self, first: int, last: int) -> int:
        """Blocks taken by decodes in steps `first` to `last - 1` of the run, counted from 0."""
        count = last - first
        if count <= 0:
            return 0
        size, phases = self.kv.size, self._phases
        whole, rest = divmod(count, size)
        residue = 1 - self.step - first
        grown = whole * self._decodes
        for i in range(rest):
            grown += phases[(residue - i) % size]
        return grown

    def _tokens(self, request: Sequence) -> int:
        """Prompt and output so far of a request that decodes."""
        return request.prompt + request.output - (request.ends - self.step)

    def _table(self, request: Sequence) -> int:
        if not request.decoding:
            return request.table
        return max(request.table, self.kv.blocks_for(self._tokens(request) - 1))

    # -- what a run costs --------------------------------------------------------------------------------------

    def _price(self, items: Items) -> None:
        """Seconds of the first step, and by how much each one is longer than the one before."""
        decodes, context = self._decodes, self._context
        per_decode, per_context, per_prefill, per_pair = self._slopes
        self._growth_s = per_context * decodes
        if not items:
            self._first_s = self._batch_s[decodes] + per_decode * decodes + per_context * context
            return
        prefill = pairs = 0
        for request, count in items:
            start = request.computed
            if count == 1 and request.tokens - start == 1:  # one token that samples is a decode, whatever it continues
                decodes += 1
                context += request.tokens
            else:
                prefill += count
                pairs += count * start + count * (count + 1) // 2
        self._first_s = (
            self._batch_s[decodes + prefill]
            + per_decode * decodes
            + per_context * context
            + per_prefill * prefill
            + per_pair * pairs
        )
        self._growth_s += per_pair * items[0][1] ** 2

    def _length(self, items: Items, full: bool) -> int:
        """Steps until the batch changes: somebody completes, a prompt does, or blocks may run short."""
        decodes = self._decodes
        if items:
            request, count = items[0]
            if len(items) > 1 or not full:
                return 1
            steps = (request.tokens - request.computed - 1) // count
            if steps < 2:
                return 1
            if decodes:
                steps = min(steps, self._ends[0][0] - self.step)
        else:
            steps = self._ends[0][0] - self.step
        if decodes and decodes * (steps // self.kv.size + 1) > self.kv.free:
            steps = min(steps, max(1, self.kv.size * (self.kv.free // decodes - 1)))
        return max(1, steps)

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
