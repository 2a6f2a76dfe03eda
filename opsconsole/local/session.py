"""`up` from the first word to the summary: start, calibrate, serve, end. Runs in the foreground process.

It starts the supervisor and the load, shows what happens, and reads the summary from the database; it decides and
serves nothing. Trap: it may be killed at any point, so nothing may depend on its clean-up: every process is tied to its
parent.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from opsconsole.bench.client import Target
from opsconsole.clock import Clock
from opsconsole.errors import AgentUnavailable, OpsConsoleError
from opsconsole.local import lifeline
from opsconsole.local.calibration import Calibration, Say, calibrate
from opsconsole.local.load import LoadOrder
from opsconsole.local.loads import DAY_SECONDS
from opsconsole.local.progress import Progress, tail
from opsconsole.local.runs import RunLog, read_summary
from opsconsole.local.settings import UpSettings
from opsconsole.local.supervisor_client import SupervisorClient

Screen = Callable[[str], Awaitable[None]]  # shows the agent at this address until the user leaves
T = TypeVar("T")

FIRST_WORKER_LIMIT = 900.0  # s; a large model may read for minutes
COMPANIONS_LIMIT = 60.0  # s
HOPELESS_RESTARTS = 3
LOAD_GRACE, STOP_GRACE = 60.0, 10.0  # s
POLL = 0.2  # s
UP_FILE, LOAD_FILE = "up.json", "load.json"  # orders to our processes; they hold keys and go at the end


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What this run does besides serving."""

    load: str | None = None
    seconds: float | None = None
    seed: int = 0
    day: float = DAY_SECONDS  # of the diurnal load
    sustained: float | None = None  # requests/s of one worker; None is as measured


class Ended(Exception):
    """Over before its time: the user's wish, or a lost supervisor."""

    def __init__(self, why: str, *, is_failure: bool) -> None:
        super().__init__(why)
        self.is_failure = is_failure


