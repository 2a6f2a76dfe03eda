"""Analyses logs: actual reuse, what order would win, and the causes of the difference, family by family.

Joins reader, reuse, families, sessions and explanations. The trap: a finding needs a gain above the thresholds in a
fifth of a family's requests; one cold start is not a finding.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from opsconsole.lint import cachecheck, logfindings
from opsconsole.lint.counterfactual import Gains, counterfactual
from opsconsole.lint.explain import causes, token_causes
from opsconsole.lint.families import group
from opsconsole.lint.model import FamilyReport, Finding, Note, Result
from opsconsole.lint.reader import LogFile
from opsconsole.lint.request import Request
from opsconsole.lint.reuse import EngineRule, RadixTree
from opsconsole.lint.rows import KEEP_CHARS, Evidence, Row, make_row
from opsconsole.lint.segments import Segmenter
from opsconsole.lint.sessions import Break, examine, predecessors
from opsconsole.lint.tables import Provider
from opsconsole.lint.tokens import TokenSource
from opsconsole.lint.waste import Rates, waste

MAX_SEEN = 3_000_000


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How logs are judged."""

    rule: EngineRule = EngineRule()  # noqa: RUF009
    engine: str = "vllm"
    provider: Provider | None = None
    min_tokens: int = 64
    min_share: float = 0.05
    min_requests: float = 0.2
    kv_budget: int | None = None
    exact: TokenSource | None = None
    rates: Rates = Rates()  # noqa: RUF009
    sessions: bool = True
    straddle: bool = False  # PX502 was asked for


