"""Joins a log finding to the source line that wrote it, by the literal text around the changed value.

Searches the sources of the same run. The trap: short or common text matches everywhere, so the neighbours must be long
enough and match one place only.
"""

from __future__ import annotations

import re
from dataclasses import replace

from opsconsole.lint.discover import Target
from opsconsole.lint.model import Finding, Place

MIN_LITERAL = 6


def join_sources(findings: list[Finding], sources: list[Target]) -> list[Finding]:
    """Findings with `written_at` where one source line holds the text before the value."""
    if not sources or not any(item.pairs for item in findings):
        return findings
    texts: dict[str, str] = {}
    for target in sources:
        try:
            texts[target.name] = target.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return [_join(item, texts) if item.pairs and item.written_at is None else item for item in findings]


def _join(finding: Finding, texts: dict[str, str]) -> Finding:
    pair = finding.pairs[0]
    shared = 0
    while shared < min(len(pair.before), len(pair.after)) and pair.before[shared] == pair.after[shared]:
        shared += 1
    left = pair.after[:shared].rpartition("\n")[2].rstrip("0123456789:-/ ")
    left = re.sub(r"\s*[\w-]*\d[\w:-]*$", "", left)
    needles = [left[-length:].strip() for length in (len(left), 20, 12, MIN_LITERAL)]
    words = left.split(" ")  # the head of a value may be the same in both requests: a month, a weekday
    needles += [" ".join(words[max(0, end - 3) : end]).strip() for end in range(len(words) - 1, 0, -1)]
    for at, needle in enumerate(needles):
        if len(needle) < MIN_LITERAL or (at >= 4 and sum(text.count(needle) for text in texts.values()) != 1):
            continue
        hits = [(file, at) for file, text in texts.items() for at in [text.find(needle)] if at >= 0]
        if len(hits) == 1:
            file, at = hits[0]
            text = texts[file]
            start = text.rfind("\n", 0, at) + 1
            place = Place(file, text.count("\n", 0, at) + 1, at - start + 1)
            return replace(finding, written_at=place, message=f"{finding.message}; written at {file}:{place.line}")
    return finding
