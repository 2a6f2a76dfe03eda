"""The monitors that ours is measured beside: how each is started on the same replicas, once a second, without a GPU.

It must not measure. The trap: a peer that shows one server only is measured with one, and its row says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Peer:
    """A program, where its path is told, and its command line for these base URLs."""

    name: str
    variable: str
    arguments: Callable[[Sequence[str]], list[str]]
    most: int | None = None  # replicas it can show

    def command(self, environ: Mapping[str, str], urls: Sequence[str]) -> list[str] | None:
        """None where it is not installed."""
        found = shutil.which(environ.get(self.variable) or self.name)
        return [found, *self.arguments(urls)] if found else None


def _vllmstat(urls: Sequence[str]) -> list[str]:
    return ["--no-gpu", "-i", "1", *(word for url in urls for word in ("-u", url))]


def _vllm_htop(urls: Sequence[str]) -> list[str]:
    return ["--no-gpu-detect", "--interval", "1", "--url", *urls]


def _vllmpytop(urls: Sequence[str]) -> list[str]:
    return ["--no-gpu", "--interval", "1", "--url", urls[0]]


def _vllm_top(urls: Sequence[str]) -> list[str]:
    place = urlsplit(urls[0])
    return ["--host", str(place.hostname), "--port", str(place.port), "--interval", "1"]


PEERS = (
    Peer("vllmstat", "OPSCONSOLE_VLLMSTAT", _vllmstat),
    Peer("vllm-htop", "OPSCONSOLE_VLLM_HTOP", _vllm_htop),
    Peer("vllmpytop", "OPSCONSOLE_VLLMPYTOP", _vllmpytop, most=1),
    Peer("vllm-top", "OPSCONSOLE_VLLM_TOP", _vllm_top, most=1),
)


def environment() -> dict[str, str]:
    """What each program is given: ours, without proxies, which some would ask even for loopback."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
