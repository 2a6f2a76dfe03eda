"""The wire format by the name clients know it under; the code is `domain.wire`, which the database shares.

It adds nothing. The trap: a change of the format is made there, and every recording and agent speaks it.
"""

from __future__ import annotations

from opsconsole.domain.wire import WireError, dumps, from_json, loads, to_json

__all__ = ["WireError", "dumps", "from_json", "loads", "to_json"]
