"""What a simulated run comes to, the same record whatever the fidelity.

Plain numbers that depend on nothing but the inputs: no wall times, so the same seed gives the same bytes of JSON. The
trap: GPU-hours count a replica from the second it is asked for until it is gone; the three parts say in which state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CountChange:
    """How many replicas there were from `at` on."""

    at: float
    ready: int
    starting: int
    draining: int


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request's fate. Times are seconds; None where it never got that far."""

    at: float
    prompt_tokens: int
    output_tokens: int
    replica: str | None
    cached_tokens: int
    ttft: float | None
    tpot: float | None
    e2e: float | None
    met: bool


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One law on one load. Counts are of requests offered after the warm-up; times are seconds."""

    fidelity: Literal["request", "fluid"]
    policy: str
    offered: int
    met: int
    failed: int  # of the offered: cut, refused, or never answered
    gpu_hours_ready: float
    gpu_hours_starting: float
    gpu_hours_draining: float
    scale_ups: int  # decisions that raised the count
    scale_downs: int
    streams_cut: int
    ttft_p99: float | None  # over requests that got a first token; inverted CDF
    tpot_p99: float | None
    shortage_s: float  # seconds, in bins of one minute, whose arrivals met the SLO less often than its target
    span_s: float
    preemptions: int | None = None
    prompt_tokens: int = 0  # offered
    output_tokens: int = 0
    cached_tokens: int | None = None  # of the prompts, found in a replica's cache
    replica_timeline: tuple[CountChange, ...] = ()
    request_rows: tuple[RequestRow, ...] = ()

    @property
    def attainment(self) -> float | None:
        """Share of the offered that met every bound; None where nothing was offered."""
        return self.met / self.offered if self.offered else None

    @property
    def gpu_hours(self) -> float:
        """Provisioned: starting, idle and draining included."""
        return self.gpu_hours_ready + self.gpu_hours_starting + self.gpu_hours_draining

    @property
    def scale_events(self) -> int:
        return self.scale_ups + self.scale_downs

    @property
    def mean_replicas(self) -> float | None:
        return self.gpu_hours * 3600.0 / self.span_s if self.span_s > 0 else None

    def to_json(self) -> dict[str, Any]:
        """All fields and what follows from them, ready for `json.dumps`; rows and timeline included where kept."""
        derived = {
            "attainment": self.attainment,
            "gpu_hours": self.gpu_hours,
            "scale_events": self.scale_events,
            "mean_replicas": self.mean_replicas,
        }
        return asdict(self) | derived
