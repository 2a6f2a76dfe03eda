"""Which laws may run a fleet that lives: all of the registry but those that are told the future.

It starts nothing. The trap: an oracle without a future raises nothing and stays for ever, so it has to be refused where
it is asked for.
"""

from __future__ import annotations

from policies.baselines.oracle import BOUND, ORACLE
from policies.registry import names

HINDSIGHT = frozenset({ORACLE.name, BOUND.name})


def live_laws() -> tuple[str, ...]:
    return tuple(name for name in names() if name not in HINDSIGHT)


def why_not(name: str) -> str | None:
    """What is wrong with a law's name for a live pool; None where nothing is."""
    if name in HINDSIGHT:
        wrong = f"{name!r} knows the future and runs only in `opsconsole simulate backtest`"
    elif name not in live_laws():
        wrong = f"{name!r} is unknown"
    else:
        return None
    return f"{wrong}; use one of {', '.join(live_laws())}."
