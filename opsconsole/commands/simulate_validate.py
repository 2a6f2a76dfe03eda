"""What `opsconsole simulate validate` prints: each rung, and how the embedded engine compares.

It composes; the checks live in simulate. The trap: the engine is timed by the wall clock, so a busy machine shows as a
slow engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opsconsole.simulate.engine_check import CrossCheck
    from opsconsole.simulate.validate import Rung


def check_engine(seconds: float, seed: int, cpu_time: bool, say: Callable[[str], None]) -> CrossCheck:
    """The engine on this machine, and its simulation from a fit of its steps.

    With `cpu_time` one thread computes and its CPU seconds are the clock, which a busy machine hardly distorts.
    """
    import asyncio

    from opsconsole.clock import SystemClock, cpu_seconds
    from opsconsole.local.weights import default_weights
    from opsconsole.simulate.engine_check import CpuTime, cross_check

    path = str(default_weights())
    if cpu_time:
        cpu = CpuTime(cpu_seconds)
        return cross_check(path, cpu.now, cpu.sleep, seconds=seconds, seed=seed, threads=1, say=say)
    clock = SystemClock()

    def sleep(span: float) -> None:
        asyncio.run(clock.sleep(span))

    return cross_check(path, clock.monotonic, sleep, seconds=seconds, seed=seed, say=say)


def as_text(rungs: Sequence[Rung], engine: CrossCheck | None) -> str:
    """One line a rung, and one a figure of the engine."""
    return "\n".join([*_rungs(rungs), *(() if engine is None else _figures(engine))])


def as_json(rungs: Sequence[Rung], engine: CrossCheck | None) -> str:
    """The same with all digits."""
    found = None
    if engine is not None:
        found = asdict(engine) | {"rows": [asdict(row) | {"ok": row.ok} for row in engine.rows], "ok": engine.ok}
    told = {"rungs": [asdict(rung) | {"error": rung.error, "ok": rung.ok} for rung in rungs], "engine": found}
    return json.dumps(told, indent=1, sort_keys=True)


def _rungs(rungs: Sequence[Rung]) -> Iterator[str]:
    width = max(len(rung.name) for rung in rungs)
    for rung in rungs:
        yield (
            f"{_holds(rung.ok)}  {rung.name.ljust(width)}  {rung.found:.6g} {rung.unit}, expected "
            f"{rung.expected:.6g} within {_within(rung.tolerance, rung.relative)}: {rung.says}"
        )


def _figures(found: CrossCheck) -> Iterator[str]:
    yield (
        f"engine: {found.steps} steps fitted to {100 * found.step_error:.1f} % each, {found.requests} requests "
        f"replayed, busy {100 * found.load:.0f} % of the time; its steps took {100 * found.drift:+.1f} % "
        "against the fit, which is how much the machine changed meanwhile"
    )
    for row in found.rows:
        bar = "shown" if row.bar is None else f"at most {100 * row.bar:.0f} %"
        yield (
            f"{_holds(row.ok)}  {row.name}: engine {row.real:.4g} s, simulated {row.simulated:.4g} s, "
            f"error {100 * row.error:.1f} % ({bar})"
        )


def _holds(ok: bool) -> str:
    return "holds" if ok else "FAILS"


def _within(tolerance: float, relative: bool) -> str:
    return f"{100 * tolerance:g} %" if relative else f"{tolerance:g}"
