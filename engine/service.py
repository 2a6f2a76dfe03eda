"""Calls on their way between HTTP and the engine's thread: admission, text, stop strings, outcomes.

Everything here runs in the event loop; a report from the engine's thread is one callback however many streams there
are. It must not know HTTP messages. The trap: a stop string is seen here, a step or so after the engine produced
it; tokens that arrive after it are dropped and not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from engine.call import Call, Choice
from engine.config import EngineConfig, SloClass
from engine.core import EngineCore, StepOutput
from engine.driver import EngineDriver, StepReport
from engine.metrics import Condition, Ended, EngineMetrics
from engine.process_facts import process_lines
from engine.protocol import ApiError
from engine.protocol_requests import CallSpec, Limits
from engine.request import FinishReason, Request, SamplingParams
from engine.text import TextTools

log = logging.getLogger("engine.service")

_LONGEST_RETRY_S = 60


class Phase(StrEnum):
    """What /health says."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    BROKEN = "broken"


class EngineService:
    """One engine and all the calls it is answering."""

    def __init__(self, core: EngineCore, text: TextTools, now: Callable[[], float]) -> None:
        self.config: EngineConfig = core.config
        self.text = text
        self.metrics = EngineMetrics(core.config)
        self.calls: dict[str, Call] = {}  # by call id
        self._core, self._now = core, now
        self._driver = EngineDriver(core, self._from_thread, now)
        self._choices: dict[str, Choice] = {}  # by engine request id
        self._idle = asyncio.Event()
        self._idle.set()
        self._warm = False
        self._draining = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def limits(self) -> Limits:
        return Limits(
            self.config.model_name,
            self.config.max_model_len,
            self.config.max_seqs,
            self.text.codec.vocab_size,
            self.config.order == "priority",
        )

    @property
    def phase(self) -> Phase:
        if self._driver.broken is not None:
            return Phase.BROKEN
        if self._draining:
            return Phase.DRAINING
        return Phase.READY if self._warm else Phase.STARTING

    async def start(self) -> None:
        """Start the thread and produce one token, uncounted; only then is the engine ready."""
        self._loop = asyncio.get_running_loop()
        self._driver.start()
        self.metrics.warm_up = True
        spec = CallSpec(False, ((0,),), (SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True),), ())
        call = self._open(spec, "warm-up", SloClass("warm-up"), "warm-up")
        while not call.is_done:
            await call.changed.wait()
            call.changed.clear()
        self.metrics.warm_up = False
        self.metrics.begin(self._core.stats())
        self.close(call)
        self._warm = call.error is None

    async def stop(self) -> None:
        """End the thread. Calls still open end with an error."""
        for call in list(self.calls.values()):
            call.fail("The engine is shutting down.")
        await asyncio.get_running_loop().run_in_executor(None, self._driver.stop)

    def drain(self) -> None:
        self._draining = True

    def undrain(self) -> None:
        self._draining = False

    def rebound(self, slo: SloClass) -> None:
        """New bounds for a class there is; calls already open keep theirs."""
        self.config = replace(self.config, slo_classes={**self.config.slo_classes, slo.name: slo})

    async def drained(self, deadline_s: float) -> int:
        """Wait until no call is left, at most `deadline_s`; then cut what is. Returns how many were cut."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), deadline_s)
        cut = len(self.calls)
        self.metrics.streams_cut += cut
        for call in list(self.calls.values()):
            call.fail("The engine is shutting down and its deadline has passed; the answer is incomplete.")
        return cut

    def open(self, spec: CallSpec, call_id: str, slo: SloClass, salt: str) -> Call:
        """Admit a call, or raise the error that says when to come back."""
        self._refuse_unless_ready(slo)
        self._refuse_over_limits(spec, slo)
        return self._open(spec, call_id, slo, salt)

    def close(self, call: Call) -> None:
        """The answer is out, or the client is gone: whatever still runs for it ends within one step."""
        if self.calls.pop(call.call_id, None) is None:
            return
        for choice in call.choices:
            self._choices.pop(choice.request.request_id, None)
            if choice.finish is None:
                reason = FinishReason.ABORT if call.error is None else FinishReason.ERROR
                self._driver.end(choice.request.request_id, reason)
                self._end(call, choice, reason, self._now())
        self._judge(call)
        if not self.calls:
            self._idle.set()

    def page(self) -> str:
        """The metrics page."""
        condition = Condition(self.phase is Phase.READY, self._draining, len(self.calls))
        return self.metrics.expose(self._core.stats(), condition, process_lines())

    # -- admission ---------------------------------------------------------------------------------------------

    def _refuse_unless_ready(self, slo: SloClass) -> None:
        phase = self.phase
        if phase is Phase.READY:
            return
        if phase is Phase.BROKEN:
            raise ApiError(500, "The engine has failed and must be restarted.", kind="server_error", code="broken")
        reason = "is draining" if phase is Phase.DRAINING else "is still starting"
        if phase is Phase.DRAINING:
            self.metrics.reject("draining", slo.name)
        raise ApiError(
            503, f"This engine {reason}; try another replica.", kind="server_error", code=phase.value, retry_after=1
        )

    def _refuse_over_limits(self, spec: CallSpec, slo: SloClass) -> None:
        stats, config = self._core.stats(), self.config
        waiting = stats.waiting + self._driver.backlog
        tokens = sum(len(prompt) for prompt in spec.prompts)
        most = config.max_queued_tokens
        if waiting + len(spec.prompts) > config.max_queued_requests:
            reason, limit = "max_num_queued_reqs", f"{config.max_queued_requests} requests"
        elif most is not None and waiting and stats.waiting_tokens + tokens > most:
            reason, limit = "max_num_queued_tokens", f"{most} prompt tokens"
        else:
            return
        self.metrics.reject(reason, slo.name)
        speed = stats.computed_prompt_tokens / stats.busy_s if stats.busy_s > 0 else 0.0
        retry = math.ceil(stats.waiting_tokens / speed) if speed > 0 else 1
        raise ApiError(
            429,
            f"The queue is full ({limit}); try again later or another replica.",
            kind="rate_limit_error",
            code=reason,
            retry_after=min(_LONGEST_RETRY_S, max(1, retry)),
        )

    def _open(self, spec: CallSpec, call_id: str, slo: SloClass, salt: str) -> Call:
        arrival = self._now()
        call = Call(call_id, spec, slo, arrival)
        for number, (prompt, params) in enumerate(zip(spec.prompts, spec.params, strict=True)):
            parent = Request(f"{call_id}:{number}", prompt, params, arrival, spec.priority, slo, salt)
            for request in (parent, *parent.children):
                choice = Choice(len(call.choices), parent, request, self.text.make_decoder(), spec.stops)
                call.choices.append(choice)
                choice.call = call
                self._choices[request.request_id] = choice
            self._driver.submit(parent)
        self.calls[call_id] = call
        self._idle.clear()
        return call

    # -- what comes back ---------------------------------------------------------------------------------------

    def _from_thread(self, report: StepReport) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, report)

    def _take(self, report: StepReport) -> None:
        if report.tokens:
            self.metrics.stepped(report.tokens)
        for output in report.outputs:
            choice = self._choices.get(output.request.request_id)
            if choice is not None and choice.finish is None:
                self._advance(choice, output, report.at)

    def _advance(self, choice: Choice, output: StepOutput, at: float) -> None:
        call = choice.call
        if output.token is None:
            call.fail("The engine failed while it was working on this request.")
            self._end(call, choice, output.finish or FinishReason.ERROR, at)
            return
        self.metrics.token(choice.request, at, choice.last_at)
        choice.first_at = choice.first_at if choice.first_at is not None else at
        choice.last_at = at
        stopped = choice.push(output.token, output.logprob, output.finish, self.text.codec)
        if stopped:
            self._driver.end(choice.request.request_id, FinishReason.STOP)
        if stopped or output.finish is not None:
            self._end(call, choice, FinishReason.STOP if stopped else output.finish or FinishReason.STOP, at)
        call.changed.set()

    def _end(self, call: Call, choice: Choice, reason: FinishReason, at: float) -> None:
        choice.finish = reason
        n = call.spec.params[0].n
        self.metrics.ended(Ended(choice.request, reason, at, choice.tokens, choice.first_at, choice.last_at, n))

    def _judge(self, call: Call) -> None:
        """Count the call's outcome, once. A client that left before anything was late is nobody's failure."""
        if call.slo.name not in self.config.slo_classes:
            return  # the warm-up
        ttft = call.ttft_s
        if call.error is not None:
            self.metrics.outcome(call.slo.name, False)
        elif all(choice.finish in (FinishReason.STOP, FinishReason.LENGTH) for choice in call.choices):
            self.metrics.outcome(call.slo.name, call.slo.is_met(ttft, call.tpot_s))
        else:
            waited = ttft if ttft is not None else self._now() - call.arrival
            if not call.slo.is_met(waited, call.tpot_s):
                self.metrics.outcome(call.slo.name, False)
