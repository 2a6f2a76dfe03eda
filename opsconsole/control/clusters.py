"""From a configuration to the cluster it names: which pools are workloads, who writes them, who leads.

It maps and composes and sends nothing. The trap: an agent that only advises must not campaign for a lease, or it would
keep the daemon that acts from acting; it reads the scale and is led by nobody.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opsconsole.act.board import Board
from opsconsole.act.kube import KubeActuator
from opsconsole.act.kube_events import Herald
from opsconsole.act.kube_lease import Lease, LeaseName, LeaseTimes, NoLease, identity, joined, lease_name
from opsconsole.act.kube_life import KubeLife
from opsconsole.act.kube_look import KubePool
from opsconsole.act.kube_owners import MANAGER, Self
from opsconsole.act.kube_routing import knock
from opsconsole.act.kube_scale import Scaler
from opsconsole.act.kube_world import World
from opsconsole.clock import Clock
from opsconsole.cluster.api import KubeApi, Place, namespace_of
from opsconsole.cluster.workload import Workload, workload
from opsconsole.config import Config, Loaded
from opsconsole.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What acts on a cluster: an actuator a pool, and the life that runs beside the loop."""

    actuators: Mapping[str, KubeActuator]
    life: KubeLife | None = None


def place_of(config: Config) -> Place:
    table = config.kubernetes
    return Place(table.kubeconfig and table.kubeconfig.expanduser(), table.context, table.namespace)


def workloads(loaded: Loaded) -> dict[str, Workload]:
    """The workload of each pool that names one."""
    config = loaded.config
    named = {name: pool for name, pool in config.pool.items() if pool.target is not None}
    if not named:
        return {}
    usual = namespace_of(place_of(config))
    found: dict[str, Workload] = {}
    for name, pool in named.items():
        try:
            found[name] = workload(pool.target or "", pool.namespace or usual)
        except ConfigError as error:
            key = f"pool.{name}.target"
            raise ConfigError(f"{loaded.origins.get(key) or loaded.path}: {key}: {error}") from None
    twice = _twice(found)
    if twice is not None:
        raise ConfigError(f"{loaded.path}: pools {twice[0]} and {twice[1]} both scale {found[twice[0]]}: keep one.")
    return found


def cluster_parts(loaded: Loaded, board: Board, clock: Clock) -> ClusterParts:
    """Actuators for every pool with a target; none where no pool has one."""
    targets = workloads(loaded)
    if not targets:
        return ClusterParts({})
    config = loaded.config
    world = _world(config, targets, board, clock)
    pools = [_pool(config, name, of) for name, of in targets.items()]
    actuators = {of.pool: KubeActuator(of, world) for of in pools}
    return ClusterParts(actuators, KubeLife(world, list(actuators.values())))


def _world(config: Config, targets: Mapping[str, Workload], board: Board, clock: Clock) -> World:
    place = place_of(config)
    api = KubeApi(place, clock)
    who = identity(socket.gethostname(), os.getpid(), secrets.token_hex(3))
    manager = f"{MANAGER}/{config.agent.fleet}"[:128]
    name = LeaseName(
        namespace_of(place),
        lease_name(config.agent.fleet),
        who,
        joined([of.key for of in targets.values()]),
        manager,
        config.kubernetes.advertise or "",
    )
    lease: Lease | NoLease = NoLease()
    if config.act.mode == "act" or config.act.allow_intents:
        lasts = config.kubernetes.lease
        lease = Lease(api, name, clock, LeaseTimes(lasts, lasts * 2 / 3, lasts * 2 / 15))
    scaler = Scaler(api, clock, manager, lease.fence)
    me = Self(manager, f"{name.namespace}/{name.name}")
    return World(api, clock, lease, scaler, Herald(api, clock, who), me, knock, board)


def _pool(config: Config, name: str, of: Workload) -> KubePool:
    table = config.pool[name]
    return KubePool(name, of, table.minimum, table.drain_deadline, table.port, table.via)


def _twice(found: Mapping[str, Workload]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for name, of in found.items():
        if of.key in seen:
            return seen[of.key], name
        seen[of.key] = name
    return None


def untargeted(config: Config) -> Iterator[str]:
    """Pools that `[act] mode = "act"` would leave alone."""
    return (name for name, pool in config.pool.items() if pool.target is None)
