"""What was done to a workload, told in the cluster's own place for it: Events on the object, with the reason.

The words are HPA's (SuccessfulRescale, FailedRescale), so that what watches those sees these. Telling is never worth
failing for. The trap: events are kept for an hour by most clusters; the journal is the record, this is the notice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi
from opsconsole.cluster.pods import mapping
from opsconsole.cluster.workload import Workload
from opsconsole.errors import OpsConsoleError

log = logging.getLogger(__name__)
RESCALED, FAILED, DRAINING, DRAINED = "SuccessfulRescale", "FailedRescale", "Draining", "Drained"
PARTLY = "PartlyRescaled"  # some of a growth does not come
_LONGEST = 1000  # characters; the API takes 1024 bytes or so


@dataclass(slots=True)
class Herald:
    """Writes events in one name."""

    api: KubeApi
    clock: Clock
    identity: str

    async def tell(self, workload: Workload, thing: Mapping[str, Any], reason: str, text: str) -> None:
        """One event on the workload. Failures are logged."""
        meta = mapping(thing, "metadata")
        now = datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{workload.name}.", "namespace": workload.namespace},
            "involvedObject": {
                "apiVersion": workload.api_version,
                "kind": thing.get("kind"),
                "name": workload.name,
                "namespace": workload.namespace,
                "uid": meta.get("uid"),
                "resourceVersion": meta.get("resourceVersion"),
            },
            "reason": reason,
            "message": text[:_LONGEST],
            "type": "Warning" if reason in (FAILED, PARTLY) else "Normal",
            "source": {"component": "opsconsole", "host": self.identity},
            "reportingComponent": "opsconsole",
            "reportingInstance": self.identity[:128],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self.api.post(f"/api/v1/namespaces/{workload.namespace}/events", body)
        except OpsConsoleError as error:
            log.warning("an event cannot be written: %s", error)
