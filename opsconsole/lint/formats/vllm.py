"""Lines of a vLLM request log: the prompt stands as a Python literal inside the line.

Reads nothing but the line. The trap: `--max-log-len` cuts the prompt, so a cut one is marked: its head is comparable,
its tail unknown.
"""

from __future__ import annotations

import ast
import re

from opsconsole.lint.request import Part, Request

_LINE = re.compile(
    r"(?:Received request|Request) (?P<id>[\w.-]+)(?: details)?: "
    r"prompt: (?P<prompt>None|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
)
_IDS = re.compile(r"prompt_token_ids: (?P<ids>\[[\d, ]*\]|None)")
_LIMIT = re.compile(r"max_log_len=(\d+)")
USUAL_CUTS = frozenset({100, 128, 200, 256, 500, 512, 1000, 1024, 2000, 2048, 4096})


def looks_like(line: str) -> bool:
    """Whether a text line is one of the two forms that carry a prompt."""
    return "equest " in line and "prompt: " in line


def read(line: str) -> Request | None:
    """The request of a line, or None where the line carries no prompt."""
    found = _LINE.search(line)
    if found is None:
        return None
    ids = _IDS.search(line, found.end())
    tokens: tuple[int, ...] | None = None
    if ids and ids["ids"] not in ("None", "[]"):
        tokens = tuple(int(item) for item in ids["ids"][1:-1].split(","))
    text = "" if found["prompt"] == "None" else str(ast.literal_eval(found["prompt"]))
    if not text and tokens is None:
        return None
    limit = _LIMIT.search(line)
    cut = len(text) == int(limit[1]) if limit else len(text) in USUAL_CUTS
    parts = [Part("prompt", "message", "user", text, 0)] if text else []
    return Request("", 0, parts, "vllm-log", tokens=None if parts else tokens, truncated=cut)