class Session:
    """One `up`."""

    def __init__(self, settings: UpSettings, options: RunOptions, clock: Clock, say: Say) -> None:
        self._settings, self._options, self._clock, self._say = settings, options, clock, say
        self._client = SupervisorClient(settings.supervisor_socket)
        self._stop = asyncio.Event()
        self._why = ""
        self._supervisor: asyncio.subprocess.Process | None = None
        self._load: asyncio.subprocess.Process | None = None
        self._run_log: RunLog | None = None

    async def run(self, screen: Screen | None = None) -> tuple[int, dict[str, Any] | None]:
        """Exit code and summary; the summary is None when the measured part never began."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._asked_to_stop, signal.Signals(number).name)
        code, has_begun = 0, False
        try:
            calibration = await self._until_over(self._start())
            has_begun = True
            await self._until_over(self._serve(calibration, screen))
        except Ended as end:
            self._say(str(end))
            code = int(end.is_failure)
        finally:
            await self._end()
        return code, read_summary(self._settings.database, self._settings.run_id) if has_begun else None

    def _asked_to_stop(self, name: str) -> None:
        if self._stop.is_set() and self._supervisor is not None:
            lifeline.kill_group(self._supervisor.pid)  # asked twice: at once; its children die with it
        self._why = self._why or f"{name}: stopping"
        self._stop.set()

    async def _until_over(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work, unless the user wants to stop or the supervisor is lost. Raises `Ended`."""
        loop = asyncio.get_running_loop()
        if self._supervisor is None:
            await self._start_supervisor()
        assert self._supervisor is not None
        doing: asyncio.Task[T] = loop.create_task(work)
        wish, death = loop.create_task(self._stop.wait()), loop.create_task(self._supervisor.wait())
        try:
            await asyncio.wait((doing, wish, death), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            if death.done():
                raise Ended(self._lost_words(death.result()), is_failure=True)
            raise Ended(self._why, is_failure=False)
        finally:
            for task in (doing, wish, death):
                task.cancel()
            await asyncio.gather(doing, wish, death, return_exceptions=True)

    def _lost_words(self, code: int) -> str:
        last = tail(self._settings.logs / "supervisor.log")
        return f"the supervisor {lifeline.exit_words(code)}, and everything with it{': ' + last if last else ''}"

    async def _start_supervisor(self) -> None:
        for leftover in (self._settings.supervisor_socket, self._settings.agent_socket):
            leftover.unlink(missing_ok=True)  # of a run that was killed; the folder is ours now
        file = self._settings.folder / UP_FILE
        self._settings.save(file)
        self._supervisor = await lifeline.spawn(
            "opsconsole.local.supervisor_api",
            [str(file)],
            log=self._settings.logs / "supervisor.log",
            death=signal.SIGTERM,
        )

    async def _start(self) -> Calibration:
        """From nothing to a router that serves."""
        settings = self._settings
        url = await self._first_worker()
        self._say("calibrating on the first worker")
        target = Target(url=url, model=settings.model_name, api_key=settings.router_token, timeout=60.0)
        calibration = await calibrate(target, settings.bounds, self._clock, self._options.seed, self._say)
        if (told := self._options.sustained) is not None:
            self._say(f"--sustained {told:g} requests/s stands for the {calibration.sustained:.2f} that were measured")
            calibration = replace(calibration, sustained=told)
        for line in calibration.lines():
            self._say(line)
        await self._client.begin(calibration.measured())
        await self._companions()
        await self._minimum()
        self._say(f"serving {settings.model_name} on {settings.url}/v1")
        return calibration

    async def _first_worker(self) -> str:
        """The first worker's address, once it has produced a token; tells each phase on the way."""
        progress = Progress(self._settings, self._say, self._clock)
        end = self._clock.monotonic() + FIRST_WORKER_LIMIT
        while self._clock.monotonic() < end:
            state = await self._state()
            if state is not None:
                progress.starting(state)
                first = next(iter(state["members"]), None)
                if first is not None and first["ready"]:
                    return str(first["url"])
                if first is not None and first["restarts"] >= HOPELESS_RESTARTS:
                    last = tail(self._settings.logs / f"{first['name']}.log")
                    raise OpsConsoleError(f"the engine does not start: {last or 'its log is empty'}")
            await self._clock.sleep(POLL)
        raise OpsConsoleError(
            f"the first worker was not ready after {FIRST_WORKER_LIMIT:g} s; see {self._settings.logs}"
        )

    async def _state(self) -> dict[str, Any] | None:
        try:
            return await self._client.state()
        except AgentUnavailable:
            return None

    async def _companions(self) -> None:
        """Until the router answers and the agent's socket is there."""
        end = self._clock.monotonic() + COMPANIONS_LIMIT
        progress = Progress(self._settings, self._say, self._clock)
        while self._clock.monotonic() < end:
            agent_is_there = self._settings.agent_socket.exists() or not self._settings.has_agent
            if agent_is_there and await progress.router_answers():
                return
            await self._clock.sleep(POLL)
        which = "router" if self._settings.agent_socket.exists() else "agent"
        last = tail(self._settings.logs / f"{which}.log")
        raise OpsConsoleError(f"the {which} does not start: {last or 'its log is empty'}")

    async def _minimum(self) -> None:
        """Until as many workers are ready as there shall always be; one that dies meanwhile is tried again for us."""
        more = self._settings.minimum - 1
        if more > 0:
            self._say(f"starting {more} more")
        end = self._clock.monotonic() + FIRST_WORKER_LIMIT
        while self._clock.monotonic() < end:
            members = (await self._client.state())["members"]
            if sum(member["ready"] for member in members) >= self._settings.minimum:
                return
            if any(member["restarts"] >= HOPELESS_RESTARTS for member in members):
                raise OpsConsoleError(f"a worker does not start; see {self._settings.logs}")
            await self._clock.sleep(POLL)
        raise OpsConsoleError(f"{more + 1} workers were not ready after {FIRST_WORKER_LIMIT:g} s")

    async def _serve(self, calibration: Calibration, screen: Screen | None) -> None:
        """The measured part: with load or without, until its time is over or the user leaves the screen."""
        parts: list[Coroutine[Any, Any, None]] = []
        if self._options.load is not None:
            parts.append(self._run_load(calibration))
        else:
            self._run_log = RunLog(self._settings.database, self._settings.run_id, calibration.bounds)
            self._run_log.open(self._clock.now(), None, {"sustained": calibration.sustained})
            if self._options.seconds is not None:
                parts.append(self._clock_out(self._options.seconds))
        if screen is not None:
            parts.append(_as_coroutine(screen(str(self._settings.agent_socket))))
        else:
            progress = Progress(self._settings, self._say, self._clock)
            watching = asyncio.get_running_loop().create_task(progress.run(self._client))
        tasks = [asyncio.get_running_loop().create_task(part) for part in parts]
        try:
            if tasks:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            else:
                await asyncio.Event().wait()
        finally:
            others = [*tasks, watching] if screen is None else tasks
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _clock_out(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _run_load(self, calibration: Calibration) -> None:
        settings, options = self._settings, self._options
        assert options.load is not None
        order = LoadOrder(
            url=settings.url,
            model=settings.model_name,
            database=str(settings.database),
            run_id=settings.run_id,
            load=options.load,
            sustained=calibration.sustained,
            seconds=options.seconds,
            seed=options.seed,
            bounds=calibration.bounds,
            api_key=settings.api_key,
            grace=LOAD_GRACE,
            day=options.day,
        )
        file = settings.folder / LOAD_FILE
        order.save(file)
        self._load = await lifeline.spawn("opsconsole.local.load", [str(file)], log=settings.logs / "load.log")
        if await self._load.wait() != 0:
            raise OpsConsoleError(f"the load could not be made: {tail(settings.logs / 'load.log') or 'see its log'}")

    async def _end(self) -> None:
        """Stop asking, then end everything in order."""
        if self._load is not None:
            await lifeline.stop(self._load, STOP_GRACE)
        if self._run_log is not None:
            self._run_log.close(self._clock.now())
        if self._supervisor is not None and self._supervisor.returncode is None:
            try:
                await self._client.stop(STOP_GRACE)
            except OpsConsoleError:
                self._supervisor.terminate()
            await lifeline.stop(self._supervisor, 2 * STOP_GRACE) if await self._outlasts() else None
        await self._client.close()
        for name in (UP_FILE, LOAD_FILE):
            (self._settings.folder / name).unlink(missing_ok=True)

    async def _outlasts(self) -> bool:
        """Whether the supervisor is still there when its own grace is over."""
        assert self._supervisor is not None
        try:
            async with asyncio.timeout(2 * STOP_GRACE):
                await self._supervisor.wait()
        except TimeoutError:
            return True
        return False


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
