"""Kubernetes discovery: pods by selector, followed by a watch that resumes, as a `TargetProvider`.

It must not scrape and never writes. A list gives the state and its version, a watch gives what changes after it; a
watch that ends resumes at the last version, one that is too old (410) lists again. The trap: a watch that hangs looks
like a quiet cluster, so the server is asked to end each one after half a minute, and silence shows as age.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.api import Place, connect
from opsconsole.cluster.nodes import ANSWER_S, Nodes
from opsconsole.cluster.pods import Pod, known, node_of
from opsconsole.cluster.starts import StartTimes
from opsconsole.domain.records import SourceView
from opsconsole.errors import SourceErrorKind
from opsconsole.observe.kube_pods import PodRules, as_target
from opsconsole.observe.source import Target

NewApi = Callable[[], Awaitable[Any]]
"""Makes an `ApiClient` of the asyncio client."""

_GONE = 410
_LINE_LIMIT = 8 * 2**20  # one event of a watch is one line


@dataclass(frozen=True, slots=True)
class KubeOptions:
    """Which pods, and how patiently (seconds)."""

    selector: str = ""
    namespace: str | None = None  # None is every namespace
    rules: PodRules = field(default_factory=PodRules)
    watch_s: int = 30  # the server ends a watch after this
    first_s: float = 3.0  # how long the first answer may take before an empty one is given
    backoff_max_s: float = 15.0
    page: int = 500


async def from_surroundings() -> Any:
    """A client from the kubeconfig, or from the pod this runs in."""
    return await connect(Place())


class KubeTargets:
    """The pods of a selector, kept current by one background task."""

    def __init__(self, options: KubeOptions, clock: Clock, new_api: NewApi = from_surroundings) -> None:
        self._options, self._clock, self._new_api = options, clock, new_api
        self._pods: dict[str, Pod] = {}
        self._starts = StartTimes()
        self._nodes = Nodes(self._node, clock)
        self._api: Any = None
        self._moved = False  # pods changed since the start times were last learned from them
        self._version: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._listed = asyncio.Event()
        self._answered = asyncio.Event()  # a first list, or a first failure
        self._heard_at: float | None = None
        self._error: tuple[SourceErrorKind, str] | None = None
        self._retry_at: float | None = None
        self._failures = 0

    async def targets(self, now: float) -> tuple[Target, ...]:
        if self._task is None:
            self._task = asyncio.create_task(self._follow())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), self._options.first_s)
        if self._moved:
            self._starts, self._moved = self._starts.learn(self._nodes.typed(known(self._pods.values()))), False
        found = [self._target(pod, now) for _, pod in sorted(self._pods.items())]
        return tuple(target for target in found if target is not None)

    def _target(self, pod: Pod, now: float) -> Target | None:
        return as_target(pod, self._options.rules, now, self._starts, self._nodes.kind(node_of(pod)))

    def names(self) -> frozenset[str] | None:
        """Names of the pods that exist; None before the first list. For joining away ghosts of another source."""
        if not self._listed.is_set():
            return None
        return frozenset(str(pod["metadata"]["name"]) for pod in self._pods.values())

    def status(self) -> SourceView:
        age = None if self._heard_at is None else self._clock.now() - self._heard_at
        kind, detail = self._error or (None, None)
        ok = self._error is None and self._listed.is_set()
        return SourceView("kubernetes", "kubernetes", ok, age, detail, kind.value if kind else None, self._retry_at)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _follow(self) -> None:
        """List, then watch, for ever; a failure is kept as words and tried again a little later each time."""
        forgotten = False  # twice in a row is a server in trouble, not an old version
        try:
            while True:
                try:
                    self._api = self._api or await self._new_api()
                    if self._version is None:
                        await self._list(self._api)
                    await self._watch(self._api)
                    self._failures = 0
                    forgotten = False
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    if getattr(error, "status", None) == _GONE:
                        self._version = None  # the server has forgotten what we knew: list again, at once
                        if not forgotten:
                            forgotten = True
                            continue
                    await self._pause(error)
        finally:
            if self._api is not None:
                await self._api.close()

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._error = _named(error)
        wait = min(self._options.backoff_max_s, 0.5 * 2 ** min(self._failures - 1, 10))
        self._retry_at = self._clock.now() + wait
        self._answered.set()
        if self._failures > 3:
            self._version = None  # resuming did not help
        await self._clock.sleep(wait)

    async def _list(self, api: Any) -> None:
        pods: dict[str, Pod] = {}
        more: str | None = None
        while True:
            body = await _body(await self._call(api, limit=self._options.page, **({"_continue": more} if more else {})))
            pods |= {_key(pod): pod for pod in body.get("items") or ()}
            meta = body.get("metadata") or {}
            more = meta.get("continue")
            if not more:
                break
        await self._nodes.learn(map(node_of, pods.values()))
        self._moved = True
        self._pods, self._version = pods, str(meta.get("resourceVersion", "0"))
        self._heard()
        self._listed.set()
        self._answered.set()

    async def _watch(self, api: Any) -> None:
        response = await self._call(
            api,
            watch=True,
            resource_version=self._version,
            allow_watch_bookmarks=True,
            timeout_seconds=self._options.watch_s,
            _request_timeout=self._options.watch_s + 10,
        )
        self._heard()
        try:
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                if len(pending) > _LINE_LIMIT:
                    raise ValueError("an event is too long")
                for line in lines:
                    if line.strip():
                        self._apply(json.loads(line))
                await self._nodes.learn(map(node_of, self._pods.values()))
        finally:
            response.close()

    def _apply(self, event: Any) -> None:
        kind, thing = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise WatchEnded(int(thing.get("code", 0)), str(thing.get("message", "the watch ended")))
        self._heard()
        self._moved = self._moved or kind != "BOOKMARK"
        version = (thing.get("metadata") or {}).get("resourceVersion")
        if version:
            self._version = str(version)
        if kind in ("ADDED", "MODIFIED"):
            self._pods[_key(thing)] = thing
        elif kind == "DELETED":
            self._pods.pop(_key(thing), None)

    def _heard(self) -> None:
        self._heard_at, self._error, self._retry_at = self._clock.now(), None, None

    async def _node(self, name: str) -> Any:
        from kubernetes.aio import client

        ask = client.CoreV1Api(self._api).read_node_without_preload_content
        return await _body(await ask(name, _request_timeout=ANSWER_S))

    async def _call(self, api: Any, **query: Any) -> Any:
        """The pods of the selector, as a response whose body is read here: pods stay plain JSON."""
        from kubernetes.aio import client

        core, options = client.CoreV1Api(api), self._options
        query.setdefault("_request_timeout", 20)
        if options.namespace is None:
            ask = core.list_pod_for_all_namespaces_without_preload_content
            response = await ask(label_selector=options.selector, **query)
        else:
            ask = core.list_namespaced_pod_without_preload_content
            response = await ask(options.namespace, label_selector=options.selector, **query)
        if response.status >= 400:
            await _body(response)
        return response


async def _body(response: Any) -> Any:
    """The answer's JSON; a refusal is a `WatchEnded`."""
    body = await response.read()
    if response.status >= 400:
        raise WatchEnded(response.status, body[:200].decode("utf-8", "replace"))
    return json.loads(body)


