"""What an API server's refusals mean, and for how long it is worth asking again.

Pure. The trap: 409 is never asked again here. It says that the world moved, and only the caller knows what follows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsconsole.errors import OpsConsoleError

TOO_MANY = 429
LONGEST_WAIT_S = 5.0


class KubeError(OpsConsoleError):
    """The API server refused or was not reached. `status` is its code, 0 where no answer came."""

    def __init__(self, words: str, status: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(words)
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_forbidden(self) -> bool:
        return self.status in (401, 403)

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def may_have_arrived(self) -> bool:
        """Whether a write that failed so may have been carried out all the same."""
        return self.status == 0 or self.status in (500, 502, 504)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, how long for one answer, and how long altogether (seconds)."""

    tries: int = 4
    timeout_s: float = 4.0
    budget_s: float = 8.0  # within the ten seconds that an actuator has

    def wait(self, attempt: int, error: KubeError, draw: float) -> float | None:
        """Seconds until the next attempt, or None when there is none. `draw` spreads callers apart, about 1."""
        again = error.status == 0 or error.status == TOO_MANY or error.status >= 500
        if not again or attempt >= self.tries:
            return None
        if error.retry_after_s is not None:
            return min(LONGEST_WAIT_S, error.retry_after_s)
        return min(LONGEST_WAIT_S, 0.2 * 2.0 ** (attempt - 1) * draw)


def failure_of(what: str, status: int, body: bytes, retry_after_s: float | None) -> KubeError:
    """A refusal in the server's own words, with what to do where that is plain."""
    told = _status_object(body)
    words = str(told.get("message") or body[:200].decode("utf-8", "replace").strip() or "no reason is given")
    reason = str(told.get("reason") or "")
    if status == 401:
        words = f"the API server does not know this account ({words}); log in again or renew its token"
    elif status == 403:
        words = f"not allowed: {words}"
    elif status == TOO_MANY:
        words = f"the API server has too much to do: {words}"
    details = told.get("details")
    if retry_after_s is None and isinstance(details, Mapping) and details.get("retryAfterSeconds"):
        retry_after_s = float(details["retryAfterSeconds"])
    return KubeError(f"{what}: {words}", status, reason, retry_after_s)


def unreachable(what: str, error: Exception, timeout_s: float) -> KubeError:
    """No answer came; the sentence says how."""
    if isinstance(error, TimeoutError):
        return KubeError(f"{what}: the API server did not answer within {timeout_s:g} s")
    return KubeError(f"{what}: the API server cannot be reached: {error or type(error).__name__}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The header's seconds; a date there is not understood and left out."""
    try:
        return float(headers["Retry-After"])
    except (KeyError, ValueError):
        return None


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(body)
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}
