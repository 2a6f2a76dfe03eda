"""A free port for a test's own server.

Where the program under test can take a bound socket or port 0, give it that instead. The trap: between this and the
server's own bind somebody else may take it.
"""

from __future__ import annotations

import socket


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
