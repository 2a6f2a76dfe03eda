"""Findings of logs from causes and broken conversations, with their words and evidence.

Decides severities that depend on behaviour and the sentence a person reads. The trap: the position is that of the first
pair of requests in which the cause shows, not of the worst one.
"""

from __future__ import annotations

from opsconsole.lint.counterfactual import Gains
from opsconsole.lint.explain import Cause
from opsconsole.lint.model import Bar, FamilyReport, Finding, Pair
from opsconsole.lint.rows import Row
from opsconsole.lint.rules.table import RULES
from opsconsole.lint.sessions import Break


def prefix_findings(found: list[Cause], family: list[Row], gains: Gains, report: FamilyReport) -> list[Finding]:
    """One finding per cause; the same code at the same path is reported once."""
    made: dict[tuple[str, str], Finding] = {}
    for cause in found:
        pair = cause.pairs[0]
        code = cause.code
        rule = RULES[code]
        word = cause.words.get(cause.code, "a value")
        if (code, cause.path) in made or any(
            (item.path, item.char) == (cause.path, pair.char) for item in made.values()
        ):
            continue
        row = next((row for row in family if row.request.index == pair.requests[1]), cause.first or family[0])
        text = (
            f"{word} changes at {cause.path} char {pair.char}, before about {cause.stable:,} tokens that do not; "
            f"reuse {report.rate:.1%}, possible {report.rate_after:.1%}"
        )
        made[(code, cause.path)] = Finding(
            code,
            rule.severity,
            text,
            row.request.file,
            row.request.line,
            path=cause.path,
            char=pair.char,
            end_char=cause.end_char,
            pairs=tuple(cause.pairs),
            family=report.name,
            requests_touched=gains.touched,
            requests_total=len(family),
            tokens_lost=gains.tokens,
            stable_tokens=cause.stable,
            reuse_before=report.rate,
            reuse_after=report.rate_after,
            confirmed=True,
            fix=rule.fix,
            advice=rule.how,
            subject=cause.key[1],
            token=row.common_tokens,
        )
    return list(made.values())


def session_findings(
    breaks: list[Break],
    family: list[Row],
    follows: dict[int, Row],
    report: FamilyReport,
    min_tokens: int,
    min_requests: float,
) -> list[Finding]:
    """Findings about conversations whose history does not only grow."""
    made: list[Finding] = []
    for code in sorted({item.code for item in breaks}):
        items = [item for item in breaks if item.code == code]
        heavy = items if code == "PX306" else [item for item in items if item.lost >= min_tokens]
        if len(heavy) < max(1.0, min_requests * len(follows)) or (len(heavy) < 2 and len(follows) > 3):
            continue
        made.append(_session_finding(code, items, heavy, family, report))
    return made


def _session_finding(
    code: str, items: list[Break], heavy: list[Break], family: list[Row], report: FamilyReport
) -> Finding:
    rule = RULES[code]
    first = items[0]
    lost = sum(item.lost for item in items)
    path = first.path.split(".")[0] if code == "PX302" else first.path
    pairs = tuple(
        Pair((item.earlier.request.index, item.later.request.index), item.path, item.char) for item in items[:40]
    )
    return Finding(
        code,
        rule.severity,
        f"{rule.summary.rstrip('.')} (first at {first.path} char {first.char}); {len(items)} of {len(family)} requests "
        f"compute {lost:,} tokens again",
        first.later.request.file,
        first.later.request.line,
        path=path,
        char=first.char,
        pairs=pairs,
        family=report.name,
        requests_touched=len(heavy),
        requests_total=len(family),
        tokens_lost=lost,
        stable_tokens=max(item.lost for item in items),
        reuse_before=report.rate,
        confirmed=True,
        fix=rule.fix,
        advice=rule.how,
        subject=code,
    )


def bars(family: list[Row], gains: Gains | None) -> tuple[Bar, Bar]:
    """The family's usual prompt as shared and divergent runs, now and in the best order."""
    shown = family[-1]
    counts: dict[int, int] = {}
    for row in family[:200]:
        for unit in set(row.units):
            counts[unit] = counts.get(unit, 0) + 1
    floor = 0.9 * min(len(family), 200)
    runs: list[tuple[bool, int]] = []
    reached = 0
    for unit, size in zip(shown.units, shown.tokens, strict=True):
        shared = counts.get(unit, 0) >= floor
        reached += size
        if runs and runs[-1][0] == shared:
            runs[-1] = (shared, runs[-1][1] + size)
        else:
            runs.append((shared, size))
    total = sum(size for _, size in runs)
    best = gains.possible[-1] if gains is not None and gains.possible else shown.reused
    best = max(0, min(total, best))
    return Bar(tuple(runs)), Bar(tuple(run for run in ((True, best), (False, total - best)) if run[1]))
