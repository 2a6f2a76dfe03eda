"""The cluster's own HPA brings about the published count, asked as an external metric behind the API server.

Prometheus and its adapter are played: by a server that reads the daemon's own metrics text and answers as the adapter
does. The aggregator, the HPA's controller and the manifest are the real ones.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opsconsole.control.meter import Meter
from opsconsole.deploy.handover import METRIC, Handover, autoscaler
from tests.kubernetes.aggregation import EXTERNAL_METRICS, authority, serve_metrics_from, serve_no_metrics
from tests.kubernetes.plane import Cluster, ControlPlane
from tests.kubernetes.worlds import Maker, eventually

Make = Callable[..., Maker]
ROOT = f"/apis/{EXTERNAL_METRICS}/v1beta1"
FOLLOW_S = 60.0


@dataclass
class Adapter:
    """Answers with the newest count of a metrics page, and with nothing where the page has none."""

    meter: Meter = field(default_factory=Meter)
    asked: int = 0

    def answer(self, path: str, query: str) -> dict[str, Any] | None:
        if path.rstrip("/") == ROOT:
            told = [{"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}]
            group = f"{EXTERNAL_METRICS}/v1beta1"
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": told}
        if not path.startswith(f"{ROOT}/namespaces/") or not path.endswith(f"/{METRIC}"):
            return None
        self.asked += 1
        selector = dict(pair.split("=") for pair in parse_qs(query)["labelSelector"][0].split(","))
        items = [
            {"metricName": METRIC, "metricLabels": selector, "timestamp": _now(), "value": f"{int(sample.value)}"}
            for family in text_string_to_metric_families(self.meter.text().decode())
            for sample in family.samples
            if sample.name == METRIC and sample.labels == selector
        ]
        return {"kind": "ExternalMetricValueList", "apiVersion": f"{EXTERNAL_METRICS}/v1beta1", "items": items}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Handler(BaseHTTPRequestHandler):
    adapter: ClassVar[Adapter]

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        found = self.adapter.answer(asked.path, asked.query)
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def adapter(plane: ControlPlane, cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Adapter]:
    authority(tmp_path, "adapter", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "adapter.crt", tmp_path / "adapter.key")
    made = Adapter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (Handler,), {"adapter": made}))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        serve_metrics_from(cluster, namespace, server.server_address[1])
        yield made
    finally:
        serve_no_metrics(cluster)
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_clusters_own_hpa_follows_the_published_count_and_stays_where_it_is_unknown(
    make: Make, adapter: Adapter
) -> None:
    here = make()
    here.deploy(replicas=10, ready="100ms")
    path = here.path("horizontalpodautoscalers", group="autoscaling/v2")
    of = Handover("chat", "Deployment", "vllm", "apps/v1", here.namespace, 1, 12, "")
    adapter.meter.publish({"chat": 10, "another": 3})
    here.cluster.create(f"{path}?fieldValidation=Strict", autoscaler(of))
    await eventually("the HPA to be able", lambda: _condition(here, "ScalingActive") == "True", FOLLOW_S)
    for count in (11, 4):  # a tenth more, which an HPA leaves alone where it is not told otherwise
        adapter.meter.publish({"chat": count, "another": 3})
        await eventually(f"{count} replicas", lambda n=count: here.replicas() == n, FOLLOW_S)  # type: ignore[misc]
    adapter.meter.publish({"another": 3})
    await eventually("the HPA to miss it", lambda: _condition(here, "ScalingActive") == "False", FOLLOW_S)
    asked = adapter.asked
    await eventually("it to have asked again", lambda: adapter.asked > asked + 1, FOLLOW_S)
    assert here.replicas() == 4
    adapter.meter.publish({"chat": 2, "another": 3})
    await eventually("2 replicas", lambda: here.replicas() == 2, FOLLOW_S)
    here.cluster.delete(f"{path}/vllm")


def _condition(here: Maker, kind: str) -> str:
    hpa = here.cluster.get(here.path("horizontalpodautoscalers", "vllm", group="autoscaling/v2"))
    found = hpa.get("status", {}).get("conditions", [])
    return next((str(c["status"]) for c in found if c["type"] == kind), "")
