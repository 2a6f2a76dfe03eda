"""What this machine has for workers: cores, accelerators, and how many workers that allows.

Looks at device files and the environment; torch is not imported for it (seconds). Trap: CUDA_VISIBLE_DEVICES already
narrows what there is, and an empty value means none.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from opsconsole.errors import UsageError

_WORKERS = re.compile(r"(\d+)(?::(\d+))?")


def parse_workers(text: str) -> tuple[int, int]:
    """MIN:MAX, or one number for both."""
    match = _WORKERS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--workers {text} is not MIN:MAX; write 1:2, or 2 for exactly two")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 1 <= low <= high:
        raise UsageError(f"--workers {text}: the minimum is at least 1 and at most the maximum")
    return low, high


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_devices(asked: str | None, folder: Path = Path("/dev")) -> tuple[str, ...]:
    """Accelerators to use, by index: the ones asked for, else all that are visible; empty for a CPU."""
    if asked is not None:
        return tuple(part.strip() for part in asked.split(",") if part.strip() and part.strip() != "cpu")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip() and part.strip() != "-1")
    found = (re.fullmatch(r"nvidia(\d+)", path.name) for path in folder.glob("nvidia*"))
    return tuple(sorted((match[1] for match in found if match), key=int))


def threads_per_worker(cores: int, maximum: int) -> int:
    """Fixed at start: workers that come later must find their share."""
    return max(1, cores // maximum)
