"""`opsconsole lint`: finds what breaks the prefix cache, and proves what moving it wins.

Reads options and hands them to opsconsole.lint. The trap: everything heavy is imported inside the function, so that the
help of all commands stays quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from opsconsole.lint.invocation import Invocation
    from opsconsole.lint.model import Finding
    from opsconsole.lint.settings import LintSettings


def lint(
    paths: list[str] | None = typer.Argument(
        None, metavar="[PATH]...", help="Logs, sources, templates, folders, globs; - is stdin."
    ),
    select: list[str] = typer.Option([], "--select", metavar="CODES", help="Only these rules (codes or prefixes)."),
    extend_select: list[str] = typer.Option([], "--extend-select", metavar="CODES", help="These rules too."),
    ignore: list[str] = typer.Option([], "--ignore", metavar="CODES", help="Not these rules."),
    fail_on: str = typer.Option("", "--fail-on", help="Exit 1 from this severity: error (default), warning, info."),
    format_: str = typer.Option("text", "--format", help="text, json, sarif or github."),
    output_file: Path | None = typer.Option(None, "--output-file", "-o", help="Write the report here."),
    fix: bool = typer.Option(False, "--fix", help="Apply safe fixes; for a log, with --out."),
    unsafe_fixes: bool = typer.Option(False, "--unsafe-fixes", help="Apply fixes that move text too."),
    diff: bool = typer.Option(False, "--diff", help="Print what --fix would change; write nothing."),
    out: Path | None = typer.Option(None, "--out", metavar="FILE", help="The fixed copy of a log."),
    baseline: Path | None = typer.Option(None, "--baseline", metavar="FILE", help="Leave out findings known here."),
    write_baseline: Path | None = typer.Option(
        None, "--write-baseline", metavar="FILE", help="Save all findings as known."
    ),
    statistics: bool = typer.Option(False, "--statistics", help="Count findings by rule."),
    stdin_filename: str = typer.Option("stdin.jsonl", "--stdin-filename", help="The name standard input goes by."),
    config: Path | None = typer.Option(
        None, "--config", metavar="FILE", help="Settings; else the nearest file upwards."
    ),
    exclude: list[str] = typer.Option([], "--exclude", metavar="GLOB", help="Leave out files; repeatable."),
    exit_zero: bool = typer.Option(False, "--exit-zero", help="Exit 0 in spite of findings."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Findings only."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="All families, and advice for each finding."),
    redact: bool = typer.Option(False, "--redact", help="No prompt text in the report."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Do not remember results of sources."),
    tokenizer: str = typer.Option(
        "", "--tokenizer", metavar="PATH|URL", help="Exact tokens: tokenizer.json or an engine."
    ),
    template: str = typer.Option(
        "", "--chat-template", metavar="FILE", help="Render chats by it before counting tokens."
    ),
    engine: str = typer.Option(
        "", "--engine", help="Matching rule: vllm (default), sglang, tensorrt-llm, llama-cpp, ..."
    ),
    block_size: int | None = typer.Option(
        None, "--block-size", help="Tokens of one block, if not the engine's default."
    ),
    provider: str = typer.Option(
        "", "--provider", help="A hosted cache: openai, anthropic, bedrock, gemini, deepseek."
    ),
    kv_budget: int = typer.Option(
        None, "--kv-budget", metavar="TOKENS", help="Also count reuse within this many tokens."
    ),
    price: float | None = typer.Option(
        None, "--price", metavar="USD", help="Price of a million uncached input tokens."
    ),
    explain: str = typer.Option("", "--explain", metavar="CODE", help="Explain a rule and exit."),
    list_rules: bool = typer.Option(False, "--list-rules", help="List all rules and exit."),
    show_files: bool = typer.Option(False, "--show-files", help="List the files that would be checked and exit."),
    show_settings: bool = typer.Option(False, "--show-settings", help="Print the settings in force and exit."),
    write_docs: Path | None = typer.Option(
        None, "--write-docs", metavar="FILE", hidden=True, help="Write the page of rules."
    ),
    watch: float = typer.Option(0.0, "--watch", metavar="SECONDS", help="Follow a captured log; look every SECONDS."),
    replay: str = typer.Option("", "--replay", metavar="URL", help="Replay a log through an engine; compare its hits."),
    api_key: str = typer.Option("", "--api-key", envvar="OPSCONSOLE_API_KEY", help="Key for --replay."),
) -> None:
    """Find what breaks the prefix cache, and prove what moving it wins.

    Exit code 0: nothing at --fail-on or above; 1: findings; 2: bad configuration, missing path, nothing analysable.

    Examples:

      opsconsole lint requests.jsonl src/ templates/

      opsconsole lint --fix --unsafe-fixes --out fixed.jsonl requests.jsonl

      opsconsole lint --explain PX101

      opsconsole lint --watch 5 captured.jsonl
    """
    if explain or list_rules or write_docs is not None:
        _about_rules(explain, list_rules, write_docs)
        return
    settings = _settings(paths or ["."], config, locals())
    if show_settings:
        typer.echo("\n".join(f"{name} = {getattr(settings, name)!r}" for name in settings.__slots__))
        return
    if watch > 0:
        _watch(paths or [], settings, watch)
        return
    if replay:
        _replay(paths or [], settings, replay, api_key)
        return
    from opsconsole.lint.invocation import execute

    code = execute(
        _wish(paths or ["."], locals()),
        settings,
        lambda text: typer.echo(text, nl=False),
        lambda text: typer.echo(text, err=True),
    )
    raise typer.Exit(code)


def _wish(paths: list[str], given: dict[str, Any]) -> Invocation:
    from opsconsole.lint.invocation import Invocation

    return Invocation(
        paths,
        given["format_"],
        given["output_file"],
        given["fix"],
        given["unsafe_fixes"],
        given["diff"],
        given["out"],
        given["baseline"],
        given["write_baseline"],
        given["statistics"],
        given["stdin_filename"],
        given["exit_zero"],
        given["quiet"],
        given["verbose"],
        given["redact"],
        not given["no_cache"],
        given["tokenizer"],
        given["template"],
        given["show_files"],
    )


def _settings(paths: list[str], config: Path | None, given: dict[str, Any]) -> LintSettings:
    from opsconsole.lint.settings import load, merged

    first = Path(next((path for path in paths if path != "-"), "."))
    found, _ = load(first if first.exists() else Path(), config)
    listed = {
        name: tuple(code.strip() for item in given[name] for code in item.split(",") if code.strip())
        for name in ("select", "extend_select", "ignore")
    }
    return merged(
        found,
        **listed,
        exclude=(*found.exclude, *given["exclude"]),
        fail_on=given["fail_on"] or None,
        engine=given["engine"] or None,
        block_size=given["block_size"],
        provider=given["provider"] or None,
        kv_budget=given["kv_budget"],
        price_per_million=given["price"],
    )


def _about_rules(explain: str, list_rules: bool, write_docs: Path | None) -> None:
    from opsconsole.errors import UsageError
    from opsconsole.lint.rules.table import RULES, documentation, find

    if write_docs is not None:
        write_docs.write_text(documentation(), encoding="utf-8")
    elif list_rules:
        for rule in RULES.values():
            typer.echo(f"{rule.code}  {rule.severity.value:<8} {rule.fix.value:<7} {rule.name}")
    else:
        rule_found = find(explain)
        if rule_found is None:
            raise UsageError(f"--explain {explain}: no such rule; see --list-rules.")
        typer.echo(rule_found.explain())


def _watch(paths: list[str], settings: LintSettings, seconds: float) -> None:
    import asyncio

    from opsconsole.clock import SystemClock
    from opsconsole.errors import UsageError
    from opsconsole.lint.runner import log_options
    from opsconsole.lint.watch import Watcher

    if len(paths) != 1:
        raise UsageError("--watch follows one log file, or - for a stream.")
    watcher = Watcher(Path(paths[0]), log_options(settings))

    def tell(findings: list[Finding]) -> None:
        for item in findings:
            if item.code in settings.codes:
                typer.echo(f"{item.file}:{item.line}: {item.severity.value} {item.code} {item.message}")

    async def follow() -> None:
        clock = SystemClock()
        while True:
            tell(watcher.poll())
            await clock.sleep(seconds)

    if paths[0] == "-":
        for lines in watcher.batches(sys.stdin.buffer):
            tell(watcher.take(lines))
        return
    try:
        asyncio.run(follow())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _replay(paths: list[str], settings: LintSettings, url: str, api_key: str) -> None:
    from opsconsole.clock import SystemClock
    from opsconsole.errors import UsageError
    from opsconsole.lint.logcheck import LogAnalysis
    from opsconsole.lint.reader import LogFile
    from opsconsole.lint.runner import log_options
    from opsconsole.lint.tokens import EngineTokenizer
    from opsconsole.lint.truth import replay

    if len(paths) != 1:
        raise UsageError("--replay takes one log.")
    log = LogFile.open(Path(paths[0]), paths[0])
    analysis = LogAnalysis(log_options(settings, EngineTokenizer(url)))
    salt = f"lint-{SystemClock().now():.6f}"
    made = replay(analysis, list(log.requests()), url, salt, api_key)
    log.close()
    typer.echo(
        f"{len(made.requests)} requests: "
        f"predicted {made.predicted_rate:.2%}, the engine {made.engine_rate:.2%} reused; "
        f"they differ by {made.points:.2f} points"
    )
    raise typer.Exit(0 if made.points <= 0.5 else 1)
