"""What a server says of itself before the load: its first model, or a sentence why there is none.

Trap: a server that is up but not ready answers 503 here; that is reported, not measured.
"""

from __future__ import annotations

import httpx

from opsconsole.errors import UsageError


async def first_model(url: str, api_key: str | None = None) -> str:
    """The id of the first model at `/v1/models`."""
    address = url.rstrip("/") + "/v1/models"
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx.AsyncClient(timeout=10, trust_env=False) as client:
            response = await client.get(address, headers=headers)
            response.raise_for_status()
            return str(response.json()["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        raise UsageError(
            f"{address} answers {error.response.status_code}; is the server ready, and the key right?"
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UsageError(f"{address} cannot be reached ({error}); is the server running there?") from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise UsageError(f"{address} lists no model; name one with --model") from None
