"""[pool.NAME] and the tables below it: what a pool is, what may be done to it, by which numbers, and when.

It knows keys, types and bounds, and builds nothing. The trap: what the law would quietly overrule, such as a scheduled
minimum above the pool's own maximum, is an error here, because nobody would see it later.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, field_validator, model_validator

from opsconsole.config_values import Seconds, Share, Table, Words

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OF_DAY = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")


def _moment(value: object) -> object:
    """`"08:30"` is a time of day, `"24:00"` the midnight that ends it, `"2026-12-24T18:00:00Z"` an instant."""
    if not isinstance(value, str):
        return value
    found = _OF_DAY.fullmatch(value.strip())
    if found is not None and (int(found[1]) < 24 or found[2] == "00"):
        return time(int(found[1]) % 24, int(found[2]))
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(f"{value!r} is no time: write 08:30, or 2026-12-24T18:00:00Z") from None


def _days(value: object) -> object:
    """`"mon-fri"`, `"sat, sun"` or a list of days, as their names."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return value
    found: list[str] = []
    for word in words:
        ends = [end.strip().lower()[:3] for end in word.split("-")]
        if len(ends) > 2 or any(end not in DAYS for end in ends):
            raise ValueError(f"{word.strip()!r} is no day: write mon, or mon-fri")
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        found += [DAYS[(first + i) % 7] for i in range((last - first) % 7 + 1)]
    return tuple(dict.fromkeys(found))


class CapacityTable(Table):
    """What one replica serves inside the SLO, where it was measured before."""

    requests: float | None = Field(default=None, gt=0)  # per second
    prompt_tokens: float | None = Field(default=None, gt=0)
    output_tokens: float | None = Field(default=None, gt=0)
    prompt_share: float | None = Field(default=None, ge=0, le=1)  # of a replica's time that prompts take
    idle_ttft: Seconds | None = None  # of a lone request on an idle replica: what no number of replicas improves
    idle_tpot: Seconds | None = None


class StepTimeTable(Table):
    """[pool.NAME.step_time]: how long the engine's steps take, for the laws that predict from it (Dynamo's)."""

    base: Seconds
    per_token: Seconds  # in the batch
    per_context: Seconds = 0.0  # token of context that is read
    kv_tokens: float | None = Field(default=None, gt=0)
    max_running: int | None = Field(default=None, ge=1)
    max_batch_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _takes_time(self) -> StepTimeTable:
        if self.base + self.per_token <= 0:
            raise ValueError("a step takes some time: give base or per_token above 0")
        return self


class ThresholdsTable(Table):
    """[pool.NAME.thresholds]: where the law begins to want more, and how much room a shrink must leave."""

    queue: float = Field(default=8.0, gt=0)  # waiting requests a replica
    queue_hold: Seconds = 0.0
    kv: Share = 0.85  # of KV, a replica
    preempt: float = Field(default=0.1, gt=0)  # a second, a replica
    calm: Share = 0.7  # of every threshold, at most, after a shrink
    packed: Share = 0.85  # of known capacity, at most, after a shrink
    quantile: Share | None = None  # of demand that is bought; by backtested cost where it is left out
    burn: float = Field(default=2.0, ge=1)  # times even spending, in both windows

    @model_validator(mode="after")
    def _is_forecast(self) -> ThresholdsTable:
        if self.quantile is not None and not 0.5 <= self.quantile <= 0.995:
            raise ValueError(f"quantile {self.quantile:g} is not forecast: give 50% to 99.5%")
        return self


