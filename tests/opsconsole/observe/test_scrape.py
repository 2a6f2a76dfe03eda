"""Scraping a real server on loopback that misbehaves: every failure has its kind, and the others do not notice."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opsconsole.clock import ManualClock, SystemClock
from opsconsole.domain.replica import Observation
from opsconsole.errors import SourceErrorKind as Kind
from opsconsole.observe.fetch import FetchOptions
from opsconsole.observe.scrape import ScrapeOptions, ScrapeSource
from opsconsole.observe.source import Target
from opsconsole.observe.targets import StaticTargets, target_at
from tests.opsconsole.observe.conftest import text

QUICK = ScrapeOptions(FetchOptions(timeout_s=0.4, max_bytes=1_000_000), budget_s=2.0, spread_s=0.0)


def targets(server: Any, *paths: str) -> list[Target]:
    return [target_at(f"{server.url}/{path}", name=path) for path in paths]


@asynccontextmanager
async def scraping(
    wanted: list[Target], options: ScrapeOptions = QUICK, clock: Any = None
) -> AsyncIterator[ScrapeSource]:
    source = ScrapeSource(StaticTargets(wanted), clock or SystemClock(), options)
    try:
        yield source
    finally:
        await source.close()


async def observed(wanted: list[Target], options: ScrapeOptions = QUICK) -> dict[str, Observation]:
    async with scraping(wanted, options) as source:
        return {o.replica.name: o for o in await source.observe(0.0)}


def kind_of(observation: Observation) -> Kind | None:
    return observation.error.kind if observation.error else None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("html", Kind.NOT_METRICS), ("json", Kind.NOT_METRICS), ("list", Kind.NOT_METRICS),
        ("notgzip", Kind.NOT_METRICS),
        ("empty", Kind.EMPTY), ("401", Kind.AUTH), ("token", Kind.AUTH), ("500", Kind.HTTP_STATUS),
        ("no/such", Kind.HTTP_STATUS),
        ("endless", Kind.TOO_LARGE), ("announced", Kind.TOO_LARGE), ("bomb", Kind.TOO_LARGE),
        ("slow", Kind.TOO_SLOW), ("hang", Kind.TIMEOUT), ("loop", Kind.REDIRECT), ("far", Kind.REDIRECT),
        ("cut", Kind.TRUNCATED), ("halfgzip", Kind.TRUNCATED), ("closing", Kind.TRUNCATED),
    ],
)  # fmt: skip
async def test_each_way_to_misbehave_is_an_error_with_its_kind_and_no_sample(
    server: Any, path: str, kind: Kind
) -> None:
    found = (await observed(targets(server, path)))[path]
    assert found.sample is None
    assert found.error is not None and found.error.kind is kind, found.error


async def test_all_of_them_at_once_leave_the_good_ones_alone(server: Any) -> None:
    bad = ("html", "json", "empty", "401", "500", "endless", "bomb", "slow", "hang", "loop", "cut")
    patient = replace(QUICK, fetch=replace(QUICK.fetch, timeout_s=1.5))  # the server shares this loop
    found = await observed(targets(server, "ok", *bad, "gzip"), patient)
    assert len(found) == len(bad) + 2
    assert all(found[name].sample is None for name in bad)
    for good in ("ok", "gzip"):
        sample = found[good].sample
        assert found[good].error is None and sample is not None
        assert (sample.running, sample.waiting, sample.engine) == (3.0, 1.0, "vllm")


async def test_a_page_that_moved_is_followed_once(server: Any) -> None:
    found = (await observed(targets(server, "moved")))["moved"]
    assert found.error is None and found.sample is not None


async def test_nothing_listening_a_name_that_does_not_resolve_and_a_bad_address_have_kinds() -> None:
    wanted = [target_at("http://127.0.0.1:9", name="refused"), target_at("http://no-such-name.invalid:80", name="dns")]
    found = await observed(wanted)
    assert (kind_of(found["refused"]), kind_of(found["dns"])) == (Kind.REFUSED, Kind.DNS)


async def test_what_is_asked_for_is_text_in_gzip_and_never_openmetrics(server: Any) -> None:
    await observed(targets(server, "ok"))
    headers = server.requests[0].headers
    assert headers["Accept"] == "text/plain;version=0.0.4"
    assert headers["Accept-Encoding"] == "gzip"


async def test_connections_are_kept_alive(server: Any) -> None:
    async with scraping(targets(server, "ok")) as source:
        for _ in range(5):
            await source.observe(0.0)
    ports = {request.transport.get_extra_info("peername")[1] for request in server.requests if request.transport} or {0}
    assert len(server.requests) == 5
    assert len(ports) == 1


@pytest.mark.parametrize("header", ["Bearer s3cret", "Basic dTpw"])
async def test_credentials_open_the_page_and_do_not_show_in_errors(server: Any, header: str) -> None:
    wanted = [replace(t, headers=(("Authorization", header),)) for t in targets(server, "token")]
    assert (await observed(wanted))["token"].sample is not None
    assert "s3cret" not in repr(wanted) and "dTpw" not in repr(wanted)


async def test_credentials_do_not_follow_a_redirect_to_another_host(server: Any, start_server: Any) -> None:
    async with start_server() as other:

        async def away(request: Any) -> Any:
            from aiohttp import web

            raise web.HTTPFound(f"{other.url}/ok")

        server._away = away
        ours = (("Authorization", "Bearer s3cret"), ("Host", "engine.svc:8000"))
        wanted = [replace(t, headers=ours) for t in targets(server, "away")]
        assert (await observed(wanted))["away"].sample is not None
        assert "Authorization" not in other.requests[0].headers
        assert other.requests[0].host == other.url.removeprefix("http://")


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure_and_a_known_one_is_not(
    start_server: Any, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with start_server(context) as secure:
        assert kind_of((await observed(targets(secure, "ok")))["ok"]) is Kind.TLS
        trusting = replace(QUICK, fetch=replace(QUICK.fetch, ca_file=str(certificate[0])))
        assert (await observed(targets(secure, "ok"), trusting))["ok"].sample is not None
        careless = replace(QUICK, fetch=replace(QUICK.fetch, verify=False))
        assert (await observed(targets(secure, "ok"), careless))["ok"].sample is not None


@pytest.mark.parametrize("verify", [True, False])
async def test_a_server_that_asks_for_a_certificate_gets_ours(
    start_server: Any, certificate: tuple[Path, Path], verify: bool
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate[0])
    shown = (str(certificate[0]), str(certificate[1]))
    fetch = replace(QUICK.fetch, ca_file=str(certificate[0]), verify=verify)
    async with start_server(context) as secure:
        wanted = targets(secure, "ok")
        refused = kind_of((await observed(wanted, replace(QUICK, fetch=fetch)))["ok"])
        assert refused in (Kind.TLS, Kind.REFUSED)  # a server of asyncio hangs up and does not say why
        known = replace(QUICK, fetch=replace(fetch, client_cert=shown))
        assert (await observed(wanted, known))["ok"].sample is not None


async def test_a_certificate_is_checked_for_the_name_that_was_asked_and_not_for_the_number_behind_it(
    start_server: Any, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    trusting = replace(QUICK, fetch=replace(QUICK.fetch, ca_file=str(certificate[0])))
    async with start_server(context) as secure:
        (target,) = targets(secure, "ok")
        asked = {name: replace(target, headers=(("Host", name),)) for name in ("127.0.0.1:7", "other.svc:7")}
        assert (await observed([asked["127.0.0.1:7"]], trusting))["ok"].sample is not None
        found = (await observed([asked["other.svc:7"]], trusting))["ok"]
        assert kind_of(found) is Kind.TLS and found.error is not None and "other.svc" in found.error.detail


async def test_targets_named_twice_are_counted_once_and_the_second_says_so(server: Any) -> None:
    wanted = [
        target_at(f"{server.url}/metrics"),
        target_at(server.url),
        target_at(f"{server.url}/metrics/", name="third"),
    ]
    async with scraping(wanted) as source:
        found = await source.observe(0.0)
    assert [kind_of(o) for o in found] == [None, Kind.DUPLICATE, Kind.DUPLICATE]
    assert len({o.replica.name for o in found}) == 3
    assert len(server.requests) == 1


async def test_an_engine_that_changes_under_its_address_is_named_and_read(server: Any) -> None:
    async with scraping(targets(server, "ok")) as source:
        await source.observe(0.0)
        server.page = "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 7\n"
        found = (await source.observe(1.0))[0]
    assert kind_of(found) is Kind.ENGINE_CHANGED
    assert found.sample is not None and (found.sample.engine, found.sample.running) == ("sglang", 7.0)
    assert found.error is not None and found.error.detail == "was vllm, now answers as sglang"
    assert "engine_changed" in found.sample.flags


async def test_a_clock_far_from_ours_is_named_and_the_numbers_are_kept(server: Any) -> None:
    found = (await observed(targets(server, "skewed")))["skewed"]
    assert kind_of(found) is Kind.CLOCK_SKEW
    assert found.sample is not None and found.sample.running == 3.0


async def test_a_slow_page_is_reported_in_its_tick_and_delivered_in_the_next(server: Any) -> None:
    gate = asyncio.Event()

    async def late(request: Any) -> Any:
        await gate.wait()
        return await server._ok(request)

    server._late = late
    options = ScrapeOptions(FetchOptions(timeout_s=5.0), budget_s=1.0, spread_s=0.0)
    async with scraping(targets(server, "late", "ok"), options) as source:
        first = {o.replica.name: o for o in await source.observe(0.0)}
        assert kind_of(first["late"]) is Kind.TIMEOUT and first["ok"].sample is not None
        gate.set()
        await asyncio.sleep(0.05)
        second = {o.replica.name: o for o in await source.observe(1.0)}
        assert second["late"].sample is not None and second["late"].error is None


async def test_failures_in_a_row_are_tried_more_rarely_and_a_success_forgets_them(server: Any) -> None:
    clock = ManualClock(SystemClock().now())
    options = ScrapeOptions(FetchOptions(timeout_s=1.0), spread_s=0.0, backoff_s=2.0, backoff_max_s=4.0)
    async with scraping(targets(server, "500"), options, clock) as source:
        asked = []
        for _ in range(20):
            await source.observe(clock.now())
            asked.append(len(server.requests))
            await clock.advance(1.0)
        assert asked[:2] == [1, 2]  # one failure is tried again at once
        assert 6 <= asked[-1] <= 8  # then after 2 s, then every 4 s
        found = (await source.observe(clock.now()))[0]
        assert found.error is not None and found.error.attempts >= 6 and found.error.retry_at is not None
        server._500 = server._ok
        await clock.advance(5.0)
        await source.observe(clock.now())
        recovered = (await source.observe(clock.now()))[0]
        assert recovered.sample is not None
        assert kind_of(recovered) in (None, Kind.CLOCK_SKEW)  # our own clock was moved by hand


async def test_the_status_counts_failures_by_kind_and_gives_the_age(server: Any) -> None:
    clock = ManualClock(SystemClock().now())
    async with scraping(targets(server, "ok", "html", "empty"), QUICK, clock) as source:
        await source.observe(clock.now())
        await clock.advance(3.0)
        view = source.status()
    assert view.ok and view.age == pytest.approx(3.0)
    assert view.error == "2 of 3 targets fail: not-metrics (1), empty (1)"


async def test_a_source_whose_every_target_fails_is_not_ok(server: Any) -> None:
    async with scraping(targets(server, "html", "empty")) as source:
        await source.observe(0.0)
        assert not source.status().ok


async def test_a_target_that_leaves_is_forgotten_and_one_that_comes_is_asked(server: Any) -> None:
    class Changing:
        wanted: tuple[Target, ...] = ()
        status = StaticTargets(()).status

        async def targets(self, now: float) -> tuple[Target, ...]:
            return self.wanted

        async def close(self) -> None: ...

    provider = Changing()
    source = ScrapeSource(provider, SystemClock(), QUICK)
    names: Callable[[Any], list[str]] = lambda found: [o.replica.name for o in found]  # noqa: E731
    try:
        assert await source.observe(0.0) == ()
        provider.wanted = tuple(targets(server, "ok", "gzip"))
        assert names(await source.observe(1.0)) == ["ok", "gzip"]
        provider.wanted = tuple(targets(server, "gzip"))
        assert names(await source.observe(2.0)) == ["gzip"]
    finally:
        await source.close()


async def test_a_replica_without_an_address_yet_is_observed_with_its_phase() -> None:
    pending = replace(target_at("http://10.0.0.1:1", name="p"), url=None, phase="pull", ready=False)
    found = (await observed([pending]))["p"]
    assert (found.phase, found.ready, found.sample, found.error) == ("pull", False, None, None)


async def test_two_hundred_targets_are_asked_together(server: Any) -> None:
    wanted = [target_at(f"{server.url}/ok?n={n}", name=f"r{n}") for n in range(200)]
    async with scraping(wanted, ScrapeOptions(budget_s=20.0, spread_s=0.0)) as source:
        found = await source.observe(0.0)
    assert sum(o.sample is not None for o in found) == 200


async def test_a_provider_that_raises_costs_nobody_the_tick(server: Any) -> None:
    class Raising(StaticTargets):
        broken = False

        async def targets(self, now: float) -> tuple[Target, ...]:
            if self.broken:
                raise RuntimeError("a bug of ours")
            return await super().targets(now)

    provider = Raising(targets(server, "ok"))
    source = ScrapeSource(provider, SystemClock(), QUICK)
    try:
        await source.observe(0.0)
        provider.broken = True
        assert [o.sample is not None for o in await source.observe(1.0)] == [True]
        assert not source.status().ok and "a bug of ours" in (source.status().error or "")
    finally:
        await source.close()


async def test_a_page_of_a_hundred_thousand_series_is_read_aside_and_the_others_do_not_wait_for_it(server: Any) -> None:
    """Whoever leaks labels costs a thread some seconds, not every replica its tick."""
    name = "vllm:num_requests_running"
    rows = "".join(f'{name}{{engine="0",model_name="m",pid="{n}"}} 3\n' for n in range(100_000))
    patient = replace(QUICK, fetch=FetchOptions(timeout_s=30.0), budget_s=30.0)

    async def leaking(request: Any) -> Any:
        return text(rows)

    server._leaking = leaking
    async with scraping(targets(server, "leaking", "ok"), patient) as source:
        readers: dict[str, int] = {}
        read = source._read

        def watched(state: Any, body: Any) -> Any:
            readers[state.target.replica.name] = threading.get_ident()
            return read(state, body)

        source._read = watched  # type: ignore[method-assign]
        found = {o.replica.name: o for o in await source.observe(0.0)}
    assert all(o.sample is not None and o.sample.running == 3.0 for o in found.values()), found
    assert readers["ok"] == threading.get_ident() != readers["leaking"]
