"""One run: files to findings, filtered by rules, ignores and baseline, with an exit code.

Composes readers and front ends. The trap: the order of everything printed comes from names and positions, never from
the order of work, so that the same input gives the same bytes.
"""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from opsconsole.errors import UsageError
from opsconsole.lint import ignores
from opsconsole.lint.discover import Kind, Target, discover, kind_of
from opsconsole.lint.frontends import chat_template, jinja, plain, structured
from opsconsole.lint.frontends.ir import Volatility
from opsconsole.lint.frontends.volatile import Source
from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.model import Finding, FixKind, Note, Result, Severity
from opsconsole.lint.reader import LogFile
from opsconsole.lint.rules.table import RULES, matching
from opsconsole.lint.settings import LintSettings
from opsconsole.lint.sourcejoin import join_sources
from opsconsole.lint.tables import engine_rule, provider
from opsconsole.lint.tokens import TokenSource
from opsconsole.lint.waste import ModelShape, Rates


def log_options(settings: LintSettings, exact: TokenSource | None = None) -> LogOptions:
    """How logs are judged under these settings."""
    hosted = provider(settings.provider) if settings.provider else None
    rule = engine_rule(settings.engine, settings.block_size, settings.ttl)
    if hosted is not None:
        rule = rule._replace(unit=hosted.unit, ttl_s=settings.ttl or hosted.ttl_s)
    return LogOptions(
        rule,
        settings.engine,
        hosted,
        settings.min_tokens,
        settings.min_share,
        settings.min_requests,
        settings.kv_budget,
        exact,
        _rates(settings, hosted.read if hosted else 0.1, hosted.write if hosted else 1.0),
        straddle="PX502" in settings.codes,
    )


def _rates(settings: LintSettings, read: float, write: float) -> Rates:
    shape = None
    given = (settings.active_parameters, settings.layers, settings.heads, settings.head_dim)
    if all(value is not None for value in given):
        assert settings.active_parameters and settings.layers and settings.heads and settings.head_dim
        kv_heads = settings.kv_heads or settings.heads
        shape = ModelShape(settings.active_parameters, settings.layers, settings.heads, kv_heads, settings.head_dim)
    peak = settings.peak_tflops * 1e12 if settings.peak_tflops else None
    return Rates(shape, peak, settings.mfu, settings.tokens_per_gpu_second, settings.price_per_million, read, write)


