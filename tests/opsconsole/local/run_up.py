"""`up` with scripted workers and a calibration of a second, as a real process tree. Run by the tests.

Arguments: a data folder, a port, MIN:MAX, a load, seconds, a host. Trap: only durations are changed; every process is
the real one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import opsconsole.local.calibration as calibration
from opsconsole.commands import up_options


def main() -> None:
    folder, port, workers, load, seconds, host = sys.argv[1:7]
    calibration.STEP_SECONDS = 0.4
    asked = {
        "output": "json",
        "host": host,
        "api_key": "",
        "no_tui": True,
        "seconds": seconds,
        "load": load,
        "seed": 5,
        "workers": workers,
        "devices": "cpu",
        "model": folder,
        "data_dir": folder,
        "port": int(port),
        "slo": "",
        "policy": os.environ.get("UP_POLICY", "reactive"),
        "stabilise": "3s",
        "drain_deadline": "20s",
        "engine_arg": [],
        "day": os.environ.get("UP_DAY", "4m"),
        "start_delay": "0s",
        "sustained": 0.0,
        "capture": bool(os.environ.get("UP_CAPTURE")),
    }
    settings, options, _ = up_options.prepare(asked)
    scripted = replace(settings, worker_module="tests.opsconsole.local.scripted_worker", worker_args=(), interval=0.5)
    up_options.run_session(scripted, options, None, "json")


if __name__ == "__main__":
    main()
