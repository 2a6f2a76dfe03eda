"""Applies fixes: sources and templates in place (or as a diff), logs as a rewritten copy with the replayed hit rate.

Composes the fix modules. The trap: a log is never changed in place, and a source fix is kept only if the file lints
better afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsconsole.lint.discover import Kind, Target
from opsconsole.lint.fix.log import LogFix
from opsconsole.lint.fix.source import diff, fix_text
from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.model import Finding
from opsconsole.lint.reader import LogFile
from opsconsole.lint.rows import Evidence
from opsconsole.lint.runner import Run


@dataclass(frozen=True, slots=True)
class SourceFix:
    """What was changed in one file."""

    name: str
    before: str
    after: str
    fixed: int

    @property
    def diff(self) -> str:
        return diff(self.name, self.before, self.after)


@dataclass(frozen=True, slots=True)
class LogRewrite:
    """A rewritten log and its replayed hit rates."""

    name: str
    lines: list[str]
    changed: int
    reuse_before: float
    reuse_after: float
    changes: list[tuple[int, str, str]]  # line, before, after

    @property
    def diff(self) -> str:
        """A unified diff; records stay where they are, so each change is one line."""
        made = [f"--- {self.name}\n+++ {self.name}\n"] if self.changes else []
        for number, before, after in self.changes:
            ends = "" if before.endswith("\n") else "\n"
            made.append(f"@@ -{number} +{number} @@\n-{before}{ends}+{after}")
        return "".join(made)


def fix_sources(run: Run, targets: list[Target], findings: list[Finding], *, unsafe: bool) -> list[SourceFix]:
    """Fix sources and templates; nothing is written here."""
    made: list[SourceFix] = []
    for target in targets:
        mine = [item for item in findings if item.file == target.name and item.char is None]
        if target.kind is Kind.LOG or not mine:
            continue
        try:
            text = target.path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue  # its bytes could not be kept
        made.append(fix_one(run, target, text, mine, unsafe=unsafe))
    return [item for item in made if item.fixed]


def fix_one(run: Run, target: Target, text: str, findings: list[Finding], *, unsafe: bool) -> SourceFix:
    """Fix one text."""

    def check(candidate: str) -> list[Finding]:
        result = run.check([], (target.name, candidate.encode()))
        return [item for item in result.findings if item.file == target.name]

    after, fixed = fix_text(text, findings, check, run.settings.may_fix, unsafe=unsafe)
    return SourceFix(target.name, text, after, fixed)


def fix_log(target: Target, options: LogOptions, codes: frozenset[str], *, unsafe: bool) -> LogRewrite:
    """Rewrite a log and analyse the copy."""
    log = LogFile.open(target.path, target.name)
    try:
        analysis = LogAnalysis(options)
        for request in log.requests():
            analysis.feed(request)
        result = analysis.finish({log.name: log})
        wanted = [item for item in result.findings if item.code in codes]
        plan = LogFix.plan(wanted, analysis.rows, Evidence({log.name: log}), unsafe=unsafe)
        families = {row.request.line: row.family for row in analysis.rows}
        changes: list[tuple[int, str, str]] = []
        lines: list[str] = []
        for number, raw in _records(log):
            record = _decoded(raw)
            if record is not None and number in families and plan.apply(record, families[number]):
                made = _encoded(record)
                changes.append((number, raw, made))
                raw = made
            lines.append(raw)
    finally:
        log.close()
    before = _rate(analysis)
    again = LogAnalysis(options)
    copy = LogFile.spool(_Joined(lines), target.name)
    for request in copy.requests():
        again.feed(request)
    copy.close()
    return LogRewrite(target.name, lines, len(changes), before, _rate(again), changes)


def _records(log: LogFile) -> Iterator[tuple[int, str]]:
    log.handle.seek(0)
    for number, raw in enumerate(log.handle, 1):
        yield number, raw.decode("utf-8", "surrogateescape")


def _encoded(record: object) -> str:
    """A record as one line; half a character pair, which no file may hold, stays an escape."""
    made = json.dumps(record, ensure_ascii=False) + "\n"
    try:
        made.encode("utf-8")
    except UnicodeEncodeError:
        made = json.dumps(record) + "\n"
    return made


def _decoded(raw: str) -> object:
    try:
        made: object = json.loads(raw)
    except ValueError:
        return None
    return made


def _rate(analysis: LogAnalysis) -> float:
    total = sum(row.total for row in analysis.rows)
    return sum(row.reused for row in analysis.rows) / total if total else 0.0


class _Joined:
    """Lines as a stream of bytes."""

    def __init__(self, lines: list[str]) -> None:
        self._left = iter(lines)

    def read(self, _: int) -> bytes:
        chunk = "".join(line for _, line in zip(range(2000), self._left, strict=False))
        return chunk.encode("utf-8", "surrogateescape")


def write(path: Path, text: str) -> None:
    """Write a fixed file, keeping its line ends."""
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as handle:
        handle.write(text)
