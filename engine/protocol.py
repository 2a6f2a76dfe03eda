"""The rules of reading a JSON body: one error type, and one function per kind of field.

Every message names the field and says what it may be. It must not know sampling or HTTP servers. The trap: JSON's
`true` is an `int` to Python and `1` is not a float, so types are asked for exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]


class ApiError(Exception):
    """An answer that is an error: status, sentence, and the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: str = "invalid_request_error",
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.kind = status, message, param, code, kind
        self.retry_after = retry_after  # seconds

    def headers(self) -> dict[str, str]:
        """Headers that belong to the status."""
        found = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return found | ({"www-authenticate": "Bearer"} if self.status == 401 else {})

    def body(self, request_id: str) -> dict[str, Any]:
        """The error object of the OpenAI API, with the request's id added."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
                "request_id": request_id,
            }
        }


def invalid(field: str, rule: str) -> ApiError:
    """Status 400 about one field."""
    return ApiError(400, f"{field} {rule}", param=field, code="invalid_value")


def parse_body(raw: bytes) -> Body:
    """A JSON object, or the error that says why it is none."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ApiError(
            400, f"The body is not valid UTF-8: byte {error.start} is wrong.", code="invalid_utf8"
        ) from error
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not valid JSON: {error}.", code="invalid_json") from error
    if not isinstance(value, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    if "\\ud" in text.lower():  # an escaped half of a surrogate pair is valid JSON and no text
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ApiError(400, "The body holds half of a surrogate pair.", code="invalid_utf8") from error
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def integer(body: Body, field: str, low: int, high: int | None = None, default: int | None = None) -> int | None:
    """A whole number in [low, high]; absent and null give the default."""
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(field, f"must be an integer, not {_shown(value)}.")
    if value < low or (high is not None and value > high):
        raise invalid(field, f"is {value}; it must be {_range(low, high)}.")
    return value


def number(body: Body, field: str, low: float, high: float, default: float, *, above: bool = False) -> float:
    """A number in [low, high], or in (low, high] where `above`."""
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(field, f"must be a number, not {_shown(value)}.")
    # Comparing before converting: an integer of 400 digits has no float.
    if not low <= value <= high or (above and value <= low) or not math.isfinite(value):
        raise invalid(
            field, f"is {_shown(value)}; it must be {'above' if above else 'at least'} {low} and at most {high}."
        )
    return float(value)


def flag(body: Body, field: str, default: bool = False) -> bool:
    """true or false."""
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(field, f"must be true or false, not {_shown(value)}.")
    return value


def string(body: Body, field: str) -> str | None:
    """A string."""
    value = body.get(field)
    if value is not None and not isinstance(value, str):
        raise invalid(field, f"must be a string, not {_shown(value)}.")
    return value


def strings(body: Body, field: str, most: int) -> tuple[str, ...]:
    """One string or a list of them, none empty."""
    value = body.get(field)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise invalid(field, "must be a non-empty string or a list of them.")
    if len(items) > most:
        raise invalid(field, f"has {len(items)} entries; at most {most} are allowed.")
    return tuple(items)


def token_ids(value: Any, field: str, vocab_size: int) -> tuple[int, ...]:
    """A list of token ids of this model."""
    if not isinstance(value, list) or not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        raise invalid(field, "must be a list of token ids.")
    for item in value:
        if not 0 <= item < vocab_size:
            raise invalid(field, f"holds token id {item}; ids of this model are 0 to {vocab_size - 1}.")
    return tuple(value)


def refuse_unknown(body: Body, known: Mapping[str, Any], ignored: frozenset[str]) -> None:
    """400 for every field that would be dropped silently. `known` maps fields to the values that ask for nothing.

    None there means that the field is read.
    """
    for field, value in body.items():
        if field in ignored or value is None:
            continue
        if field not in known:
            raise ApiError(400, f"{field} is not supported by this engine.", param=field, code="unsupported_parameter")
        harmless = known[field]
        if harmless is not None and value not in harmless:
            raise ApiError(
                400,
                f"{field} is not supported by this engine; leave it out.",
                param=field,
                code="unsupported_parameter",
            )


def _range(low: int, high: int | None) -> str:
    return f"at least {low}" if high is None else f"{low} to {high}"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
