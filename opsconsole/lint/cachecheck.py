"""Checks of the cache's own limits: keys, salts, options, breakpoints, minimum, lifetime, fan-out (PX404, PX5xx).

Works on the fields around a prompt. The trap: nothing here may fire on a log that names no provider and carries no
marks, since then nobody asked for a hosted cache.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from opsconsole.lint.diverge import common_prefix, first_difference
from opsconsole.lint.model import FamilyReport, Finding, Pair, Severity
from opsconsole.lint.rows import Evidence, Row
from opsconsole.lint.rules.table import RULES
from opsconsole.lint.tables import Provider, provider

if TYPE_CHECKING:
    from opsconsole.lint.logcheck import LogOptions


def check(family: list[Row], evidence: Evidence, options: LogOptions, report: FamilyReport) -> list[Finding]:
    """All findings of one family."""
    made = _keys(family, report) + _options(family, report) + _straddle(family, options, report)
    kind = options.provider
    if kind is None and family[0].request.format in ("anthropic", "bedrock") and any(r.request.marks for r in family):
        kind = provider(family[0].request.format)
    if kind is None:
        return made
    made += _limits(family, kind, report)
    if kind.breakpoints:
        made += _breakpoints(family, kind, evidence, report)
    made += _minimum(family, kind, report)
    return made + _times(family, kind, report)


def _finding(code: str, text: str, row: Row, report: FamilyReport, **more: object) -> Finding:
    rule = RULES[code]
    base = Finding(code, rule.severity, text, row.request.file, row.request.line)
    from dataclasses import replace

    return replace(base, family=report.name, fix=rule.fix, advice=rule.how, subject=code, **more)  # type: ignore[arg-type]


def _keys(family: list[Row], report: FamilyReport) -> list[Finding]:
    made: list[Finding] = []
    for name, values in (
        ("prompt_cache_key", [row.request.cache_key for row in family]),
        ("cache_salt", [row.request.salt for row in family]),
    ):
        given = [value for value in values if value is not None]
        if len(given) < 3 or len(set(given)) < 0.8 * len(given):
            continue
        pairs = _changes(family, name, [value or "" for value in values])
        text = f"{name} has {len(set(given))} values in {len(given)} requests of one prompt; a new one never hits"
        row = _row(family, pairs[0])
        made.append(_finding("PX503", text, row, report, path=name, char=pairs[0].char, pairs=pairs, confirmed=True))
    return made


def _options(family: list[Row], report: FamilyReport) -> list[Finding]:
    made: list[Finding] = []
    names = sorted({name for row in family for name in row.request.options})
    for name in names:
        pairs = _changes(family, name, [row.request.options.get(name, "") for row in family])
        if len(pairs) < 2 or len(pairs) < 0.2 * len(family):
            continue
        text = f"{name} changes {len(pairs)} times in {len(family)} requests; many templates print it in front"
        row = _row(family, pairs[0])
        level = Severity.WARNING
        made.append(_finding("PX404", text, row, report, path=name, char=pairs[0].char, pairs=pairs, severity=level))
    return made


def _changes(family: list[Row], name: str, values: list[str]) -> tuple[Pair, ...]:
    """The consecutive pairs in which a field of the request changes."""
    made: list[Pair] = []
    for (a, b), (old, new) in zip(itertools.pairwise(family), itertools.pairwise(values), strict=True):
        if old != new:
            made.append(Pair((a.request.index, b.request.index), name, common_prefix(old, new), old, new))
    return tuple(made)


def _row(family: list[Row], pair: Pair) -> Row:
    return next(row for row in family if row.request.index == pair.requests[1])


def _straddle(family: list[Row], options: LogOptions, report: FamilyReport) -> list[Finding]:
    """Tokens lost because the shared prefix ends inside a block (only when asked for)."""
    unit = options.rule.unit
    over = sorted(row.common_tokens % unit for row in family[1:] if row.common_tokens >= unit)
    if not options.straddle or unit < 2 or len(over) < 2 or not over[len(over) // 2]:
        return []
    text = f"the shared prefix ends {over[len(over) // 2]} tokens into a block of {unit}; those are computed each time"
    return [_finding("PX502", text, family[0], report, severity=Severity.INFO)]


def _limits(family: list[Row], kind: Provider, report: FamilyReport) -> list[Finding]:
    for row in family:
        marks = row.request.marks
        if len(marks) > kind.max_breakpoints:
            text = f"{len(marks)} cache breakpoints; {kind.name} reads {kind.max_breakpoints}"
            return [_finding("PX505", text, row, report, confirmed=True)]
        lifetimes = [mark.ttl for mark in marks]
        if any(a != "1h" and b == "1h" for a, b in itertools.pairwise(lifetimes)):
            return [_finding("PX505", "a lifetime of 1h stands after a shorter one", row, report, confirmed=True)]
    return []


def _breakpoints(family: list[Row], kind: Provider, evidence: Evidence, report: FamilyReport) -> list[Finding]:
    """Whether the stable part in front of the first change ends at a mark in most pairs."""
    missed: list[tuple[Row, Row, str, int, int]] = []
    pairs = list(itertools.pairwise(family))[:60]
    for earlier, later in pairs:
        a, b = evidence.parts(earlier), evidence.parts(later)
        where = first_difference(a, b)
        if where is None:
            continue
        changed = next((i for i, part in enumerate(b) if part.path == where[0]), len(b))
        hit = any(mark.after_part < changed for mark in later.request.marks)
        stable = later.common_tokens
        if not hit and stable >= kind.minimum_for(later.request.model):
            missed.append((earlier, later, where[0], where[1], stable))
    if len(missed) < 2 or len(missed) < 0.2 * len(pairs):
        return []
    earlier, later, path, char, stable = missed[0]
    marked = bool(later.request.marks)
    text = (
        f"the cache breakpoint stands behind {path} char {char}, which changes; {stable:,} stable tokens "
        "in front of it never hit"
        if marked
        else f"no cache breakpoint on {stable:,} stable tokens in front of {path}"
    )
    found = tuple(Pair((e.request.index, r.request.index), p, c) for e, r, p, c, _ in missed)
    return [_finding("PX504", text, later, report, path=path, char=char, pairs=found, confirmed=True)]


def _minimum(family: list[Row], kind: Provider, report: FamilyReport) -> list[Finding]:
    least = kind.minimum_for(family[0].request.model)
    shared = sorted(row.common_tokens for row in family[1:])
    middle = shared[len(shared) // 2]
    if not 16 <= middle < least:
        return []
    text = f"the shared prefix has about {middle:,} tokens; {kind.name} caches from {least:,}"
    return [_finding("PX501", text, family[0], report)]


def _times(family: list[Row], kind: Provider, report: FamilyReport) -> list[Finding]:
    times = [row.request.at for row in family]
    known = sorted(value for value in times if value is not None)
    if len(known) < 3:
        return []
    made: list[Finding] = []
    gaps = [b - a for a, b in itertools.pairwise(known)]
    late = sum(gap > kind.ttl_s for gap in gaps) if kind.ttl_s else 0
    if late >= 0.2 * len(gaps) and late >= 2:
        text = f"{late} of {len(gaps)} gaps are longer than the cache lives ({kind.ttl_s:,.0f} s)"
        made.append(_finding("PX506", text, family[0], report))
    first = sum(value - known[0] < 0.5 for value in known)
    if first >= 5:
        made.append(_finding("PX507", f"{first} first requests start within 0.5 s", family[0], report))
    return made
