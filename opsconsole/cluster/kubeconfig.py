"""What is wrong with a kubeconfig, in a sentence, before the client fails over it in words of its own.

It reads the files as the client will and sends nothing. The trap: a plugin that cannot be run is passed over by the
client, which then asks as nobody, and what comes back ("anonymous cannot list pods") names the wrong culprit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsconsole.cluster.pods import entries, mapping

Json = Mapping[str, Any]
_LISTS = ("clusters", "contexts", "users")


@dataclass(frozen=True, slots=True)
class Login:
    """How a context's user logs in: by running `plugin`, or with what the file holds where that is None."""

    context: str
    user: str
    plugin: str | None = None


def login(paths: Sequence[Path], context: str | None) -> Login:
    """The login that is meant. Raises ValueError: a sentence about the files."""
    files = {path: _document(path) for path in paths if path.is_file()}
    if not files:
        raise ValueError(f"there is no file {' or '.join(map(str, paths))}")
    current = (str(file["current-context"]) for file in files.values() if file.get("current-context"))
    chosen = context or next(current, "")
    if not chosen:
        raise ValueError(f"{_names(files)} has no current-context, and none is named")
    if (found := _named(files, "contexts", chosen)) is None:
        raise ValueError(f"{_names(files)} has no context {chosen} (it has: {_known(files, 'contexts')})")
    meant = mapping(found, "context")
    name = str(meant.get("user") or "")
    user = _named(files, "users", name)
    if user is None and _is_secure(files, str(meant.get("cluster"))):
        whose = f"names the user {name}" if name else "names no user"
        raise ValueError(f"context {chosen} {whose}; users of {_names(files)} are: {_known(files, 'users')}")
    return Login(chosen, name, _plugin(mapping(user or {}, "user"), name))


def _plugin(user: Json, name: str) -> str | None:
    run = mapping(user, "exec")
    command = run.get("command")
    if not command:
        return None
    if shutil.which(str(command)) is None:
        hint = f" ({str(run['installHint']).strip()})" if run.get("installHint") else ""
        raise ValueError(f"user {name} logs in by the plugin {command}, which is not installed or not on PATH{hint}")
    return str(command)


def _document(path: Path) -> Json:
    import yaml

    try:
        told = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ValueError(f"{path}{where} is not YAML: {getattr(error, 'problem', None) or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text, so it is no kubeconfig") from error
    if told is None:
        raise ValueError(f"{path} is empty")
    if not isinstance(told, Mapping):
        raise ValueError(f"{path} is no kubeconfig: it holds a {type(told).__name__} and no clusters")
    for item in _LISTS:
        listed = told.get(item) or []
        if not isinstance(listed, list) or not all(isinstance(each, Mapping) and each.get("name") for each in listed):
            raise ValueError(f"{path}: {item} is no list of entries with a name each")
    return told


def _each(files: Mapping[Path, Json], item: str) -> Iterator[Json]:
    for file in files.values():
        yield from entries(file, item)


def _named(files: Mapping[Path, Json], item: str, name: str) -> Json | None:
    return next((each for each in _each(files, item) if each.get("name") == name), None)


def _known(files: Mapping[Path, Json], item: str) -> str:
    return ", ".join(str(each.get("name")) for each in _each(files, item)) or "none"


def _names(files: Mapping[Path, Json]) -> str:
    return ", ".join(map(str, files))


def _is_secure(files: Mapping[Path, Json], cluster: str) -> bool:
    """Whether the cluster is asked over TLS: behind `kubectl proxy` nobody needs to log in."""
    found = mapping(_named(files, "clusters", cluster) or {}, "cluster")
    return str(found.get("server") or "").startswith("https")
