"""One invocation of the linter: what the command line asked for, done in order, and the exit code.

Everything the command needs apart from option parsing. The trap: the report goes to standard output or a file, words
about the run go to standard error, so that machine formats stay clean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from opsconsole.errors import UsageError
from opsconsole.lint import baseline as baselines
from opsconsole.lint import enginestats, fixrun
from opsconsole.lint.cache import Cache
from opsconsole.lint.discover import Kind, Target, kind_of
from opsconsole.lint.model import Result
from opsconsole.lint.report import github, sarif, text, wire
from opsconsole.lint.runner import Run, log_options, require_files
from opsconsole.lint.settings import LintSettings
from opsconsole.lint.tokens import EngineTokenizer, LocalTokenizer, TokenSource

FORMATS = ("text", "json", "sarif", "github")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The wishes of one call."""

    paths: list[str]
    format: str = "text"
    output_file: Path | None = None
    fix: bool = False
    unsafe: bool = False
    diff: bool = False
    out: Path | None = None
    baseline: Path | None = None
    write_baseline: Path | None = None
    statistics: bool = False
    stdin_filename: str = "stdin.jsonl"
    exit_zero: bool = False
    quiet: bool = False
    verbose: bool = False
    redact: bool = False
    cache: bool = True
    tokenizer: str = ""
    template: str = ""
    show_files: bool = False


def token_source(name: str, template: str) -> TokenSource | None:
    """The tokenizer asked for, if any: a file, a folder, or an engine's URL."""
    if not name:
        return None
    if name.startswith(("http://", "https://")):
        return EngineTokenizer(name)
    return LocalTokenizer.load(name, _renderer(template) if template else None)


def _renderer(path: str) -> Callable[[object], str]:
    from opsconsole.lint.frontends.chat_template import Template
    from opsconsole.lint.request import Request
    from opsconsole.lint.tokens import chat_messages

    compiled = Template(Path(path).read_text(encoding="utf-8"))

    def render(request: object) -> str:
        assert isinstance(request, Request)
        return compiled.render(chat_messages(request), add_generation_prompt=True)

    return render


