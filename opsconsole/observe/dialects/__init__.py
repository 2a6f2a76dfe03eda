"""Engines' metric names as versioned tables, and the one normaliser that reads them.

`DIALECTS` is in the order of precedence: the first present on a page is its engine, auxiliary ones only add to it.
"""

from __future__ import annotations

from opsconsole.observe.dialects.table import Dialect
from opsconsole.observe.dialects.vllm import EMBEDDED, VLLM

DIALECTS: tuple[Dialect, ...] = (EMBEDDED, VLLM)
