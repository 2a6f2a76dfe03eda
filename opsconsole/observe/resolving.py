"""Names to addresses, in threads of their own, so that a resolver that hangs holds up nobody who needs none.

It must not connect. The trap: `getaddrinfo` cannot be cancelled; a name that nobody answers for holds a thread for half
a minute, and a loop's own few threads write the history too. So a name is looked up once at a time however many wait
for it, and what it was last is good enough where the resolver is late.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

THREADS = 32
LATE_S = 1.0
_KNOWN_MOST = 8192
Addresses = tuple[str, ...]
Lookup = Callable[[str, int], Addresses]


def lookup(host: str, port: int) -> Addresses:
    """Numeric addresses in the resolver's order; raises OSError or UnicodeError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Resolver:
    """What names are, and what they were."""

    def __init__(self, lookup: Lookup = lookup) -> None:
        self._lookup = lookup
        self._threads: ThreadPoolExecutor | None = None  # none is made where all addresses are numbers
        self._asked: dict[tuple[str, int], asyncio.Future[Addresses]] = {}
        self._known: dict[tuple[str, int], Addresses] = {}

    async def addresses(self, host: str, port: int) -> Addresses:
        """The numbers of a name; raises what the resolver raises where it is not known from before."""
        if is_number(host):
            return (host,)
        place = (host, port)
        known = self._known.get(place)
        if known is None:
            return await asyncio.shield(self._ask(place))
        done, _ = await asyncio.wait({self._ask(place)}, timeout=LATE_S)
        answered = next(iter(done), None)
        return known if answered is None or answered.exception() is not None else answered.result()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, place: tuple[str, int]) -> asyncio.Future[Addresses]:
        asked = self._asked.get(place)
        if asked is None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
            asked = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, *place)
            self._asked[place] = asked
            asked.add_done_callback(lambda answered: self._answered(place, answered))
        return asked

    def _answered(self, place: tuple[str, int], answered: asyncio.Future[Addresses]) -> None:
        self._asked.pop(place, None)
        if answered.cancelled() or answered.exception() is not None:
            return
        if len(self._known) >= _KNOWN_MOST:
            self._known.clear()
        self._known[place] = answered.result()


def is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
