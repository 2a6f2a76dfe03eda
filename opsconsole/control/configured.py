"""From a checked configuration to an agent's settings and parts: the composition root of `opsconsole autoscale`.

It maps tables to values and starts nothing. What opsconsole cannot do yet is refused here by its key, never ignored.
The trap: `[act] mode = "act"` without an actuator would look as if it acted; each pool that has none is named at start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from opsconsole.act.board import Board
from opsconsole.clock import Clock
from opsconsole.cluster.api import connect, own_namespace
from opsconsole.config import ActTable, Loaded, NotifyTable, TokenTable, load
from opsconsole.control.agent import Build, Parts
from opsconsole.control.alerts import RULES
from opsconsole.control.clusters import cluster_parts, place_of, workloads
from opsconsole.control.configured_pool import pool_settings, slos_of
from opsconsole.control.credentials import fetch_options, named, secret, where
from opsconsole.control.live import why_not
from opsconsole.control.settings import (
    AgentSettings,
    AlertSettings,
    Budget,
    Channel,
    Listen,
    Mode,
    PoolSettings,
    Role,
    Token,
)
from opsconsole.domain.fleet import PoolSpec
from opsconsole.errors import ConfigError
from opsconsole.observe.kube import KubeOptions, KubeTargets
from opsconsole.observe.kube_pods import PodRules
from opsconsole.observe.kube_workload import WorkloadTargets
from opsconsole.observe.prometheus import Known, PrometheusSource, PrometheusSourceOptions
from opsconsole.observe.promql import PrometheusOptions
from opsconsole.observe.scrape import ScrapeOptions, ScrapeSource
from opsconsole.observe.sharded import ShardedSource
from opsconsole.observe.source import Source, Target, TargetProvider
from opsconsole.observe.targets import (
    DnsTargets,
    FileTargets,
    JoinedTargets,
    StaticTargets,
    as_url,
    target_at,
    without_login,
)

ANY_POOL = "default"


def agent_settings(loaded: Loaded, env: Mapping[str, str] | None = None) -> AgentSettings:
    """An agent's settings; impossible ones are a ConfigError that names file and key."""
    config = loaded.config
    agent, act = config.agent, config.act
    _check_names(loaded)
    pools = tuple(pool_settings(name, table, loaded) for name, table in config.pool.items())
    usual = PoolSettings(PoolSpec(ANY_POOL, slos=slos_of(config, tuple(config.slo))))
    return AgentSettings(
        data_dir=agent.data_dir or default_data_dir(os.environ if env is None else env),
        fleet=agent.fleet,
        interval_s=agent.interval,
        decide_every_s=act.decide_every,
        mode=Mode(act.mode),
        allow_intents=act.allow_intents,
        pools=pools or (usual,),
        any_pool=None if pools else usual,
        budgets=tuple(_budgets(loaded)),
        listen=_listen(loaded),
        tokens=tuple(_token(token) for token in agent.tokens),
        alerts=AlertSettings(
            frozenset(config.alerts.mute), dict(config.alerts.hold), tuple(_channel(t) for t in config.alerts.notify)
        ),
        most_bytes=agent.history_size,
        baselines=act.baselines,
        json_log=agent.json_log,
    )


def default_data_dir(env: Mapping[str, str]) -> Path:
    """The XDG state folder's `opsconsole`."""
    home = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(home) / "opsconsole" / "agent"


def _check_names(loaded: Loaded) -> None:
    config = loaded.config
    laws = [(f"pool.{name}.policy", pool.policy) for name, pool in config.pool.items()]
    for key, value in (*laws, *(("act.baselines", name) for name in config.act.baselines)):
        wrong = why_not(value)
        if wrong is not None:
            raise ConfigError(f"{where(loaded, key)}: {key}: {wrong}")
    alerts = [rule.name for rule in RULES]
    asked = [("alerts.mute", name) for name in config.alerts.mute] + [("alerts.hold", n) for n in config.alerts.hold]
    for key, value in asked:
        if value not in alerts:
            raise ConfigError(f"{where(loaded, key)}: {key}: {value!r} is unknown; use one of {', '.join(alerts)}.")
    if config.act.mode == "act" and not any(pool.target for pool in config.pool.values()):
        raise ConfigError(
            f"{where(loaded, 'act.mode')}: act.mode: nothing here can be acted on: name what a pool scales, such as "
            '[pool.chat] target = "deployment/vllm", or use "advise".'
        )
    for name, pool in config.pool.items():
        if pool.via != "scale" and pool.target is None:
            key = f"pool.{name}.via"
            raise ConfigError(f"{where(loaded, key)}: {key}: give the pool's target as well, what {pool.via} scales.")


