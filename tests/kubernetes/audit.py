"""Who wrote what and in which order, by the API server's own audit log and the revisions that etcd gave.

Revisions order every write of a cluster, so "while somebody else held the lease" needs no clock. The trap: a dry run
and a refused write are in the log as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was carried out."""

    revision: int
    at: str  # RFC 3339, when it was answered
    user: str
    replicas: int | None = None  # of a scale
    holder: str | None = None  # of a lease


def writes(log: Path, namespace: str) -> tuple[list[Write], list[Write]]:
    """Writes of scales, and of leases, in the order of the server."""
    scales, leases = [], []
    for event in _events(log):
        of = event["objectRef"]
        if of.get("namespace") != namespace or not _was_done(event):
            continue
        told = event["responseObject"]
        revision = int(told["metadata"]["resourceVersion"])
        write = (revision, event["stageTimestamp"], event["user"]["username"])
        if of.get("subresource") == "scale":
            scales.append(Write(*write, replicas=int(told["spec"].get("replicas", 0))))
        elif of["resource"] == "leases":
            leases.append(Write(*write, holder=str(told["spec"].get("holderIdentity") or "")))
    return sorted(scales, key=lambda w: w.revision), sorted(leases, key=lambda w: w.revision)


def by_non_leaders(scales: Sequence[Write], leases: Sequence[Write], daemons: Sequence[str]) -> list[Write]:
    """Writes of scales by a daemon that did not hold the lease when the server took them."""
    found = []
    for write in scales:
        before = [lease for lease in leases if lease.revision < write.revision]
        led = bool(before) and before[-1].user == write.user and bool(before[-1].holder)
        if write.user in daemons and not led:
            found.append(write)
    return found


def _events(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the server was killed while it wrote this line


def _was_done(event: dict[str, Any]) -> bool:
    done = 200 <= int(event.get("responseStatus", {}).get("code", 0)) < 300
    return done and "dryRun=" not in event["requestURI"] and "responseObject" in event
