"""The thread in which an engine steps, and the two crossings to it.

In: commands (a request to add, an id to end), taken up before the next step, so a slot is free within one step.
Out: one report per step, handed to `deliver` from this thread; the server's `deliver` makes that one call into its
event loop whatever the number of streams. It must not know HTTP. The trap: `core` belongs to this thread from
`start` on; others read `core.stats()` only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from engine.core import EngineCore, StepOutput
from engine.request import FinishReason, Request

log = logging.getLogger("engine.driver")


@dataclass(frozen=True, slots=True)
class StepReport:
    """What came of one step."""

    outputs: tuple[StepOutput, ...]
    tokens: int  # computed by the step; 0 where it was only about ending requests
    at: float  # the engine's clock


@dataclass(frozen=True, slots=True)
class _End:
    request_id: str
    reason: FinishReason


class EngineDriver:
    """Runs a core in a thread of its own. `broken` holds the error that stopped it, if one did."""

    def __init__(self, core: EngineCore, deliver: Callable[[StepReport], None], now: Callable[[], float]) -> None:
        self.core = core
        self.broken: BaseException | None = None
        self._deliver, self._now = deliver, now
        self._inbox: SimpleQueue[Request | _End | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine-step", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Request) -> None:
        self._inbox.put(request)

    def end(self, request_id: str, reason: FinishReason) -> None:
        self._inbox.put(_End(request_id, reason))

    def stop(self) -> None:
        """End the thread after the step it is in. Requests still there are left to their fate."""
        self._inbox.put(None)
        self._thread.join()

    @property
    def backlog(self) -> int:
        """Requests handed in that the core has not seen yet, roughly."""
        return self._inbox.qsize()

    def _run(self) -> None:
        while True:
            try:
                if not self._take_commands():
                    return
                if self.core.has_work:
                    outputs = self.core.step()
                    if outputs or self.core.last_step_tokens:
                        self._deliver(StepReport(tuple(outputs), self.core.last_step_tokens, self._now()))
            except Exception as error:
                log.exception("the engine's step failed; all its requests end with an error")
                self.broken = error
                self._deliver(StepReport(tuple(self.core.abort_all(FinishReason.ERROR)), 0, self._now()))
                return

    def _take_commands(self) -> bool:
        """Everything in the inbox; waits for something where there is no work. False once told to stop."""
        while True:
            try:
                command = self._inbox.get(block=not self.core.has_work)
            except Empty:
                return True
            if command is None:
                return False
            if isinstance(command, Request):
                self._add(command)
            else:
                self.core.finish(command.request_id, command.reason)

    def _add(self, request: Request) -> None:
        """A request that cannot run ends alone; the others are none of its business."""
        try:
            self.core.add(request)
        except ValueError:
            log.exception("a request was refused by the engine", extra={"engine_request_id": request.request_id})
            members = (request, *request.children)
            refused = tuple(StepOutput(member, None, finish=FinishReason.ERROR) for member in members)
            self._deliver(StepReport(refused, 0, self._now()))
