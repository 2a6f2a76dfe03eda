"""What `opsconsole simulate validate` prints: each rung, and how the embedded engine compares.

It composes; the checks live in simulate. The trap: the engine is timed by the wall clock, so a busy machine shows as a
slow engine.
"""

from __future__ import annotations

from collections.abc import Callable

Lines = tuple[str, ...]


def climb(full: bool, seed: int) -> tuple[Lines, bool]:
    """One line a rung, and whether all hold."""
    from opsconsole.simulate.validate import ladder

    rungs = ladder(full, seed)
    width = max(len(rung.name) for rung in rungs)
    lines = [
        f"{'holds' if rung.ok else 'FAILS'}  {rung.name.ljust(width)}  {rung.found:.6g} {rung.unit}, expected "
        f"{rung.expected:.6g} within {_within(rung.tolerance, rung.relative)}: {rung.says}"
        for rung in rungs
    ]
    return tuple(lines), all(rung.ok for rung in rungs)


def check_engine(seconds: float, seed: int, cpu_time: bool, say: Callable[[str], None]) -> tuple[Lines, bool]:
    """One line a figure: the engine on this machine, and its simulation from a fit of its steps.

    With `cpu_time` one thread computes and its CPU seconds are the clock, which a busy machine hardly distorts.
    """
    import asyncio

    from opsconsole.clock import SystemClock, cpu_seconds
    from opsconsole.local.weights import default_weights
    from opsconsole.simulate.engine_check import CpuTime, cross_check

    path = str(default_weights())
    if cpu_time:
        cpu = CpuTime(cpu_seconds)
        found = cross_check(path, cpu.now, cpu.sleep, seconds=seconds, seed=seed, threads=1, say=say)
    else:
        clock = SystemClock()

        def sleep(span: float) -> None:
            asyncio.run(clock.sleep(span))

        found = cross_check(path, clock.monotonic, sleep, seconds=seconds, seed=seed, say=say)
    lines = [
        f"engine: {found.steps} steps fitted to {100 * found.step_error:.1f} % each, {found.requests} requests "
        f"replayed, busy {100 * found.load:.0f} % of the time; its steps took {100 * found.drift:+.1f} % "
        "against the fit, which is how much the machine changed meanwhile"
    ]
    for row in found.rows:
        bar = "shown" if row.bar is None else f"at most {100 * row.bar:.0f} %"
        lines.append(
            f"{'holds' if row.ok else 'FAILS'}  {row.name}: engine {row.real:.4g} s, simulated {row.simulated:.4g} s, "
            f"error {100 * row.error:.1f} % ({bar})"
        )
    return tuple(lines), found.ok


def _within(tolerance: float, relative: bool) -> str:
    return f"{100 * tolerance:g} %" if relative else f"{tolerance:g}"
