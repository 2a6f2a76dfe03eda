"""What the router counts of itself, in its own registry and page.

Names carry the `opsconsole:` prefix. Trap: a label per request or tenant would grow without bound; labels here are
workers and fixed words only.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from opsconsole.local.router_table import Route


class RouterMetrics:
    """Counters move as things happen; gauges are set when the page is asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.waiting = 0
        self._waiting = self._gauge("router_queue", "Requests waiting here because no worker can take them")
        self._requests = self._gauge("router_inflight_requests", "Requests in flight, by worker", "worker")
        self._tokens = self._gauge("router_inflight_tokens", "Estimated tokens in flight, by worker", "worker")
        self._ready = self._gauge("router_workers_ready", "Workers that may get a request")
        self.ended = self._counter("router_requests", "Requests ended, by worker and how", "worker", "outcome")
        self.placed = self._counter("router_placements", "Placements, by what decided", "rule")
        self.retried = self._counter("router_retries", "Requests placed again because no worker had them yet", "why")
        self.captured = self._counter(
            "router_captured", "Requests for the capture file, by what became of them", "outcome"
        )
        self.cut = self._counter("router_streams_cut", "Streams that had begun and were broken off", "cause")

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"opsconsole:{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"opsconsole:{name}", text, labels, registry=self.registry)

    def page(self, routes: tuple[Route, ...], ready: int) -> bytes:
        """The page, gauges as of now; workers that have gone disappear."""
        self._waiting.set(self.waiting)
        self._ready.set(ready)
        self._requests.clear()
        self._tokens.clear()
        for route in routes:
            self._requests.labels(route.name).set(route.requests)
            self._tokens.labels(route.name).set(route.tokens)
        return generate_latest(self.registry)
