"""What an agent is told to do, as frozen values: pools, limits, mode, where it listens and where it keeps its file.

Composed from a configuration file, or built directly by single-node mode; nothing here reads files or the environment.
The trap: `mode` says what the agent may do by itself and `allow_intents` what a person may ask it to do; neither
implies the other.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from opsconsole.control.hours import Hours
from opsconsole.domain.fleet import FoldOptions, PoolSpec
from policies.situation import CapacityFacts, Limits, ScheduleWindow, StepProfile, Thresholds


class Mode(enum.StrEnum):
    """What the agent does by itself. The value is the word shown to the user."""

    OFF = "off"
    ADVISE = "advise"
    ACT = "act"

    @property
    def sentence(self) -> str:
        return {
            Mode.OFF: "watches only: no decisions are made",
            Mode.ADVISE: "says what it would do, and does nothing",
            Mode.ACT: "does what it decides",
        }[self]


class Role(enum.StrEnum):
    """What a caller of the API may do."""

    READ = "read"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True)
class Token:
    """A named secret of the API."""

    name: str
    secret: str = field(repr=False)
    role: Role = Role.READ


@dataclass(frozen=True, slots=True)
class NodeTier:
    """Nodes on which a replica is useful within `lead_s`, sooner than elsewhere."""

    name: str
    lead_s: float
    nodes: frozenset[str]
    per_node: int = 1  # replicas


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """One pool: what it is, what may be done to it, and by which law."""

    spec: PoolSpec
    limits: Limits = field(default_factory=Limits)
    policy: str = "predictive"
    lead_s: float = 120.0  # until a start has been observed
    thresholds: Thresholds = field(default_factory=Thresholds)
    capacity: CapacityFacts | None = None
    profile: StepProfile | None = None
    schedule: tuple[ScheduleWindow, ...] = ()  # that come once
    hours: tuple[Hours, ...] = ()  # and those that come back
    tiers: tuple[NodeTier, ...] = ()  # no node in two
    role: str | None = None  # prefill, decode

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Channel:
    """One of `[alerts] notify`: where alerts are told, and how grave they must be."""

    kind: str  # webhook | alertmanager | command
    url: str = field(default="", repr=False)  # a webhook's address often is its secret
    command: tuple[str, ...] = ()
    least: str = "warning"  # info | warning | critical
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_s: float = 5.0

    @property
    def name(self) -> str:
        """How errors call it."""
        return f"command {self.command[0]}" if self.kind == "command" else self.kind


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Which alerts are wanted and how long a condition must hold; names as in `control.alerts`."""

    muted: frozenset[str] = frozenset()
    hold_s: dict[str, float] = field(default_factory=dict)  # by rule name, over the rule's own `for`
    notify: tuple[Channel, ...] = ()


@dataclass(frozen=True, slots=True)
class Listen:
    """A TCP address for consoles of other machines. Without TLS only loopback is allowed."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """GPUs that several pools share: prefill and decode, or models on one cluster."""

    name: str
    gpus: int
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything an agent process needs to know besides its sources and actuators."""

    data_dir: Path
    fleet: str = "fleet"
    interval_s: float = 1.0  # between ticks
    decide_every_s: float | None = None  # between decisions; None is every tick
    mode: Mode = Mode.ADVISE
    allow_intents: bool = False
    pools: tuple[PoolSettings, ...] = ()
    any_pool: PoolSettings | None = None  # where none is configured: the pools are those seen, each with these settings
    budgets: tuple[Budget, ...] = ()  # a pool is in one at most
    socket: Path | None = None  # default: agent.sock in the data folder
    listen: Listen | None = None
    tokens: tuple[Token, ...] = ()
    parent_pid: int | None = None  # end when this process does
    options: FoldOptions = field(default_factory=FoldOptions)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    most_bytes: int = 2 * 1024**3
    baselines: tuple[str, ...] = ()  # laws asked beside the one that decides, for the journal
    json_log: bool = True
    notes: tuple[str, ...] = ()  # shown on every screen: that this is a replay

    @property
    def database(self) -> Path:
        return self.data_dir / "opsconsole.db"

    @property
    def socket_path(self) -> Path:
        return self.socket or self.data_dir / "agent.sock"

    def pool(self, name: str) -> PoolSettings | None:
        return next((p for p in self.pools if p.name == name), None)