class WatchEnded(Exception):
    """The API server refused or ended a request; `status` is its code. Stays in this module."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def _key(pod: Pod) -> str:
    meta = pod["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _named(error: Exception) -> tuple[SourceErrorKind, str]:
    status = getattr(error, "status", None)
    words = str(error) or type(error).__name__
    if status in (401, 403):
        return SourceErrorKind.AUTH, f"the API server answered {status}: listing and watching pods must be allowed"
    if isinstance(status, int) and status:
        return SourceErrorKind.HTTP_STATUS, f"the API server answered {status}: {words}"
    if isinstance(error, TimeoutError):
        return SourceErrorKind.TIMEOUT, "the API server did not answer in time"
    if "DNS" in type(error).__name__:
        return SourceErrorKind.DNS, "the API server's name does not resolve"
    if "Certificate" in type(error).__name__ or "SSL" in type(error).__name__:
        return SourceErrorKind.TLS, f"TLS with the API server failed: {words}"
    if isinstance(error, OSError) or "Connector" in type(error).__name__:
        return SourceErrorKind.REFUSED, f"the API server cannot be reached: {words}"
    if "Config" in type(error).__name__:
        return SourceErrorKind.INTERNAL, f"no way to a cluster is configured: {words}"
    return SourceErrorKind.INTERNAL, f"{type(error).__name__}: {words}"