class ScheduleTable(Table):
    """[[pool.NAME.schedule]]: other bounds between two times of the day, or once between two instants."""

    begin: Annotated[time | datetime, BeforeValidator(_moment)]
    end: Annotated[time | datetime, BeforeValidator(_moment)]  # a time not after `begin` is on the next day
    days: Annotated[tuple[str, ...], BeforeValidator(_days), Field(min_length=1)] = DAYS
    timezone: str = "UTC"
    minimum: int | None = Field(default=None, ge=0)
    maximum: int | None = Field(default=None, ge=0)
    note: str = ""

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise ValueError(f"{name!r} is no time zone known here: write UTC or Europe/Berlin") from None
        return name

    @model_validator(mode="after")
    def _is_possible(self) -> ScheduleTable:
        if self.minimum is None and self.maximum is None:
            raise ValueError("give a minimum, a maximum or both")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}: raise maximum or lower minimum")
        if isinstance(self.begin, datetime) != isinstance(self.end, datetime):
            raise ValueError("begin and end are both times of the day, or both instants")
        if (span := self.span) is not None and span[0] >= span[1]:
            raise ValueError("end must come after begin")
        if span is not None and "days" in self.model_fields_set:
            raise ValueError("days go with times of the day, not with instants, which come once")
        return self

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """The two instants of a window that comes once; without a zone of their own they are in `timezone`."""
        if not (isinstance(self.begin, datetime) and isinstance(self.end, datetime)):
            return None
        zone = UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)
        first, last = (at if at.tzinfo is not None else at.replace(tzinfo=zone) for at in (self.begin, self.end))
        return first, last


class TierTable(Table):
    """[[pool.NAME.tiers]]: nodes on which a replica starts faster, as they keep the image or the weights."""

    name: str = Field(min_length=1)
    lead: Seconds = Field(gt=0)  # from asked for to useful, nine times of ten
    nodes: Words = Field(min_length=1)  # which the cluster's scheduler prefers, or they are of no use here
    replicas_per_node: int = Field(default=1, ge=1)


class PoolTable(Table):
    """[pool.NAME]: what a pool is, where its replicas are, and what may be done to it."""

    model: str | None = None
    minimum: int = Field(default=1, ge=0)
    maximum: int = Field(default=10, ge=0)
    slo: Words = ()
    targets: Words = ()
    selector: str | None = None  # pods
    target: str | None = None  # the workload that is scaled, such as deployment/vllm; its pods are the replicas
    port: int | None = Field(default=None, ge=1, le=65535)  # of the engine in a pod, where the pod does not say
    namespace: str | None = None
    policy: str = "predictive"
    cold_start: Seconds = 120.0  # until one has been seen
    step_up: int | None = Field(default=None, ge=1)
    step_down: int | None = Field(default=1, ge=1)
    stabilise_up: Seconds = 0.0
    stabilise_down: Seconds = 300.0
    drains_at_once: int = Field(default=1, ge=1)
    drain_deadline: Seconds = 60.0
    to_zero_after: Seconds | None = None
    gpus_per_replica: int | None = Field(default=None, ge=1)
    gpu_price_per_hour: float | None = Field(default=None, ge=0)
    capacity: CapacityTable | None = None
    step_time: StepTimeTable | None = None
    thresholds: ThresholdsTable = ThresholdsTable()
    schedule: tuple[ScheduleTable, ...] = ()
    tiers: tuple[TierTable, ...] = ()
    via: Literal["scale", "hpa", "keda"] = "scale"
    role: Literal["prefill", "decode"] | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> PoolTable:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}: raise maximum or lower minimum")
        for window in self.schedule:
            if window.minimum is not None and window.minimum > self.maximum:
                raise ValueError(
                    f"a scheduled minimum of {window.minimum} is above the pool's maximum {self.maximum}, which wins: "
                    "raise maximum"
                )
            if window.maximum is not None and window.maximum < self.minimum:
                raise ValueError(
                    f"a scheduled maximum of {window.maximum} is below the pool's minimum {self.minimum}, which wins: "
                    "lower minimum"
                )
        return self

    @model_validator(mode="after")
    def _tiers_are_faster(self) -> PoolTable:
        for tier in self.tiers:
            if tier.lead >= self.cold_start:
                raise ValueError(
                    f"tier {tier.name} leads {tier.lead:g} s, no less than the cold start of {self.cold_start:g} s: "
                    "it is no faster, so leave it out"
                )
        named = [node for tier in self.tiers for node in tier.nodes]
        if twice := sorted({node for node in named if named.count(node) > 1}):
            raise ValueError(f"node {twice[0]} is in two tiers, or twice in one: it is one supply")
        return self
