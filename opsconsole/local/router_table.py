"""The workers as the router knows them, what it has in flight on each, and where the next request goes.

In-flight counts are the router's own and always fresh, so a stale report can never starve or flood a worker. The rule
is `policies.routing.place`; this keeps its facts. Trap: every `begin` has exactly one `end`, whatever happened between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from policies.routing import RouteRequest, RoutingMemory, WorkerFacts, place
from policies.routing_memory import Shared

SHUN_FOR = 1.0  # s a worker that could not be reached is left alone


@dataclass(slots=True)
class Route:
    """One worker, seen from the router."""

    name: str
    url: str
    ready_at: float | None  # when its present life became useful
    is_ready: bool = True
    is_draining: bool = False
    tokens: float = 0.0  # estimated, in flight
    requests: int = 0
    shunned_until: float = 0.0


class Choice:
    """A placement that is being carried out; `end` it once."""

    def __init__(self, route: Route, tokens: float, rule: str) -> None:
        self.route, self.rule = route, rule
        self._tokens: float | None = tokens
        route.tokens += tokens
        route.requests += 1

    def end(self) -> None:
        """The worker is done with it, well or not. A second call changes nothing."""
        if self._tokens is not None:
            self.route.tokens -= self._tokens
            self.route.requests -= 1
            if self.route.requests == 0:
                self.route.tokens = 0.0  # no rounding left behind
            self._tokens = None


class RoutingTable:
    """All routes, by name."""

    def __init__(self, now: Callable[[], float], draw: Random) -> None:
        self.version: int | None = None
        self._now = now
        self._draw = draw
        self._memory = RoutingMemory()
        self._routes: dict[str, Route] = {}
        self._seen_at = now()

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(self._routes.values())

    @property
    def ready(self) -> tuple[Route, ...]:
        """Workers that may get a request now."""
        now = self._now()
        return tuple(r for r in self.routes if r.is_ready and not r.is_draining and r.shunned_until <= now)

    def update(self, state: Mapping[str, Any]) -> None:
        """Take over the supervisor's state. A new life of a worker is a new route: its cache and streams are gone."""
        self.version, self._seen_at = state["version"], self._now()
        kept: dict[str, Route] = {}
        for member in state["members"]:
            if not member["url"]:
                continue
            old = self._routes.get(member["name"])
            if old is None or old.url != member["url"] or old.ready_at != member["ready_at"]:
                old = Route(member["name"], member["url"], member["ready_at"])
            old.is_ready, old.is_draining = bool(member["ready"]), bool(member["draining"])
            kept[old.name] = old
        self._routes = kept

    def is_leaving(self, route: Route) -> bool:
        """It drains or has gone: what it did not answer, it did not take."""
        now = self._routes.get(route.name)
        return route.is_draining or now is not route

    def shun(self, route: Route) -> None:
        """It could not be reached; leave it alone for a moment."""
        route.shunned_until = self._now() + SHUN_FOR

    def shared(self) -> list[tuple[Shared, float]]:
        """Prefixes that many requests share, most saved first, and how many seconds ago each was last met."""
        now = self._now()
        return [(prefix, now - prefix.last) for prefix in self._memory.shared(now)]

    def choose(
        self, hashes: tuple[int, ...], tokens: float, slo_class: str, key: str, without: Sequence[str] = ()
    ) -> Choice | None:
        """Place a request, or None while nobody can take it."""
        now = self._now()
        facts = tuple(self._facts(route, now) for route in self.ready if route.name not in without)
        if not facts:
            return None
        request = RouteRequest(prefix_hashes=hashes, tokens=tokens, slo_class=slo_class, key=key)
        placement, self._memory = place(request, facts, self._memory, self._draw.random(), now)
        if placement.worker is None:
            return None
        rule = "prefix" if placement.matched_tokens > 0 else "least_loaded"
        return Choice(self._routes[placement.worker], tokens, rule)

    def _facts(self, route: Route, now: float) -> WorkerFacts:
        return WorkerFacts(
            name=route.name,
            healthy=True,
            draining=route.is_draining,
            inflight_tokens=route.tokens,
            inflight_requests=route.requests,
            started_at=route.ready_at,
            age=now - self._seen_at,
            capacity_weight=1.0,
        )