class LogAnalysis:
    """One pass over logs, then a verdict. `feed` every request in order, then `finish`."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self.rows: list[Row] = []
        self._segmenter = Segmenter()
        self._seen: set[int] = set()
        self._chars = 0
        self._tree = RadixTree(options.rule)
        self._exact = RadixTree(options.rule)
        self._budget = RadixTree(options.rule, options.kv_budget) if options.kv_budget else None

    def feed(self, request: Request) -> None:
        """Take one request of a log."""
        request.index = len(self.rows)
        row = make_row(request, self._segmenter)
        self._measure(row)
        self.rows.append(row)
        if request.length > 0:
            self._chars += request.length
            if self._chars > KEEP_CHARS and request.tokens is None:
                request.parts = []

    def _measure(self, row: Row) -> None:
        salt = row.request.salt or ""
        rule = self.options.rule
        row.common = self._tree.add(row.units, row.total, salt, row.request.at)
        row.common_tokens = sum(row.tokens[: row.common])
        if self.options.exact is not None and row.request.tokens is None:
            ids = self.options.exact.ids(row.request)
            row.common_tokens = self._exact.add(ids, len(ids), salt, row.request.at)
            row.total = len(ids)
        row.reused = rule.reused(row.common_tokens, row.total)
        if self._budget is not None:
            kept = self._budget.add(row.units, row.total, salt, row.request.at)
            row.in_budget = rule.reused(sum(row.tokens[:kept]), row.total)
        if row.common < len(row.units):
            seen = self._seen
            fresh = row.units[row.common :]
            sizes = row.tokens[row.common :]
            row.repeats = sum(size for unit, size in zip(fresh, sizes, strict=True) if unit in seen)
            if len(seen) < MAX_SEEN:
                seen.update(fresh)

    def finish(self, logs: dict[str, LogFile]) -> Result:
        """Findings, families and notes of everything fed."""
        result = Result(records=len(self.rows))
        for log in logs.values():
            result.notes += log.notes
            result.bad_records += log.bad
            if log.truncated:
                text = f"{log.name}: {log.truncated} prompts were cut by the log; their heads were compared"
                result.notes.append(Note("PX904", text, log.name))
        evidence = Evidence(logs)
        families = group(self.rows)
        for at, family in enumerate(families):
            self._family(f"family {at + 1}", family, evidence, result)
        small = [family for family in families if len(family) < 3]
        if small and len(small) == len(families):
            first = small[0][0].request
            text = f"{first.file}: fewer than 3 requests share a prompt; what changes cannot be told from them"
            result.notes.append(Note("PX903", text, first.file, first.line))
        if self.rows and self.options.exact is None and any(row.request.tokens is None for row in self.rows):
            file = self.rows[0].request.file
            result.notes.append(Note("PX902", "token counts are estimated; --tokenizer makes them exact", file))
        result.findings.sort(key=Finding.order)
        return result

    def _family(self, name: str, family: list[Row], evidence: Evidence, result: Result) -> None:
        options = self.options
        if len(family) < 3:
            result.families.append(_report(name, family, None, options))
            return
        suspects = [
            row for row in family if row.repeats >= options.min_tokens and row.repeats >= options.min_share * row.total
        ]
        follows = predecessors(family) if options.sessions and _talks(family) else {}
        breaks = self._breaks(family, follows, evidence)
        gains: Gains | None = None
        if len(suspects) >= 2:
            gains = counterfactual(family, options.rule, options.min_tokens, options.min_share)
        report = _report(name, family, gains, options)
        result.families.append(report)
        made = logfindings.session_findings(breaks, family, follows, report, options.min_tokens, options.min_requests)
        if gains is not None and gains.share >= options.min_requests and len(gains.gaining) >= 2:
            explained = {item.later.request.index for item in breaks}
            losing = [gains.rows[at] for at in gains.gaining if gains.rows[at].request.index not in explained]
            chain = _chain(family, follows)
            found = causes(chain, losing, evidence, int(0.75 * options.min_tokens)) if len(losing) >= 2 else []
            if not found and family[0].request.tokens is not None:
                found = token_causes(chain, losing, family[0].request.tokens_path)
            made += logfindings.prefix_findings(found, family, gains, report)
        made += cachecheck.check(family, evidence, options, report)
        result.findings += made

    def _breaks(self, family: list[Row], follows: dict[int, Row], evidence: Evidence) -> list[Break]:
        found: list[Break] = []
        for row in family:
            earlier = follows.get(row.request.index)
            if earlier is None or _is_extension(earlier, row):
                continue
            broken = examine(earlier, row, evidence)
            if broken is not None:
                found.append(broken)
            if len(found) >= 2000:
                break
        return found


def _talks(family: list[Row]) -> bool:
    return any(len(row.messages) > 1 for row in family)


def _is_extension(earlier: Row, later: Row) -> bool:
    return later.messages[: len(earlier.messages)] == earlier.messages


def _chain(family: list[Row], follows: dict[int, Row]) -> list[Row]:
    """The family with each conversation's turns next to each other, in order of first appearance."""
    if not follows or all(follows.get(b.request.index) in (a, None) for a, b in itertools.pairwise(family)):
        return family
    roots: dict[int, int] = {}
    groups: dict[int, list[Row]] = {}
    for row in family:
        earlier = follows.get(row.request.index)
        index = row.request.index
        roots[index] = roots.get(earlier.request.index, index) if earlier is not None else index
        groups.setdefault(roots[index], []).append(row)
    return [row for members in groups.values() for row in members]


def _report(name: str, family: list[Row], gains: Gains | None, options: LogOptions) -> FamilyReport:
    total = sum(row.total for row in family)
    reused = sum(row.reused for row in family)
    extra = gains.tokens if gains is not None else 0
    looked = gains.rows if gains is not None else []
    possible = gains.possible if gains is not None else []
    items = [(row.total, row.reused, best) for row, best in zip(looked, possible, strict=True)]
    cached = [row.request.cached for row in family]
    before, after = logfindings.bars(family, gains)
    return FamilyReport(
        name,
        len(family),
        total,
        reused,
        reused + extra,
        family[0].request.file,
        before,
        after,
        waste(items, options.rates, gains.scale) if extra and gains is not None else None,
        sum(row.in_budget or 0 for row in family) if options.kv_budget else None,
        sum(value for value in cached if value is not None) if all(value is not None for value in cached) else None,
    )