class Run:
    """A run over files; `stdin` is the bytes of `-` with the name it goes by."""

    def __init__(self, settings: LintSettings, exact: TokenSource | None = None) -> None:
        self.settings = settings
        self.codes = settings.codes
        self._options = log_options(settings, exact)
        self._patterns = settings.patterns()

    def paths(self, given: list[str]) -> list[Target]:
        """The files of a run."""
        return discover(given, self.settings.exclude, self.settings.respect_gitignore)

    def check(self, targets: list[Target], stdin: tuple[str, bytes] | None = None) -> Result:
        """Check files and standard input."""
        result = Result()
        sources = [target for target in targets if target.kind is not Kind.LOG]
        for target in targets:
            if target.kind is Kind.LOG:
                result.merge(self.log(target))
        result.merge(self._sources(sources))
        if stdin is not None:
            name, data = stdin
            kind = kind_of(name) or Kind.LOG
            if kind is Kind.LOG:
                result.merge(self._log(LogFile.spool(io.BytesIO(data), name)))
            else:
                result.merge(self._sources([Target(name, Path(name), kind)], {name: data.decode("utf-8", "replace")}))
            result.files += 1
        result.findings = join_sources(result.findings, sources)
        result.findings.sort(key=Finding.order)
        result.notes.sort(key=lambda note: (note.file, note.line, note.code, note.message))
        return result

    def log(self, target: Target) -> Result:
        """Check one log."""
        try:
            log = LogFile.open(target.path, target.name)
        except OSError as error:
            failure = Note("PX901", f"{target.name}:1: cannot be read ({error.strerror})", target.name)
            return Result(failures=[failure], notes=[failure], files=1)
        made = self._log(log)
        made.files = 1
        return made

    def _log(self, log: LogFile) -> Result:
        analysis = LogAnalysis(self._options)
        try:
            for request in log.requests():
                analysis.feed(request)
            made = analysis.finish({log.name: log})
        finally:
            log.close()
        if not analysis.rows:
            text = "holds no readable request" if made.bad_records else "is empty: no requests"
            code = "PX901" if made.bad_records else "PX903"
            made.failures.append(Note(code, f"{log.name}:1: {text}", log.name))
            made.notes.append(made.failures[-1])
        elif made.bad_records > self.settings.max_bad_records * (made.bad_records + made.records):
            text = f"{log.name}:1: {made.bad_records} of {made.bad_records + made.records} records cannot be read"
            made.failures.append(Note("PX901", text, log.name))
            made.notes.append(made.failures[-1])
        made.findings = self._filter(made.findings)
        return made

    def _sources(self, targets: list[Target], texts: dict[str, str] | None = None) -> Result:
        result = Result(files=len(targets))
        given = texts or {}
        loaded: dict[str, str] = {}
        for target in targets:
            if target.name in given:
                loaded[target.name] = given[target.name]
                continue
            try:
                data = target.path.read_bytes()
            except OSError as error:
                result.failures.append(
                    Note("PX901", f"{target.name}:1: cannot be read ({error.strerror})", target.name)
                )
                continue
            if b"\0" in data[:8192]:
                result.failures.append(Note("PX901", f"{target.name}:1: is binary, not text", target.name))
                continue
            loaded[target.name] = data.decode("utf-8", "replace")
        result.notes += result.failures
        check = self._checker(targets, loaded)
        found: dict[str, Finding] = {}
        for target in targets:
            if target.name not in loaded:
                continue
            findings, notes = check(target)
            result.notes += notes
            result.failures += [note for note in notes if note.code == "PX901"]
            for item in findings:
                found.setdefault(f"{item.file}\0{item.line}\0{item.code}", item)
        by_file: dict[str, list[Finding]] = {}
        for item in self._filter(list(found.values())):
            by_file.setdefault(item.file, []).append(item)
        for name, text in loaded.items():
            kept, silenced = ignores.apply(
                by_file.get(name, []), text, name, self.codes, require_reason=self.settings.require_reason
            )
            result.findings += self._filter(kept)
            result.suppressed += silenced
        return result

    def _checker(
        self, targets: list[Target], texts: dict[str, str]
    ) -> Callable[[Target], tuple[list[Finding], list[Note]]]:
        from opsconsole.lint.frontends.javascript import JsFrontend
        from opsconsole.lint.frontends.python import PythonFrontend

        least = self.settings.min_tokens
        files: dict[Kind, dict[str, Callable[[], str]]] = {Kind.PYTHON: {}, Kind.JAVASCRIPT: {}}
        for target in targets:
            if target.kind in files and target.name in texts:
                files[target.kind][target.name] = lambda name=target.name: texts[name]  # type: ignore[misc]
        sources = {name: Source(_volatility(code), code, name) for name, code in self.settings.sources.items()}
        python = PythonFrontend(files[Kind.PYTHON], least, frozenset(self.settings.sinks), sources)
        script = JsFrontend(files[Kind.JAVASCRIPT], least)

        def check(target: Target) -> tuple[list[Finding], list[Note]]:
            name, text = target.name, texts[target.name]
            if target.kind is Kind.PYTHON:
                return python.check(name, text)
            if target.kind is Kind.JAVASCRIPT:
                return script.check(name, text), []
            if target.kind is Kind.STRUCTURED:
                return structured.check(name, text, least)
            if target.kind is Kind.JINJA:
                return (
                    chat_template.check(name, text)
                    if chat_template.looks_like(text)
                    else (jinja.check(name, text, least), jinja.broken(name, text))
                )
            return plain.check(name, text, least), []

        return check

    def _filter(self, findings: list[Finding]) -> list[Finding]:
        kept: list[Finding] = []
        per_file = [
            (pattern, matching(codes, "per-file-ignores")) for pattern, codes in self.settings.per_file_ignores.items()
        ]
        for item in findings:
            if item.code not in self.codes:
                continue
            if any(item.code in codes and fnmatch.fnmatch(item.file, pattern) for pattern, codes in per_file):
                continue
            if any(pattern.search(pair.after) for pattern in self._patterns for pair in item.pairs[:1]):
                continue
            level = _override(self.settings.severity, item.code)
            if level == "off":
                continue
            kept.append(replace(item, severity=Severity(level)) if level else item)
        return kept

    def exit_code(self, result: Result) -> int:
        """0, 1 or 2 for a result."""
        analysed = result.files - len({note.file for note in result.failures})
        if result.failures and (
            analysed <= 0 or any("records cannot be read" in note.message for note in result.failures)
        ):
            return 2
        if result.files == 0:
            return 2
        least = self.settings.threshold.rank
        return 1 if any(item.severity.rank >= least for item in result.findings) else 0


def _volatility(code: str) -> Volatility:
    """The volatility a configured source has, by its rule."""
    V = Volatility
    return {"PX102": V.DAY, "PX104": V.USER, "PX105": V.SESSION, "PX106": V.TURN, "PX107": V.TURN}.get(code, V.REQUEST)


def _override(severity: dict[str, str], code: str) -> str | None:
    hits = [key for key in severity if code.startswith(key) or RULES[code].name == key]
    return severity[max(hits, key=len)] if hits else None


def require_files(targets: list[Target], stdin: bool) -> None:
    """Nothing to check is an error, not a clean run."""
    if not targets and not stdin:
        raise UsageError("nothing to check: no log, source or template was found in the paths given.")


def fixable(result: Result) -> tuple[int, int]:
    """How many findings have a safe and an unsafe fix."""
    safe = sum(item.fix is FixKind.SAFE for item in result.findings)
    return safe, sum(item.fix is FixKind.UNSAFE for item in result.findings)
