"""Remembers the result of a log or of a set of sources while neither the files nor the settings changed.

Stores the JSON form of results. The trap: a Python finding depends on other files, so sources are remembered as one set
and never one by one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from opsconsole import __version__
from opsconsole.lint.discover import Target
from opsconsole.lint.model import Note, Result
from opsconsole.lint.report import wire
from opsconsole.lint.settings import LintSettings

FOLDER = ".opsconsole_cache"
MAX_ENTRIES = 200


class Cache:
    """Results by key, in a folder that ignores itself."""

    def __init__(self, folder: Path, settings: LintSettings, extra: str = "") -> None:
        self._folder = folder / FOLDER / "lint"
        self._seed = f"{__version__}\0{_code_stamp()}\0{settings!r}\0{extra}"

    def key(self, targets: list[Target]) -> str:
        """A key over names, sizes and times of change of files."""
        digest = hashlib.sha256(self._seed.encode())
        for target in targets:
            stat = target.path.stat()
            digest.update(f"{target.name}\0{target.kind}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
        return digest.hexdigest()[:32]

    def get(self, key: str) -> Result | None:
        """A remembered result, or None."""
        try:
            data = json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
            result = Result(
                [wire.read_finding(item) for item in data["findings"]],
                [Note(**item) for item in data["notes"]],
                [],
                **{name: data["summary"][name] for name in ("files", "records", "bad_records", "suppressed")},
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result

    def put(self, key: str, result: Result) -> None:
        """Remember a result without failures and families; a folder that cannot be written is no error."""
        if result.failures or result.families:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            entries = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for old in entries[: max(0, len(entries) - MAX_ENTRIES)]:
                old.unlink(missing_ok=True)
            (self._folder / f"{key}.json").write_text(wire.report(result), encoding="utf-8")
        except OSError:
            return


def _code_stamp() -> str:
    """The linter's own sources: a changed rule must not answer from memory."""
    here = Path(__file__).parent
    stamps = sorted(
        (path.name, path.stat().st_mtime_ns) for path in here.rglob("*.*") if path.suffix in (".py", ".toml")
    )
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
