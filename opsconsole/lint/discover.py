"""Finds the files of a run: paths, folders and globs, minus what .gitignore and `exclude` leave out.

Decides only what kind a file is. The trap: text and Markdown files in folders are prompts only when their name says so,
or every README would be a template.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opsconsole.errors import UsageError
from opsconsole.lint.frontends.jsmodule import SUFFIXES

_SKIP_DIRS = {
    ".git",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    ".ruff_cache",
    "dist",
    "build",
    ".opsconsole_cache",
}
_PROMPT_NAME = re.compile(r"prompt|system|template|persona|instruction", re.I)


class Kind(StrEnum):
    """What a file is read as."""

    LOG = "log"
    PYTHON = "python"
    JAVASCRIPT = "javascript"
    JINJA = "jinja"
    PLAIN = "plain"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True)
class Target:
    """A file to check, by the name it is reported under."""

    name: str
    path: Path
    kind: Kind


def kind_of(name: str) -> Kind | None:
    """The kind a name speaks for, or None."""
    lower = name.lower()
    if lower.endswith((".gz", ".jsonl", ".ndjson", ".log")):
        return Kind.LOG
    if lower.endswith((".py", ".pyi")):
        return Kind.PYTHON
    if lower.endswith(SUFFIXES):
        return Kind.JAVASCRIPT
    if lower.endswith((".j2", ".jinja", ".jinja2")):
        return Kind.JINJA
    if lower.endswith((".yaml", ".yml", ".toml", ".json")):
        return Kind.STRUCTURED
    if lower.endswith((".txt", ".md", ".prompt", ".tmpl", ".tpl")):
        return Kind.PLAIN
    return None


def discover(paths: list[str], exclude: tuple[str, ...], respect_gitignore: bool) -> list[Target]:
    """All files in the order of their names. A path that does not exist is an error."""
    found: dict[str, Target] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for file in _walk(path, respect_gitignore):
                _add(found, file, exclude, explicit=False)
        elif path.exists():
            _add(found, path, (), explicit=True)
        elif any(char in given for char in "*?["):
            matches = sorted(glob.glob(given, recursive=True))
            if not matches:
                raise UsageError(f"{given}: nothing matches this pattern.")
            for match in matches:
                if Path(match).is_file():
                    _add(found, Path(match), exclude, explicit=False)
        else:
            raise UsageError(f"{given}: no such file or folder.")
    return [found[name] for name in sorted(found)]


def _add(found: dict[str, Target], path: Path, exclude: tuple[str, ...], *, explicit: bool) -> None:
    name = path.as_posix()
    if any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(path.name, pattern) for pattern in exclude):
        return
    kind = kind_of(name)
    if kind is Kind.STRUCTURED and name.lower().endswith(".json") and _is_request(path):
        kind = Kind.LOG
    if kind is None:
        if not explicit:
            return
        kind = Kind.LOG if _starts_like_json(path) else Kind.PLAIN
    if kind is Kind.PLAIN and not explicit and not _PROMPT_NAME.search(name) and not name.endswith(".prompt"):
        return
    found[name] = Target(name, path, kind)


def _is_request(path: Path) -> bool:
    try:
        with path.open("rb") as handle:
            head = handle.read(4096)
    except OSError:
        return False
    return (
        re.search(rb'"(?:messages|prompt|prompt_token_ids)"\s*:\s*[\[{"]', head) is not None
        and b"chat_template" not in head
    )


def _starts_like_json(path: Path) -> bool:
    try:
        with path.open("rb") as handle:
            return handle.read(64).lstrip()[:1] in (b"{", b"[") or b"prompt: " in handle.read(4096)
    except OSError:
        return False


def _walk(root: Path, respect_gitignore: bool) -> Iterator[Path]:
    """Files below a folder, with the .gitignore files met on the way."""
    rules: dict[Path, list[tuple[re.Pattern[str], bool, bool]]] = {}
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if respect_gitignore and ".gitignore" in files:
            rules[here] = gitignore((here / ".gitignore").read_text(encoding="utf-8", errors="replace"))
        names[:] = sorted(
            name for name in names if name not in _SKIP_DIRS and not _ignored(here / name, rules, is_dir=True)
        )
        for name in sorted(files):
            path = here / name
            if kind_of(name) is not None and not _ignored(path, rules, is_dir=False):
                yield path


def _ignored(path: Path, rules: dict[Path, list[tuple[re.Pattern[str], bool, bool]]], *, is_dir: bool) -> bool:
    verdict = False
    for base, patterns in rules.items():
        if base not in path.parents:
            continue
        relative = path.relative_to(base).as_posix()
        for pattern, negated, only_dirs in patterns:
            if only_dirs and not is_dir:
                continue
            if pattern.fullmatch(relative):
                verdict = not negated
    return verdict


def gitignore(text: str) -> list[tuple[re.Pattern[str], bool, bool]]:
    """Patterns of a .gitignore: expression, negated, folders only."""
    made: list[tuple[re.Pattern[str], bool, bool]] = []
    for line in text.splitlines():
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        line = line[1:] if negated else line
        only_dirs = line.endswith("/")
        line = line.rstrip("/")
        anchored = "/" in line
        body = ""
        for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]*\]|.", line.lstrip("/")):
            body += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token) or (
                token if token[0] == "[" else re.escape(token)
            )
        made.append((re.compile(body if anchored else f"(?:.*/)?{body}"), negated, only_dirs))
    return made
