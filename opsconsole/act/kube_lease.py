"""One leader among daemons: a Lease held, renewed and obeyed; and what the leader has under way, written into it.

A leader starts no write unless its lease outlasts the request, counted on its own clock from before the last renewal
was sent. What it does is written into the same object first, under the same version, so that a process that lost the
lease can no longer begin anything, and the next leader finds what was begun. It knows nothing of scaling. The trap:
whether another's lease has run out is judged by how long *this* process has seen it unchanged; clocks of two machines
never agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opsconsole.act.kube_owners import TARGETS, WRITES_AS
from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.failure import KubeError, Patience
from opsconsole.cluster.pods import mapping
from opsconsole.errors import OpsConsoleError, PlanRefused

log = logging.getLogger(__name__)
ACTS = "opsconsole.dev/acts"
ADDRESS = "opsconsole.dev/address"
LABELS = {"app.kubernetes.io/managed-by": "opsconsole"}
MARGIN_S = 1.0  # what a write may take longer than its timeout says


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A leader that could not renew for `renew_s` stops by itself, well before others may take over."""

    lasts_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where the lease is, who wants it, for which workloads, written as whom, and where its holder answers."""

    namespace: str
    name: str
    identity: str
    targets: tuple[str, ...] = ()
    writes_as: str = ""
    address: str = ""

    @property
    def collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"


class Lease:
    """Campaigns for one Lease and holds it."""

    def __init__(self, api: KubeApi, of: LeaseName, clock: Clock, times: LeaseTimes | None = None) -> None:
        self._api, self._of, self._clock, self._times = api, of, clock, times or LeaseTimes()
        self._held: dict[str, Any] | None = None  # the object as last read or written
        self._seen: tuple[object, ...] = ()
        self._seen_at = -1e9  # monotonic, when it last changed
        self._renewed_at: float | None = None  # monotonic, before the renewal was sent
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.tell: Callable[[], Mapping[str, str]] = dict  # annotations that go with every renewal
        self.hear: Callable[[Mapping[str, Any], float], None] = lambda notes, age: None
        self.problem: str | None = "it has not been asked for yet"

    @property
    def leads(self) -> bool:
        """Whether this process may act at all."""
        return self._renewed_at is not None and self._clock.monotonic() - self._renewed_at < self._times.renew_s

    @property
    def holder(self) -> str | None:
        """Who holds it as last read, this process or another."""
        return str(mapping(self._held or {}, "spec").get("holderIdentity") or "") or None

    @property
    def address(self) -> str | None:
        """Where the holder answers, if it says so."""
        return str(self._notes().get(ADDRESS) or "") or None

    @property
    def words(self) -> str | None:
        """Why this process may not act now; None while it leads."""
        if self.leads:
            return None
        if self.holder and self.holder != self._of.identity:
            return f"{self.holder} leads; this daemon follows and changes nothing"
        return f"this daemon does not hold the Lease {self._of.namespace}/{self._of.name}: {self.problem}"

    def fence(self, seconds: float) -> None:
        """Raise unless the lease outlasts a request of this length."""
        words = self.words
        if words is not None:
            raise PlanRefused(f"Not the leader: {words}.")
        assert self._renewed_at is not None
        left = self._renewed_at + self._times.lasts_s - self._clock.monotonic()
        if left < seconds + MARGIN_S:
            raise PlanRefused(f"The lease lasts {left:.1f} s more, and a write may take {seconds:g} s: not begun.")

    def acts(self) -> Mapping[str, Any]:
        """What the holder wrote down of its acts, by plan id."""
        try:
            told = json.loads(str(self._notes().get(ACTS) or "{}"))
        except ValueError:
            return {}
        return told if isinstance(told, Mapping) else {}

    async def note(self, acts: Mapping[str, Any]) -> None:
        """Write down what is under way. Raises `PlanRefused` when the lease is no longer this process's."""
        async with self._turn:
            self.fence(self._patience.timeout_s)
            try:
                await self._put(acts)
            except KubeError as error:
                if error.is_conflict:
                    self._renewed_at = None
                    raise PlanRefused("Not the leader: somebody else has written the Lease.") from error
                if error.may_have_arrived:
                    await self._read()  # the next write needs its version
                raise

    async def start(self) -> None:
        """Campaign once, then keep at it in the background."""
        await self._turn_once()
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Stop and let the lease go, so that another need not wait for it to run out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self.leads and self._held is not None:
            with contextlib.suppress(OpsConsoleError):
                async with self._turn:
                    await self._put(self.acts(), release=True)
        self._renewed_at = None

    @property
    def _patience(self) -> Patience:
        """One try at a time: the loop asks again by itself, and knows when to stop believing."""
        return Patience(tries=1, timeout_s=max(1.0, self._times.retry_s))

    async def _keep(self) -> None:
        while True:
            await self._clock.sleep(self._times.retry_s)
            await self._turn_once()

    async def _turn_once(self) -> None:
        led = self.leads
        try:
            async with self._turn:
                await self._campaign()
            self.problem = None if self.leads else "another holds it"
        except OpsConsoleError as error:
            self.problem = str(error)
        except Exception as error:
            log.exception("the lease cannot be kept")
            self.problem = f"{type(error).__name__}: {error}"
        if led != self.leads:
            log.warning("leads now" if self.leads else "leads no more", extra={"holder": self.holder})

    async def _campaign(self) -> None:
        if self.leads and self._held is not None:
            try:
                await self._put(self.acts())
                return
            except KubeError as error:
                if not error.is_conflict and not error.is_missing:
                    raise
                # Somebody wrote it: read whose it is before believing anything.
        found = await self._read()
        if found is None:
            await self._create()
            return
        if self.holder != self._of.identity:
            # Also just before taking over: what the last leader stood for is stood for by the next.
            self.hear(self._notes(), self._clock.monotonic() - self._seen_at)
        if self.holder in (None, self._of.identity) or self._has_run_out(found):
            await self._put(self.acts())

    def _has_run_out(self, lease: Mapping[str, Any]) -> bool:
        lasts = float(mapping(lease, "spec").get("leaseDurationSeconds") or self._times.lasts_s)
        return self._clock.monotonic() - self._seen_at >= lasts

    async def _read(self) -> dict[str, Any] | None:
        try:
            found = await self._api.get(f"{self._of.collection}/{self._of.name}", patience=self._patience)
        except KubeError as error:
            if not error.is_missing:
                raise
            self._held = None
            self._renewed_at = None
            return None
        self._take(found)
        return dict(found)

    async def _create(self) -> None:
        began = self._clock.monotonic()
        meta = {"name": self._of.name, "namespace": self._of.namespace, "labels": LABELS}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}
        self._fill(body, {}, release=False)
        self._take(await self._api.post(self._of.collection, body, self._patience))
        self._renewed_at = began

    async def _put(self, acts: Mapping[str, Any], release: bool = False) -> None:
        assert self._held is not None
        began = self._clock.monotonic()
        body = json.loads(json.dumps(self._held))
        self._fill(body, acts, release)
        path = f"{self._of.collection}/{self._of.name}"
        self._take(await self._api.put(path, body, patience=self._patience))
        self._renewed_at = None if release else began

    def _fill(self, body: dict[str, Any], acts: Mapping[str, Any], release: bool) -> None:
        spec, meta = body.setdefault("spec", {}), body["metadata"]
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._of.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if spec.get("holderIdentity") else 0)
        spec["holderIdentity"] = "" if release else self._of.identity
        spec["leaseDurationSeconds"] = max(1, round(self._times.lasts_s))
        spec["renewTime"] = now
        meta.pop("managedFields", None)
        meta["labels"] = {**mapping(meta, "labels"), **LABELS}
        meta["annotations"] = {
            **mapping(meta, "annotations"),
            **self.tell(),
            TARGETS: json.dumps(list(self._of.targets)),
            WRITES_AS: self._of.writes_as,
            ADDRESS: self._of.address,
            ACTS: json.dumps(acts, separators=(",", ":")),
        }

    def _take(self, lease: Any) -> None:
        """Keep what the server said, and when it last changed by this process's clock."""
        self._held = dict(lease)
        spec = mapping(self._held, "spec")
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        if self.holder != self._of.identity:
            self._renewed_at = None

    def _notes(self) -> Mapping[str, Any]:
        return mapping(mapping(self._held or {}, "metadata"), "annotations")


