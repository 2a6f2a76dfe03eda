"""A real Prometheus server on a free port, for a test's own configuration."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port

READY_S = 20.0


@contextmanager
def scraping(config: str, folder: Path) -> Iterator[str]:
    """The server's address, once it is ready; without the program the test is skipped."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("the Prometheus server is not installed (Debian package `prometheus`)")
    path = folder / "prometheus.yml"
    path.write_text(config)
    port = free_port()
    process = subprocess.Popen(
        [binary, f"--config.file={path}", f"--storage.tsdb.path={folder / 'prometheus-data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        transport = httpx.HTTPTransport(retries=7)  # a refused connection is tried again, later each time
        with httpx.Client(transport=transport, timeout=READY_S) as client:
            for _ in range(2000):
                if client.get(f"{url}/-/ready").status_code == 200:
                    break
        yield url
    finally:
        process.terminate()
        process.wait(10)
