"""Who is asked: static lists, names in DNS, and files in Prometheus' file_sd format, each as a `TargetProvider`.

It must not scrape. A provider that fails keeps its last targets and says so in its status. The trap: an unreadable
file or a name that does not resolve for a moment is not an empty fleet.
"""

from __future__ import annotations

import asyncio
import json
import socket
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from opsconsole.clock import Clock
from opsconsole.domain.records import SourceView
from opsconsole.domain.replica import ReplicaRef
from opsconsole.errors import ConfigError, SourceErrorKind
from opsconsole.observe.source import Target, TargetProvider

DEFAULT_POOL = "default"
DEFAULT_PATH = "/metrics"


def as_url(address: str, path: str = DEFAULT_PATH) -> str:
    """`10.0.0.7:8000` and `http://10.0.0.7:8000` mean its /metrics; an address with a path is left alone."""
    url = address.strip()
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{address!r} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{address!r} is not an address: give http://HOST:PORT or HOST:PORT")
    return url if parts.path not in ("", "/") else url.rstrip("/") + path


def target_at(address: str, pool: str = DEFAULT_POOL, path: str = DEFAULT_PATH, name: str | None = None) -> Target:
    """A target named by its host, port, query and path (where that is not the usual one), unless a name is given.

    A user and password in the address become a header: addresses are shown and kept, passwords are not.
    """
    url, headers = without_login(as_url(address, path))
    parts = urlsplit(url)
    own = parts.netloc + (parts.path if parts.path != DEFAULT_PATH else "") + (f"?{parts.query}" if parts.query else "")
    return Target(ReplicaRef(name or own, pool, url), url, headers)


def without_login(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """An address as it may be shown, and the header that says what it held of user and password."""
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    headers = (("Authorization", f"Basic {b64encode(unquote(login).encode()).decode()}"),) if login else ()
    return parts._replace(netloc=place).geturl(), headers


class StaticTargets:
    """A list that does not change by itself."""

    def __init__(self, targets: Iterable[Target], name: str = "static") -> None:
        self._targets = tuple(targets)
        self._name = name

    async def targets(self, now: float) -> tuple[Target, ...]:
        return self._targets

    def status(self) -> SourceView:
        return SourceView(self._name, "static", True, 0.0)

    async def close(self) -> None:
        return None


Resolve = Callable[[str, int], Sequence[str]]
"""Host and port to addresses; raises OSError."""


def resolve(host: str, port: int) -> Sequence[str]:
    """Addresses of a name, in a stable order."""
    found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    return sorted(found)


@dataclass(slots=True)
class _Kept:
    """The last good answer of a provider and what came after it."""

    targets: tuple[Target, ...] = ()
    good_at: float | None = None
    error: str | None = None
    kind: SourceErrorKind | None = None
    due: float = field(default=float("-inf"))

    def view(self, name: str, kind: str, now: float) -> SourceView:
        age = None if self.good_at is None else now - self.good_at
        return SourceView(name, kind, self.error is None, age, self.error, self.kind.value if self.kind else None)


class DnsTargets:
    """Every address behind a name (a headless service); asked again every `every_s`, in a thread."""

    def __init__(
        self,
        address: str,
        clock: Clock,
        pool: str = DEFAULT_POOL,
        every_s: float = 15.0,
        timeout_s: float = 3.0,
        resolver: Resolve = resolve,
    ) -> None:
        shown, self._login = without_login(as_url(address))
        url = urlsplit(shown)
        self._url, self._host = url, url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._clock, self._pool, self._every_s, self._timeout_s = clock, pool, every_s, timeout_s
        self._resolver = resolver
        self._kept = _Kept()
        self._asking: asyncio.Task[Sequence[str]] | None = None

    async def targets(self, now: float) -> tuple[Target, ...]:
        if self._clock.monotonic() >= self._kept.due:
            await self._ask(now)
        return self._kept.targets

    def status(self) -> SourceView:
        return self._kept.view(self._host, "dns", self._clock.now())

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, now: float) -> None:
        """A resolver that hangs holds its thread, not the tick; its answer is taken when it comes."""
        kept = self._kept
        if self._asking is None:
            self._asking = asyncio.create_task(asyncio.to_thread(self._resolver, self._host, self._port))
        done, _ = await asyncio.wait({self._asking}, timeout=self._timeout_s if kept.good_at is None else 0.2)
        if not done:
            kept.error, kept.kind = f"{self._host} does not resolve in time", SourceErrorKind.DNS
            return
        asked, self._asking = self._asking, None
        kept.due = self._clock.monotonic() + self._every_s
        failure = asked.exception()
        if failure is not None:
            kept.error, kept.kind = f"{self._host} does not resolve: {failure}", SourceErrorKind.DNS
            return
        kept.targets = tuple(self._target(ip) for ip in asked.result())
        kept.good_at, kept.error, kept.kind = now, None, None

    def _target(self, ip: str) -> Target:
        host = f"[{ip}]" if ":" in ip else ip
        url = self._url._replace(netloc=f"{host}:{self._port}").geturl()
        return Target(
            ReplicaRef(f"{host}:{self._port}", self._pool, url), url, (("Host", self._url.netloc), *self._login)
        )