class NoLease:
    """For an agent that only watches: nobody leads it, and it may write nothing."""

    def __init__(self) -> None:
        self.tell: Callable[[], Mapping[str, str]] = dict
        self.hear: Callable[[Mapping[str, Any], float], None] = lambda notes, age: None

    leads = False
    words = None
    holder = None
    address = None

    def fence(self, seconds: float) -> None:
        raise PlanRefused("This agent only watches: it holds no lease and writes nothing.")

    def acts(self) -> Mapping[str, Any]:
        return {}

    async def note(self, acts: Mapping[str, Any]) -> None:
        self.fence(0.0)

    async def start(self) -> None:
        """Nothing to campaign for."""

    async def close(self) -> None:
        """Nothing to let go of."""


def identity(host: str, pid: int, token: str) -> str:
    """Unique for a process: names of pods repeat after a restart, and so do process ids."""
    return f"{host}_{pid}_{token}"


def lease_name(fleet: str) -> str:
    """A name the API server takes, of the fleet's own."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in fleet.lower()).strip("-")
    return f"opsconsole-{plain}"[:63].rstrip("-")


def joined(targets: Sequence[str]) -> tuple[str, ...]:
    """Targets as they are told in the Lease: each once, in order."""
    return tuple(sorted(set(targets)))
