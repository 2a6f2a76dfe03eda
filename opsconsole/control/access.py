"""Who is calling, and what that caller may do.

The agent's own Unix socket is guarded by its file mode, so its caller may operate; over TCP a token decides, compared
in constant time. It knows headers and tokens and no routes. The trap: the name a console gives itself is only
believed on the socket; over TCP the journal gets the token's name.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from opsconsole.control.settings import Role, Token
from opsconsole.errors import OpsConsoleError


class Unauthorised(OpsConsoleError):
    """No token, or an unknown one: 401."""


class Forbidden(OpsConsoleError):
    """A known caller that may not do this: 403."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who, as journalled, and with which role."""

    name: str
    role: Role


def caller_of(request: Request, tokens: Sequence[Token]) -> Caller:
    """The caller of a request, or `Unauthorised`."""
    said = request.headers.get("x-opsconsole-who", "")[:64]
    if request.client is None or not request.client.host:  # a Unix socket has no peer address
        return Caller(said or "somebody on this machine", Role.OPERATE)
    for secret in _secrets(request):
        for token in tokens:
            if hmac.compare_digest(token.secret.encode(), secret.encode()):
                return Caller(token.name, token.role)
    raise Unauthorised("This agent wants a token: send `Authorization: Bearer TOKEN` (opsconsole --token).")


def _secrets(request: Request) -> list[str]:
    """What the caller shows. An API server that stands between keeps `Authorization` for itself."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    shown = [secret.strip()] if scheme.lower() == "bearer" else []
    own = request.headers.get("x-opsconsole-token", "").strip()
    return [*shown, own] if own else shown


def need(caller: Caller, role: Role) -> None:
    """Raise `Forbidden` unless the caller has the role (operate includes read)."""
    if role is Role.OPERATE and caller.role is not Role.OPERATE:
        raise Forbidden(f'Token {caller.name} may read and not operate: ask for one with role = "operate".')
