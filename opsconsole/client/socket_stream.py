"""A stream of an agent on this machine, read from its Unix socket: one request, and chunks for as long as it lasts.

It must not know what the stream carries. A console reads its agent once a second for days, and the general HTTP client
costs several times what it reads; here is what one such answer needs and no more. The trap: whatever is not a plain
chunked 200 (a refusal, another server) is left to the general client, which knows how to say it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

LONGEST = 1 << 26  # bytes of one chunk: a tick of ten thousand replicas is a tenth of it
HEAD = b"HTTP/1.1 200 "


@contextlib.asynccontextmanager
async def opened(
    path: str, target: str, headers: Mapping[str, str], patience_s: float
) -> AsyncIterator[AsyncIterator[bytes] | None]:
    """The answer's body, piece by piece; None where it is not one that is read here. Raises OSError."""
    async with asyncio.timeout(patience_s):
        reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST)
    try:
        lines = [f"GET {target} HTTP/1.1", "host: agent", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(patience_s):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
        is_plain = head.startswith(HEAD.lower()) and b"\r\ntransfer-encoding: chunked\r\n" in head
        yield _chunks(reader) if is_plain else None
    except (EOFError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("it does not answer in HTTP") from error
    finally:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Each chunk until the last one. Raises OSError where the other end goes in the middle of one."""
    try:
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            if size > LONGEST:
                raise ConnectionError(f"a piece of {size} bytes came")
            yield (await reader.readexactly(size + 2))[:-2]
    except (EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("the stream ended within a piece") from error
