"""The small facts beside the weights: chat template and end-of-text ids.

Must not know: torch. Trap: `generation_config.json` lists more end-of-text ids than `config.json` (Llama 3 stops on
three); taking only the latter gives answers that never end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def end_of_text_ids(folder: Path) -> tuple[int, ...]:
    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        if (folder / name).exists():
            eos = json.loads((folder / name).read_text()).get("eos_token_id")
            found += eos if isinstance(eos, list) else [eos] if eos is not None else []
    return tuple(dict.fromkeys(found))


def chat_template(folder: Path) -> str | None:
    """From `chat_template.jinja`, or the field of tokenizer_config.json (one, or several by name)."""
    if (folder / "chat_template.jinja").exists():
        return (folder / "chat_template.jinja").read_text()
    if not (folder / "tokenizer_config.json").exists():
        return None
    template = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template if isinstance(template, str) else None


def gguf_end_of_text_ids(facts: Mapping[str, Any]) -> tuple[int, ...]:
    ids = (facts.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom"))
    return tuple(dict.fromkeys(int(token) for token in ids if token is not None))


def gguf_chat_template(facts: Mapping[str, Any]) -> str | None:
    template = facts.get("tokenizer.chat_template")
    return template if isinstance(template, str) else None
