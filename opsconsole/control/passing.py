"""A follower passes what people ask of it on to the leader, so that whoever answers can be asked.

It knows HTTP and who leads and nothing of what is asked. The trap: two daemons that each take the other for the leader
would pass a request round for ever, so one that was passed on is never passed on again.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from opsconsole.control.settings import Role, Token
from opsconsole.domain.leading import Leading
from opsconsole.errors import OpsConsoleError

PASSED = "x-opsconsole-passed"
PATHS = frozenset({"/v1/plans", "/v1/intents", "/v1/holds"})
LONGEST_S = 15.0


@dataclass(frozen=True, slots=True)
class Passing:
    """Where one daemon's people are sent. `leading` is asked at each request."""

    leading: Callable[[], Leading]
    tokens: Sequence[Token] = ()
    certificate: Path | None = None  # of this daemon's API; daemons that share it trust each other by it

    async def on(self, request: Request) -> Response | None:
        """The leader's answer; None where this daemon is to answer. Raises where nobody can."""
        if request.method != "POST" or request.url.path not in PATHS:
            return None
        leading = self.leading()
        if leading.here:
            return None
        if request.headers.get(PASSED):
            raise OpsConsoleError("No daemon leads now: ask again in some seconds.")
        if leading.address is None:
            who = leading.holder or "nobody"
            raise OpsConsoleError(
                f"This daemon follows, {who} leads and does not say where it is reached: ask it, or set "
                "[kubernetes] advertise on every daemon."
            )
        return await self._ask(leading.address, request)

    async def _ask(self, address: str, request: Request) -> Response:
        import httpx

        headers = {"authorization": self._authorization(request), PASSED: "1", "content-type": "application/json"}
        verify = True if self.certificate is None else pinned(self.certificate)
        try:
            async with httpx.AsyncClient(timeout=LONGEST_S, verify=verify) as client:
                url = address.rstrip("/") + request.url.path
                answer = await client.post(url, content=await request.body(), headers=headers)
        except httpx.HTTPError as error:
            raise OpsConsoleError(f"The leader at {address} does not answer ({type(error).__name__}).") from error
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    def _authorization(self, request: Request) -> str:
        """The caller's own token; one of this daemon's where the caller came by its socket."""
        own = request.headers.get("authorization")
        if own:
            return own
        shown = request.headers.get("x-opsconsole-token")
        if shown:
            return f"Bearer {shown}"
        secret = next((token.secret for token in self.tokens if token.role is Role.OPERATE), None)
        if secret is None:
            raise OpsConsoleError("Another daemon leads, and no token is configured to ask it with.")
        return f"Bearer {secret}"


def pinned(certificate: Path) -> ssl.SSLContext:
    """Trust in this very certificate: daemons are reached by address, and share one that bears a name."""
    context = ssl.create_default_context(cafile=str(certificate))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context
