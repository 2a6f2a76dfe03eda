"""The engine without a mouth: add requests, step, read tokens.

A step is three calls: plan, run, take the samples in. Whatever runs plans will do (the torch runner, the stand-in
of `step_time`), so this file must not know torch, threads or text. The trap: everything here belongs to one thread;
others may only read `stats()`, which is made of plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine.block_manager import BlockManager
from engine.config import EngineConfig
from engine.plan import BatchPlan
from engine.request import FinishReason, Request, RequestState, TokenLogprob
from engine.scheduler import Scheduler
from engine.step_time import StepTimeFit, shape_of


class Runner(Protocol):
    """Runs a plan; returns one row per item that samples, in a form its sampler understands."""

    def run(self, plan: BatchPlan) -> Any: ...


class Sampler(Protocol):
    """Chooses one token per row."""

    def sample(self, rows: Any, requests: Sequence[Request]) -> list[tuple[int, TokenLogprob | None]]: ...


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one sequence got from a step. `token` is None where it ended without one."""

    request: Request
    token: int | None
    logprob: TokenLogprob | None = None
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The engine in numbers. Totals count from its start."""

    running: int
    waiting: int
    waiting_tokens: int
    kv_usage: float  # fraction of the blocks that somebody holds
    preemptions: int
    cache_queries: int  # prompt tokens
    cache_hits: int
    computed_prompt_tokens: int  # prompt tokens run through the model, recomputation after preemption included
    steps: int
    busy_s: float  # time spent in steps

    def since(self, before: EngineStats) -> EngineStats:
        """The same readings, with totals counted from `before`."""
        return replace(
            self,
            preemptions=self.preemptions - before.preemptions,
            cache_queries=self.cache_queries - before.cache_queries,
            cache_hits=self.cache_hits - before.cache_hits,
            computed_prompt_tokens=self.computed_prompt_tokens - before.computed_prompt_tokens,
            steps=self.steps - before.steps,
            busy_s=self.busy_s - before.busy_s,
        )


class EngineCore:
    """One model, one KV cache, one thread."""

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        sampler: Sampler,
        now: Callable[[], float],
        *,
        block_order: Iterable[int] | None = None,
        step_time: StepTimeFit | None = None,
    ) -> None:
        self.config = config
        self.step_time = step_time or StepTimeFit()
        self.scheduler = Scheduler(
            config, BlockManager(config.kv_blocks, config.block_size, config.prefix_cache, block_order)
        )
        self._runner, self._sampler, self._now = runner, sampler, now
        self._requests: dict[str, Request] = {}
        self._computed_prompt_tokens = 0
        self._steps = 0
        self._busy_s = 0.0
        self.last_step_tokens = 0

    @property
    def has_work(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        """Queue a request. One that could never run is refused here."""
        total = len(request.prompt) + request.params.max_tokens
        if total > self.config.max_model_len:
            raise ValueError(f"{total} tokens are more than the context of {self.config.max_model_len}.")
        if request.width > self.config.max_seqs:
            raise ValueError(f"n is {request.width}; this engine runs at most {self.config.max_seqs} sequences.")
        self.scheduler.add(request)
        for member in (request, *request.children):
            self._requests[member.request_id] = member

    def finish(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> Request | None:
        """End a request from outside: the client left, or a stop string matched. None where it has ended already."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return None
        for child in request.children:  # not forked yet: they end with their parent
            self._requests.pop(child.request_id, None)
            self.scheduler.finish(child, reason)
        self.scheduler.finish(request, reason)
        return request

    def abort(self, request_id: str) -> Request | None:
        return self.finish(request_id, FinishReason.ABORT)

    def abort_all(self, reason: FinishReason) -> list[StepOutput]:
        """End everything, as after a failed step."""
        ended: list[StepOutput] = []
        for request in list(self._requests.values()):
            self.finish(request.request_id, reason)
            ended.append(StepOutput(request, None, finish=reason))
        return ended

    def step(self) -> list[StepOutput]:
        """Plan, run, take in. Empty where there is nothing to do or nothing was sampled."""
        began = self._now()
        plan = self.scheduler.schedule(began, self.step_time.model)
        if plan is None:
            return []
        ran = self._now()
        rows = self._runner.run(plan)
        sampling = self._expand(plan)
        samples = self._sampler.sample(self._spread(rows, sampling), [request for request, _ in sampling])
        ended = self._now()
        self.step_time.observe(shape_of(plan), ended - ran)
        self._count(plan, ended - began)
        return self._take_in(plan, sampling, samples, ended)

    def stats(self) -> EngineStats:
        """A reading for other threads: plain numbers, each of them right, together at most one step apart."""
        scheduler = self.scheduler
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            waiting_tokens=scheduler.waiting.tokens,
            kv_usage=scheduler.blocks.used_fraction,
            preemptions=scheduler.preemptions,
            cache_queries=scheduler.cache_queries,
            cache_hits=scheduler.cache_hits,
            computed_prompt_tokens=self._computed_prompt_tokens,
            steps=self._steps,
            busy_s=self._busy_s,
        )

    def check(self) -> None:
        self.scheduler.check()
        assert all(request.state is not RequestState.FINISHED for request in self._requests.values()), "a ghost"

    def _expand(self, plan: BatchPlan) -> list[tuple[Request, int]]:
        """Who samples from which row: a request about to fork samples for its children too."""
        sampling: list[tuple[Request, int]] = []
        for row, item in enumerate(plan.sampled):
            request = self._requests[item.request_id]
            sampling += [(member, row) for member in (request, *request.children)]
        return sampling

    def _spread(self, rows: Any, sampling: Sequence[tuple[Request, int]]) -> Any:
        """Rows repeated for children; untouched in the ordinary case."""
        if not sampling or len(sampling) == sampling[-1][1] + 1:
            return rows
        picks = [row for _, row in sampling]
        return [rows[row] for row in picks] if isinstance(rows, list) else rows[picks]

    def _take_in(
        self,
        plan: BatchPlan,
        sampling: Sequence[tuple[Request, int]],
        samples: Sequence[tuple[int, TokenLogprob | None]],
        now: float,
    ) -> list[StepOutput]:
        self.scheduler.computed(plan)
        for request, _ in sampling:
            if request.children:
                self.scheduler.fork(request)
        outputs: list[StepOutput] = []
        for (request, _), (token, logprob) in zip(sampling, samples, strict=True):
            request.tokens.append(token)
            request.first_token_at = request.first_token_at if request.first_token_at is not None else now
            request.last_token_at = now
            reason = self._ends(request, token)
            if reason is not None:
                self.finish(request.request_id, reason)
            outputs.append(StepOutput(request, token, logprob, reason))
        return outputs

    def _ends(self, request: Request, token: int) -> FinishReason | None:
        params = request.params
        if request.output_count < params.min_tokens:
            return None
        if token in self.config.eos_ids and not params.ignore_eos:
            return FinishReason.STOP
        if token in params.stop_token_ids:
            request.stop_token = token
            return FinishReason.STOP
        return FinishReason.LENGTH if request.output_count >= params.max_tokens else None

    def _count(self, plan: BatchPlan, seconds: float) -> None:
        self._steps += 1
        self._busy_s += seconds
        self.last_step_tokens = plan.token_count
        for item in plan.items:
            prompt = len(self._requests[item.request_id].prompt)
            self._computed_prompt_tokens += max(0, min(item.start + len(item.tokens), prompt) - item.start)
