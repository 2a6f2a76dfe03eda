"""One TOML file, the environment over it, flags over both: read, checked, and told where it is wrong.

It knows keys, types and bounds, and builds nothing. Every error names where the value came from (file, variable or
flag) and its key. `OPSCONSOLE_ACT__MODE=act` sets `[act] mode`: two underscores between table and key, so variables
such as `OPSCONSOLE_API_KEY` are none of ours. The trap: durations and shares are written as people write them ("80ms",
"95%") and are seconds and fractions from here on; a bare number is seconds, or a fraction.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from opsconsole.config_pool import PoolTable
from opsconsole.config_values import Headers, Seconds, Share, Table, Words, seconds, share
from opsconsole.errors import ConfigError

__all__ = ["Config", "Loaded", "find", "load", "seconds", "share"]

PREFIX = "OPSCONSOLE_"


class SloTable(Table):
    """[slo.NAME]: the bounds of one class of requests."""

    ttft: Seconds | None = None
    tpot: Seconds | None = None
    target: Share = 0.95

    @model_validator(mode="after")
    def _has_a_bound(self) -> SloTable:
        if self.ttft is None and self.tpot is None:
            raise ValueError("give at least one bound, ttft or tpot")
        return self


class BudgetTable(Table):
    """[budget.NAME]: GPUs that several pools share."""

    gpus: int = Field(ge=1)
    pools: Words = Field(min_length=1)


class PrometheusTable(Table):
    """A Prometheus server that scrapes the replicas already."""

    url: str
    matchers: str = ""
    bearer_token_file: Path | None = None
    pool_labels: Words = ()


class KubernetesTable(Table):
    """Pods found by a selector."""

    selector: str
    namespace: str | None = None
    pool: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)


class SourcesTable(Table):
    """[sources]: where facts come from, for pools that do not name their own."""

    targets: Words = ()
    dns: Words = ()
    files: Words = ()
    prometheus: PrometheusTable | None = None
    kubernetes: KubernetesTable | None = None
    timeout: Seconds = Field(default=3.0, gt=0)
    shards: int = Field(default=1, ge=1, le=64)  # processes that read pages
    headers: Headers = Field(default_factory=dict)
    bearer_token_file: Path | None = None
    verify: bool = True
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None  # where it is not in the same file


class ClusterTable(Table):
    """[kubernetes]: which cluster, as kubectl is told; nothing given is the current context, or the pod's account."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    lease: Seconds = Field(default=15.0, ge=6.0)  # how long a leader that is silent is waited for
    advertise: str | None = None  # where other daemons reach this one's API: https://HOST:PORT


class ActTable(Table):
    """[act]: what the agent does by itself, and whether people may ask it to."""

    mode: Literal["off", "advise", "act"] = "advise"
    allow_intents: bool = False
    decide_every: Seconds | None = None
    keda_listen: str | None = None  # HOST:PORT where KEDA's operator finds the desired counts
    keda_tls_cert: Path | None = None
    keda_tls_key: Path | None = None
    # asked beside the pool's own, for the journal
    baselines: Words = ("reactive", "hpa-queue", "hpa-kv", "keda-epp", "kpa", "dynamo-constant")


class TokenTable(Table):
    """[[agent.tokens]]: one named secret of the API."""

    name: str = Field(min_length=1)
    role: Literal["read", "operate"] = "read"
    secret: str | None = Field(default=None, repr=False, min_length=8)
    file: Path | None = None

    @model_validator(mode="after")
    def _has_one_secret(self) -> TokenTable:
        if (self.secret is None) == (self.file is None):
            raise ValueError(f"token {self.name} needs either secret or file")
        return self


class AgentTable(Table):
    """[agent]: the process itself."""

    fleet: str = "fleet"
    interval: Seconds = Field(default=5.0, gt=0)
    data_dir: Path | None = None
    history_size: int = Field(default=2 * 1024**3, ge=1024**2)  # bytes; wins over every age
    listen: str | None = None  # HOST:PORT
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tokens: tuple[TokenTable, ...] = ()
    json_log: bool = True


class NotifyTable(Table):
    """[[alerts.notify]]: one place where alerts are told: a webhook, an Alertmanager, or a command."""

    webhook: str | None = Field(default=None, repr=False)
    alertmanager: str | None = None
    command: Words = ()
    least: Literal["info", "warning", "critical"] = "warning"
    timeout: Seconds = Field(default=5.0, gt=0)
    headers: Headers = Field(default_factory=dict, repr=False)
    bearer_token_file: Path | None = None

    @model_validator(mode="after")
    def _is_one_place(self) -> NotifyTable:
        given = [bool(self.webhook), bool(self.alertmanager), bool(self.command)]
        if sum(given) != 1:
            raise ValueError("give exactly one of webhook, alertmanager or command")
        if (url := self.webhook or self.alertmanager) and not url.startswith(("http://", "https://")):
            raise ValueError("an address begins with http:// or https://")
        return self


