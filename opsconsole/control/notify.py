"""What is told of an alert, to whom: who began or ceased to fire between two ticks, as a channel's own document.

Pure. It knows the forms of a webhook, of Alertmanager and of a command's input, and sends nothing. The trap: an alert
that somebody silences has not ended, so its end is told only when it is really gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opsconsole.control.settings import Channel
from opsconsole.domain.records import AlertView

SEVERITIES = ("info", "warning", "critical")
ALIVE_S = 240.0  # Alertmanager ends an alert by itself when it has not heard of it for so long

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert that began to fire, or ended, and when."""

    alert: AlertView
    fired: bool
    at: float
    fleet: str

    @property
    def sentence(self) -> str:
        """`prod-eu: CRITICAL slo-burn chat/default: error budget ...`."""
        word = self.alert.severity.upper() if self.fired else "RESOLVED"
        return f"{self.fleet}: {word} {self.alert.rule} {self.alert.subject}: {self.alert.text}"


def follow(
    told: Mapping[Key, AlertView], views: Iterable[AlertView], at: float, fleet: str, settled: bool = True
) -> tuple[dict[Key, AlertView], list[Notice]]:
    """What has been told of after this tick, and what is told now: each beginning once, each end once.

    Until it has `settled` after a start, what is not seen has not ended; it may only not have been looked at yet.
    """
    now = {(view.rule, view.subject): view for view in views}
    kept: dict[Key, AlertView] = {}
    notices: list[Notice] = []
    for key, view in now.items():
        if view.state == "firing" and key not in told:
            notices.append(Notice(view, True, at, fleet))
        if view.state == "firing" or key in told:
            kept[key] = view
    gone = {key: view for key, view in told.items() if key not in now}
    if not settled:
        return {**kept, **gone}, notices
    return kept, notices + [Notice(view, False, at, fleet) for view in gone.values()]


def wanted(channel: Channel, notices: Iterable[Notice]) -> list[Notice]:
    """Those that are grave enough for a channel."""
    least = SEVERITIES.index(channel.least)
    return [n for n in notices if SEVERITIES.index(n.alert.severity) >= least]


def document(notice: Notice) -> dict[str, Any]:
    """What a webhook gets and a command reads; `text` alone is what chat systems show."""
    alert = notice.alert
    return {
        "text": notice.sentence,
        "status": "firing" if notice.fired else "resolved",
        "fleet": notice.fleet,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity,
        "message": alert.text,
        "since": _time(alert.since),
        "at": _time(notice.at),
    }


def alertmanager(notices: Sequence[Notice]) -> list[dict[str, Any]]:
    """The body of Alertmanager's `/api/v2/alerts`. What fires is told again and again; what ended carries its end."""
    return [
        {
            "labels": {
                "alertname": n.alert.rule,
                "severity": n.alert.severity,
                "fleet": n.fleet,
                "pool": n.alert.subject.partition("/")[0],
                "subject": n.alert.subject,
            },
            "annotations": {"summary": n.alert.text, "description": n.sentence},
            "startsAt": _time(n.alert.since),
            "endsAt": _time(n.at + ALIVE_S if n.fired else n.at),
        }
        for n in notices
    ]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
