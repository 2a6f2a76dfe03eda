"""The report for people: findings by file, families as two bars, waste as an upper bound.

Pure text. The trap: prompt text is evidence and may be private, so `redact` leaves every value out.
"""

from __future__ import annotations

from opsconsole.lint.model import Bar, FamilyReport, Finding, Result
from opsconsole.lint.rules.table import RULES
from opsconsole.lint.runner import fixable

WIDTH = 56
SHARED, DIVERGENT = "█", "░"


def report(result: Result, *, quiet: bool = False, verbose: bool = False, redact: bool = False) -> str:
    """The whole report."""
    lines: list[str] = []
    for item in result.findings:
        lines += _finding(item, verbose=verbose, redact=redact)
    if not quiet:
        shown = [family for family in result.families if verbose or _worth_showing(family, result)]
        for family in shown:
            lines += _family(family)
        lines += [f"note: {note.code} {note.message}" for note in result.notes]
        lines.append(_summary(result))
    else:
        lines += [f"note: {note.code} {note.message}" for note in result.failures]
    return "\n".join(lines) + "\n" if lines else ""


def _finding(item: Finding, *, verbose: bool, redact: bool) -> list[str]:
    rule = RULES[item.code]
    mark = f" {item.fix.mark}" if item.fix.mark else ""
    made = [f"{item.file}:{item.line}:{item.col}: {item.severity.value} {item.code} {rule.name}{mark} {item.message}"]
    if item.pairs and not redact:
        pair = item.pairs[0]
        if pair.before or pair.after:
            made.append(f"    request {pair.requests[0]}: {_one_line(pair.before)}")
            made.append(f"    request {pair.requests[1]}: {_one_line(pair.after)}")
    if item.requests_touched and item.requests_total:
        made.append(f"    {item.requests_touched} of {item.requests_total} requests of {item.family or 'the log'}")
    if item.advice and (verbose or item.severity.rank > 1):
        made.append(f"    {item.advice}")
    return made


def _one_line(text: str) -> str:
    return repr(text)[1:-1]


def _worth_showing(family: FamilyReport, result: Result) -> bool:
    if family.file.startswith("http"):
        return True
    return any(item.family == family.name and item.file == family.file for item in result.findings)


def bar(runs: Bar, width: int = WIDTH) -> str:
    """A prompt as a bar; every run with tokens takes at least one cell while there is room."""
    total = sum(size for _, size in runs.runs)
    if not total:
        return ""
    cells = ""
    reached = 0
    for shared, size in runs.runs:
        reached += size
        end = max(len(cells) + 1, round(reached / total * width))
        cells += (SHARED if shared else DIVERGENT) * max(0, min(end, width) - len(cells))
    return cells


def _family(item: FamilyReport) -> list[str]:
    made = [
        "",
        f"{item.name} of {item.file}: {item.requests:,} requests, {item.prompt_tokens:,} prompt tokens, "
        f"reused {item.rate:.1%}, possible {item.rate_after:.1%}",
    ]
    if item.before is not None and item.after is not None:
        made.append(f"  now    {bar(item.before)}")
        made.append(f"  fixed  {bar(item.after)}   {SHARED} shared {DIVERGENT} divergent")
    if item.reused_in_budget is not None:
        made.append(f"  within the KV budget: {item.reused_in_budget / max(1, item.prompt_tokens):.1%} reused")
    if item.reported_cached is not None:
        made.append(
            f"  the engine reported {item.reported_cached:,} cached tokens; computed here {item.reused_tokens:,}"
        )
    if item.waste is not None:
        waste = item.waste
        parts = [f"{waste.tokens:,} tokens"]
        if waste.gpu_seconds is not None:
            parts.append(f"{waste.gpu_seconds:,.2f} prefill GPU-seconds ({waste.basis})")
        if waste.kv_bytes is not None:
            parts.append(f"{waste.kv_bytes:,} KV bytes")
        if waste.money is not None:
            parts.append(f"{waste.money:,.4f} {waste.currency}")
        made.append(f"  avoidable prefill work, upper bound: {', '.join(parts)}")
    return made


def _summary(result: Result) -> str:
    count = len(result.findings)
    safe, unsafe = fixable(result)
    files = f"{result.files} file{'s' if result.files != 1 else ''}"
    head = f"{count} finding{'s' if count != 1 else ''} in {files}, {result.records:,} requests"
    extra = [f"{safe} fixable with --fix" if safe else "", f"{unsafe} more with --unsafe-fixes" if unsafe else ""]
    extra += [
        f"{result.suppressed} ignored" if result.suppressed else "",
        f"{result.baselined} in the baseline" if result.baselined else "",
    ]
    return "; ".join([head, *(part for part in extra if part)])


def statistics(result: Result) -> str:
    """Findings counted by rule."""
    counts: dict[str, int] = {}
    for item in result.findings:
        counts[item.code] = counts.get(item.code, 0) + 1
    rows = [
        f"{count:>6}  {code}  {RULES[code].name}" for code, count in sorted(counts.items(), key=lambda x: (-x[1], x[0]))
    ]
    return "\n".join(rows) + "\n" if rows else ""