class AlertsTable(Table):
    """[alerts]: which are not wanted, how long a condition must hold, and who is told."""

    mute: Words = ()
    hold: Mapping[str, Seconds] = Field(default_factory=dict)
    notify: tuple[NotifyTable, ...] = ()


class Config(Table):
    """The whole file. `tui` and `lint` are checked by those who read them."""

    agent: AgentTable = AgentTable()
    slo: Mapping[str, SloTable] = Field(default_factory=dict)
    pool: Mapping[str, PoolTable] = Field(default_factory=dict)
    budget: Mapping[str, BudgetTable] = Field(default_factory=dict)
    sources: SourcesTable = SourcesTable()
    kubernetes: ClusterTable = ClusterTable()
    act: ActTable = ActTable()
    alerts: AlertsTable = AlertsTable()
    tui: Mapping[str, Any] = Field(default_factory=dict)
    lint: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_fit(self) -> Config:
        for name, pool in self.pool.items():
            for slo in pool.slo:
                if slo not in self.slo:
                    known = ", ".join(sorted(self.slo)) or "none is"
                    raise ValueError(f"pool.{name}.slo names {slo!r}, and there is no [slo.{slo}] ({known} defined)")
        return self


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration and where each value was given; keys are dotted, `pool.chat.minimum`."""

    config: Config
    path: Path | None
    origins: Mapping[str, str]


def find(env: Mapping[str, str], folder: Path | None = None) -> Path | None:
    """The file that counts when none is named: $OPSCONSOLE_CONFIG, ./opsconsole.toml, then the user's."""
    if env.get("OPSCONSOLE_CONFIG"):
        return Path(env["OPSCONSOLE_CONFIG"])
    home = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".config")
    places = ((folder or Path.cwd()) / "opsconsole.toml", Path(home) / "opsconsole" / "config.toml")
    return next((place for place in places if place.is_file()), None)


def load(
    path: Path | None = None, env: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Loaded:
    """Read and check. `flags` are dotted keys with values; a None is a flag that was not given."""
    environ = os.environ if env is None else env
    path = path or find(environ)
    data = {} if path is None else _read(path)
    origins: dict[str, str] = {}
    if path is not None:
        _mark(data, str(path), origins)
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and "__" in name:
            key = name.removeprefix(PREFIX).lower().replace("__", ".")
            _put(data, key, _parsed(value), name, origins)
    for key, value in (flags or {}).items():
        if value is not None:
            _put(data, key, value, f"--{key.rpartition('.')[2].replace('_', '-')}", origins)
    try:
        return Loaded(Config.model_validate(data), path, origins)
    except ValidationError as error:
        raise ConfigError("\n".join(_sentences(error, origins, path))) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None


def _mark(data: Mapping[str, Any], where: str, origins: dict[str, str], above: str = "") -> None:
    for key, value in data.items():
        origins[f"{above}{key}"] = where
        if isinstance(value, Mapping):
            _mark(value, where, origins, f"{above}{key}.")


def _put(data: dict[str, Any], key: str, value: Any, where: str, origins: dict[str, str]) -> None:
    *tables, last = key.split(".")
    at = data
    for depth, name in enumerate(tables, 1):
        origins.setdefault(".".join(tables[:depth]), where)
        # variables are in capitals; a pool keeps the case it has in the file
        name = next((held for held in at if held.lower().replace("-", "_") == name.lower()), name)
        at = at.setdefault(name, {})
        if not isinstance(at, dict):
            raise ConfigError(f"{where} sets a key of {name}, which is no table.")
    at[last] = value
    origins[key.lower()] = where


def _parsed(text: str) -> Any:
    """A variable's value: JSON where it is (numbers, true, lists), else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _sentences(error: ValidationError, origins: Mapping[str, str], path: Path | None) -> list[str]:
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        where = next((origins[k] for k in _upwards(key) if k in origins), str(path or "the configuration"))
        problem = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            problem = "is no key here; `opsconsole config show` lists them"
        told = isinstance(item["input"], dict) or repr(item["input"]) in problem or "secret" in key
        given = "" if told else f" (given {item['input']!r})"
        lines.append(f"{where}: {key + ': ' if key else ''}{problem}{given}.")
    return lines


def _upwards(key: str) -> list[str]:
    """The key as origins may know it, then its tables, nearest first."""
    parts = key.split(".")
    found = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return [form for each in found for form in (each, each.lower())]