def execute(wish: Invocation, settings: LintSettings, echo: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Run and report; returns the exit code."""
    if wish.format not in FORMATS:
        raise UsageError(f"--format {wish.format}: choose one of {', '.join(FORMATS)}.")
    stdin: tuple[str, bytes] | None = None
    engines = [enginestats.fetch(path) for path in wish.paths if path.startswith(("http://", "https://"))]
    settings = _with_rate(settings, engines)
    run = Run(settings, token_source(wish.tokenizer, wish.template))
    paths = [path for path in wish.paths if path != "-" and not path.startswith(("http://", "https://"))]
    if "-" in wish.paths:
        stdin = (wish.stdin_filename, sys.stdin.buffer.read())
    targets = run.paths(paths) if paths or (stdin is None and not engines) else []
    if wish.show_files:
        echo("".join(f"{target.name}\n" for target in targets))
        return 0
    require_files(targets, stdin is not None or bool(engines))
    if stdin is not None and wish.fix and kind_of(stdin[0]) not in (Kind.LOG, None):
        return _fix_stdin(run, stdin, wish, echo)
    result = _checked(run, targets, stdin, wish)
    for stats in engines:
        family, found = enginestats.report(stats, settings.block_size or 16)
        result.families.append(family)
        result.findings += [item for item in found if item.code in run.codes]
        result.files += 1
    code = _fixed(run, targets, result, wish, echo, tell) if wish.fix or wish.diff else None
    if code is not None:
        return 0 if wish.exit_zero else code
    if wish.write_baseline is not None:
        file = wish.write_baseline
        _written(file, "--write-baseline", lambda: baselines.write(file, result.findings))
        tell(f"{len(result.findings)} findings written to {wish.write_baseline}")
        return 0
    if wish.baseline is not None:
        result.findings, result.baselined = baselines.filter_known(wish.baseline, result.findings)
    _print(result, wish, echo)
    for note in result.failures:
        tell(f"{note.code} {note.message}")
    code = run.exit_code(result)
    return 0 if wish.exit_zero and code == 1 else code


def _with_rate(settings: LintSettings, engines: list[enginestats.EngineStats]) -> LintSettings:
    """Settings with the prefill rate that an engine measured, unless one is given."""
    rates = [stats.tokens_per_second for stats in engines if stats.tokens_per_second]
    if settings.tokens_per_gpu_second is not None or not rates:
        return settings
    return replace(settings, tokens_per_gpu_second=rates[0])


def _checked(run: Run, targets: list[Target], stdin: tuple[str, bytes] | None, wish: Invocation) -> Result:
    """The result, remembered where only sources are checked."""
    only_sources = stdin is None and all(target.kind is not Kind.LOG for target in targets)
    if not (wish.cache and only_sources and targets):
        return run.check(targets, stdin)
    cache = Cache(Path.cwd(), run.settings)
    try:
        key = cache.key(targets)
    except OSError:
        return run.check(targets, stdin)
    known = cache.get(key)
    if known is not None:
        return known
    result = run.check(targets, stdin)
    cache.put(key, result)
    return result


def _fix_stdin(run: Run, stdin: tuple[str, bytes], wish: Invocation, echo: Callable[[str], None]) -> int:
    name, data = stdin
    try:
        before = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text (byte {error.start}); it cannot be fixed.") from error
    target = Target(name, Path(name), kind_of(name) or Kind.PLAIN)
    findings = run.check([], stdin).findings
    made = fixrun.fix_one(run, target, before, findings, unsafe=wish.unsafe)
    echo(made.diff if wish.diff else made.after)
    left = run.check([], (name, made.after.encode()))
    return (1 if made.fixed else 0) if wish.diff else run.exit_code(left)


def _fixed(
    run: Run,
    targets: list[Target],
    result: Result,
    wish: Invocation,
    echo: Callable[[str], None],
    tell: Callable[[str], None],
) -> int | None:
    """Apply or show fixes; an exit code where that is all, None where the rest is reported."""
    made = fixrun.fix_sources(run, targets, result.findings, unsafe=wish.unsafe)
    logs = [target for target in targets if target.kind is Kind.LOG]
    if wish.diff:
        options = log_options(run.settings)
        copies = [fixrun.fix_log(target, options, run.settings.may_fix, unsafe=wish.unsafe) for target in logs]
        shown = [text for text in (*(item.diff for item in made), *(item.diff for item in copies)) if text]
        echo("".join(shown).encode("utf-8", "replace").decode("utf-8"))
        return 1 if shown else 0
    for item in made:
        fixrun.write(Path(item.name), item.after)
        tell(f"{item.name}: {item.fixed} fixed")
    for target in logs:
        if wish.out is None:
            tell(f"{target.name}: logs are fixed into a copy; give --out FILE")
            continue
        if len(logs) > 1:
            raise UsageError("--out takes one log; fix logs one by one.")
        if wish.out.exists() and wish.out.samefile(target.path):
            raise UsageError(f"--out {wish.out} is the log itself, which is never changed in place; name another file.")
        options = log_options(run.settings)
        copy = fixrun.fix_log(target, options, run.settings.may_fix, unsafe=wish.unsafe)
        _written(wish.out, "--out", lambda out=wish.out, copy=copy: fixrun.write(out, "".join(copy.lines)))  # type: ignore[misc]
        tell(
            f"{target.name}: {copy.changed} of {len(copy.lines)} records rewritten to {wish.out}; "
            f"reuse {copy.reuse_before:.1%} before, {copy.reuse_after:.1%} after (replayed)"
        )
    if made:
        again = run.check(targets)
        result.findings, result.notes = again.findings, again.notes
    return None


def _written(file: Path, option: str, write: Callable[[], object]) -> None:
    """Write a file that was asked for; what stands in the way is a sentence."""
    try:
        write()
    except OSError as error:
        raise UsageError(f"{option} {file}: cannot be written ({error.strerror}).") from error


def _print(result: Result, wish: Invocation, echo: Callable[[str], None]) -> None:
    if wish.format == "json":
        made = wire.report(result, redact=wish.redact)
    elif wish.format == "sarif":
        made = sarif.report(result)
    elif wish.format == "github":
        made = github.report(result)
    elif wish.statistics:
        made = text.statistics(result)
    else:
        made = text.report(result, quiet=wish.quiet, verbose=wish.verbose, redact=wish.redact)
    if wish.output_file is not None:
        file = wish.output_file
        _written(file, "--output-file", lambda: file.write_text(made, encoding="utf-8", errors="replace"))
    else:
        echo(made)
