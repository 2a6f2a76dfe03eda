"""Engines' metric names as versioned tables, and the one normaliser that reads them.

`DIALECTS` is in the order of precedence: the first present on a page is its engine; Dynamo and gateways come after the
engines whose pages they pass through, tables without a prefix after those with one, auxiliary ones only add.
"""

from __future__ import annotations

from opsconsole.observe.dialects.beside import DCGM, LMCACHE
from opsconsole.observe.dialects.gateway import DYNAMO, EPP, LITELLM
from opsconsole.observe.dialects.llamacpp import LLAMACPP
from opsconsole.observe.dialects.lmdeploy import LMDEPLOY
from opsconsole.observe.dialects.sglang import SGLANG
from opsconsole.observe.dialects.table import Dialect
from opsconsole.observe.dialects.tgi import TGI
from opsconsole.observe.dialects.trtllm import TRITON, TRTLLM
from opsconsole.observe.dialects.unprefixed import MINDIE, NIM
from opsconsole.observe.dialects.vllm import EMBEDDED, VLLM

DIALECTS: tuple[Dialect, ...] = (
    EMBEDDED, VLLM, SGLANG, TRTLLM, TRITON, TGI, LLAMACPP, LMDEPLOY, DYNAMO, EPP, LITELLM, MINDIE, NIM, DCGM, LMCACHE,
)  # fmt: skip
