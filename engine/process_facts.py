"""The operating system's view of this process, as lines of the metrics page.

Read from /proc when somebody scrapes; empty where there is no /proc. It must not know the engine. The trap: the
start time is what consumers tell restarts by, so it comes from the kernel and not from when this code was imported.
"""

from __future__ import annotations

import os
from pathlib import Path


def process_lines(proc: Path = Path("/proc")) -> list[str]:
    """The `process_...` families."""
    try:
        # The command's name stands in parentheses and may hold anything; fields are counted after it.
        stat = (proc / "self/stat").read_text().rpartition(")")[2].split()
        booted = next(
            float(line.split()[1]) for line in (proc / "stat").read_text().splitlines() if line.startswith("btime")
        )
    except (OSError, StopIteration):
        return []
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    values = {
        "process_start_time_seconds": ("gauge", booted + int(stat[19]) / ticks),
        "process_cpu_seconds_total": ("counter", (int(stat[11]) + int(stat[12])) / ticks),
        "process_resident_memory_bytes": ("gauge", int(stat[21]) * page),
        "process_virtual_memory_bytes": ("gauge", int(stat[20])),
    }
    lines: list[str] = []
    for name, (kind, value) in values.items():
        lines += [f"# HELP {name} {name.replace('_', ' ')}", f"# TYPE {name} {kind}", f"{name} {value}"]
    return lines