def _budgets(loaded: Loaded) -> Iterator[Budget]:
    """Budgets that can be kept: of pools that exist, each in one at most, and enough for their minimums."""
    config = loaded.config
    taken: dict[str, str] = {}
    for name, table in config.budget.items():
        at = f"{where(loaded, f'budget.{name}')}: budget.{name}"
        for pool in table.pools:
            if pool not in config.pool:
                raise ConfigError(f"{at}.pools: there is no [pool.{pool}].")
            if taken.setdefault(pool, name) != name:
                raise ConfigError(f"{at}.pools: {pool} is in budget.{taken[pool]} already; a pool is in one at most.")
        least = sum(config.pool[p].minimum * (config.pool[p].gpus_per_replica or 1) for p in table.pools)
        if least > table.gpus:
            raise ConfigError(f"{at}.gpus: {table.gpus} is less than the {least} that the pools' minimums take.")
        yield Budget(name, table.gpus, table.pools)


def _token(table: TokenTable) -> Token:
    if table.secret is not None:
        return Token(table.name, table.secret, Role(table.role))
    return Token(table.name, secret(table.file), Role(table.role))


def _channel(table: NotifyTable) -> Channel:
    kind = "webhook" if table.webhook else "alertmanager" if table.alertmanager else "command"
    bearer = secret(table.bearer_token_file)
    headers = (*table.headers.items(), *((("Authorization", f"Bearer {bearer}"),) if bearer else ()))
    url = table.webhook or table.alertmanager or ""
    return Channel(kind, url, table.command, table.least, headers, table.timeout)


def _listen(loaded: Loaded) -> Listen | None:
    agent = loaded.config.agent
    if agent.listen is None:
        return None
    host, _, port = agent.listen.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        key = "agent.listen"
        raise ConfigError(f"{where(loaded, key)}: {key}: {agent.listen!r} is no HOST:PORT.")
    return Listen(host.strip("[]"), int(port), agent.tls_cert, agent.tls_key)


def parts_builder(loaded: Loaded) -> Build:
    """How an agent process makes its sources from the configuration, inside its own event loop."""

    def build(settings: AgentSettings, clock: Clock) -> Parts:
        def again() -> AgentSettings:
            return agent_settings(load(loaded.path))

        from opsconsole.control.foresight import Foresight, foresight_options

        forecasting = Foresight(foresight_options(settings), clock)
        board = Board(frozenset(name for name, pool in loaded.config.pool.items() if pool.via != "scale"))
        cluster = cluster_parts(loaded, board, clock)
        return Parts(
            tuple(sources(loaded, clock)),
            forecasting=forecasting,
            reload=again,
            board=board,
            beside=_scaler(loaded.config.act, board, clock),
            actuators=cluster.actuators,
            companions=() if cluster.life is None else (cluster.life,),
            leading=None if cluster.life is None else cluster.life.leading,
        )

    return build


def _scaler(table: ActTable, board: Board, clock: Clock) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """The external scaler for KEDA where the configuration asks for it."""
    if table.keda_listen is None:
        return nullcontext
    try:
        from opsconsole.act.keda import serving
    except ImportError:
        raise ConfigError("[act] keda_listen needs the keda extra: pip install 'opsconsole[keda]'.") from None
    if (table.keda_tls_cert is None) != (table.keda_tls_key is None):
        raise ConfigError("act.keda_tls_cert and act.keda_tls_key come together.")
    tls = None
    if table.keda_tls_cert is not None and table.keda_tls_key is not None:
        tls = (table.keda_tls_cert, table.keda_tls_key)
    return partial(serving, board, clock.now, table.keda_listen, tls)


