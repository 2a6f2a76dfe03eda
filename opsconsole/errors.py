"""What can go wrong, as a tree, and the values that stand for failures at the edges.

    OpsConsoleError
    ├── ConfigError          a configuration names an impossible thing; says file and key
    ├── UsageError           a command was asked for something it cannot do
    ├── AgentUnavailable     no agent answers at the address
    ├── PlanRefused          a plan no longer fits the world, or may not be applied
    └── RecordingError       a recording or database cannot be read

Failures of single sources and replicas are never raised across the loop: they are `SourceError` values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OpsConsoleError(Exception):
    """Base of every error a user may see; `str()` is a sentence that says what to do."""


class ConfigError(OpsConsoleError):
    """A configuration is wrong; the message names file and key."""


class UsageError(OpsConsoleError):
    """A command was asked for something it cannot do."""


class AgentUnavailable(OpsConsoleError):
    """No agent answers at the address given."""


class PlanRefused(OpsConsoleError):
    """A plan no longer fits the world, or may not be applied by this caller."""


class RecordingError(OpsConsoleError):
    """A recording or database cannot be read."""


class SourceErrorKind(StrEnum):
    """Why a source or replica could not be read. The value is the word shown to the user."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    DNS = "dns"
    TLS = "tls"
    AUTH = "auth"
    HTTP_STATUS = "http-status"
    NOT_METRICS = "not-metrics"
    EMPTY = "empty"
    TOO_LARGE = "too-large"
    TOO_SLOW = "too-slow"
    REDIRECT = "redirect"
    TRUNCATED = "truncated"
    ENGINE_CHANGED = "engine-changed"
    DUPLICATE = "duplicate"
    CLOCK_SKEW = "clock-skew"
    PARTIAL = "partial"
    GONE = "gone"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class SourceError:
    """One failure of one source: what, since when, and when it is tried again (Unix seconds)."""

    kind: SourceErrorKind
    detail: str
    since: float
    retry_at: float | None = None
    attempts: int = 1