class FileTargets:
    """Prometheus' file_sd: JSON or YAML lists of {targets, labels}; read again when the file changes.

    Labels that mean something: `pool` (or `job`), `__scheme__`, `__metrics_path__`, `node`, `gpu`, `role`, `replica`.
    """

    def __init__(self, path: Path, clock: Clock, pool: str = DEFAULT_POOL) -> None:
        self._path, self._clock, self._pool = path, clock, pool
        self._kept = _Kept()
        self._stamp: tuple[int, int] | None = None

    async def targets(self, now: float) -> tuple[Target, ...]:
        kept = self._kept
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                kept.targets = tuple(self._parse(self._path.read_text("utf-8")))
                self._stamp = stamp
            kept.good_at, kept.error, kept.kind = now, None, None
        except (OSError, UnicodeDecodeError) as error:
            kept.error, kept.kind = f"{self._path} cannot be read: {error}", SourceErrorKind.GONE
        except (ValueError, ConfigError) as error:
            kept.error, kept.kind = f"{self._path} is not a list of targets: {error}", SourceErrorKind.NOT_METRICS
        return kept.targets

    def status(self) -> SourceView:
        return self._kept.view(str(self._path), "file", self._clock.now())

    async def close(self) -> None:
        return None

    def _parse(self, text: str) -> Iterable[Target]:
        groups = _load(text, self._path.suffix)
        if not isinstance(groups, list):
            raise ValueError("expected a list of groups")
        for group in groups:
            if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
                raise ValueError('every group needs "targets", a list of addresses')
            labels = {str(k): str(v) for k, v in (group.get("labels") or {}).items()}
            for address in group["targets"]:
                yield _labelled(str(address), labels, self._pool)


def _load(text: str, suffix: str) -> Any:
    if suffix in (".yml", ".yaml"):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    return json.loads(text)


def _labelled(address: str, labels: Mapping[str, str], pool: str) -> Target:
    scheme = labels.get("__scheme__", "http")
    full = address if "://" in address else f"{scheme}://{address}"
    found = target_at(
        full, labels.get("pool") or labels.get("job") or pool, labels.get("__metrics_path__", DEFAULT_PATH)
    )
    ref = found.replica
    named = replace(
        ref,
        name=labels.get("replica", ref.name),
        node=labels.get("node"),
        gpu=labels.get("gpu"),
        role=labels.get("role"),
    )
    return replace(found, replica=named)


class JoinedTargets:
    """Several providers as one; its status is the worst of theirs."""

    def __init__(self, providers: Sequence[TargetProvider]) -> None:
        self._providers = tuple(providers)

    async def targets(self, now: float) -> tuple[Target, ...]:
        return tuple([target for provider in self._providers for target in await provider.targets(now)])

    def status(self) -> SourceView:
        views = [provider.status() for provider in self._providers]
        return next((view for view in views if not view.ok), views[0] if views else SourceView("none", "static", True))

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