def sources(loaded: Loaded, clock: Clock) -> Iterator[Source]:
    """Every source the configuration names. None at all is an error that says what to write."""
    config = loaded.config
    fetch = fetch_options(loaded)
    scrape = ScrapeOptions(fetch=fetch, budget_s=min(0.8 * config.agent.interval, config.sources.timeout))
    providers = list(_providers(loaded, clock))
    if not providers and config.sources.prometheus is None:
        raise ConfigError(
            f'{loaded.path or "The configuration"} names no source: give [sources] targets = ["http://HOST:PORT"], '
            "or addresses on the command line."
        )
    if providers:
        joined = providers[0] if len(providers) == 1 else JoinedTargets(providers)
        shards = config.sources.shards
        yield ShardedSource(joined, clock, scrape, shards) if shards > 1 else ScrapeSource(joined, clock, scrape)
    if config.sources.prometheus is not None:
        yield _prometheus(loaded, clock, partial(_pods_that_exist, providers))


def _pods_that_exist(providers: Sequence[TargetProvider]) -> frozenset[str] | None:
    """Names of the pods that the cluster knows; None without a cluster, or before its first list."""
    listed = [provider.names() for provider in providers if isinstance(provider, KubeTargets | WorkloadTargets)]
    known = [names for names in listed if names is not None]
    return frozenset().union(*known) if known and len(known) == len(listed) else None


def _prometheus(loaded: Loaded, clock: Clock, known: Known) -> Source:
    config, table = loaded.config, loaded.config.sources.prometheus
    assert table is not None
    with named(loaded, "sources.prometheus.bearer_token_file"):
        bearer = secret(table.bearer_token_file)
    with named(loaded, "sources.prometheus.url"):
        url, login = without_login(as_url(table.url, path=""))
    fetch = fetch_options(loaded)
    server = PrometheusOptions(
        url,
        (("Authorization", f"Bearer {bearer}"),) if bearer else login,
        verify=(fetch.verify and fetch.ca_file) or fetch.verify,
        client_cert=fetch.client_cert,
        timeout_s=fetch.timeout_s,
    )
    labels = {"pool_labels": table.pool_labels} if table.pool_labels else {}
    options = PrometheusSourceOptions(table.matchers, config.agent.interval, **labels)
    return PrometheusSource(server, clock, options, known)


def _providers(loaded: Loaded, clock: Clock) -> Iterator[TargetProvider]:
    config = loaded.config
    table = config.sources
    only = next(iter(config.pool)) if len(config.pool) == 1 else ANY_POOL
    with named(loaded, "sources.targets"):
        fixed: list[Target] = [target_at(address, only) for address in table.targets]
    for name, pool in config.pool.items():
        with named(loaded, f"pool.{name}.targets"):
            fixed += [target_at(address, name) for address in pool.targets]
    if fixed:
        yield StaticTargets(fixed)
    with named(loaded, "sources.dns"):
        yield from [DnsTargets(address, clock, only) for address in table.dns]
    for path in table.files:
        yield FileTargets(Path(path), clock, only)
    yield from _pods(loaded, clock)


def _pods(loaded: Loaded, clock: Clock) -> Iterator[TargetProvider]:
    """Pods of the cluster: of a selector, or of the workload that a pool scales."""
    config = loaded.config
    place, kube = place_of(config), config.sources.kubernetes
    new_api = partial(connect, place)
    usual = config.kubernetes.namespace or own_namespace()  # a pod's account may look at its own namespace only
    if kube is not None:
        rules = PodRules(port=kube.port, pool=kube.pool)
        namespace = kube.namespace or usual
        yield KubeTargets(KubeOptions(kube.selector, namespace, rules), clock, new_api)
    targets = workloads(loaded)
    for name, pool in config.pool.items():
        rules = PodRules(port=pool.port, pool=name)
        if pool.selector is not None:
            namespace = pool.namespace or usual
            yield KubeTargets(KubeOptions(pool.selector, namespace, rules), clock, new_api)
        elif name in targets:
            yield WorkloadTargets(place, targets[name], KubeOptions(rules=rules), clock)
