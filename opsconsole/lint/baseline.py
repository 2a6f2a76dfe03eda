"""A baseline: findings that are known and not reported again until they are gone.

Keyed by fingerprints, which hold no line numbers and no values. The trap: two equal fingerprints are two findings, so
they are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from opsconsole.errors import ConfigError
from opsconsole.lint.model import Finding


def write(path: Path, findings: list[Finding]) -> None:
    """Save the findings of a run."""
    counts = Counter(item.fingerprint for item in findings)
    named = {item.fingerprint: f"{item.code} {item.file}" for item in findings}
    rows = [{"fingerprint": key, "count": counts[key], "what": named[key]} for key in sorted(counts)]
    path.write_text(json.dumps({"version": 1, "findings": rows}, indent=2) + "\n", encoding="utf-8")


def filter_known(path: Path, findings: list[Finding]) -> tuple[list[Finding], int]:
    """Findings that are not in the baseline, and how many are."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        left = Counter({row["fingerprint"]: int(row["count"]) for row in data["findings"]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"PX905 {path}:1: not a baseline ({error}); write one with --write-baseline.") from error
    kept: list[Finding] = []
    for item in findings:
        if left[item.fingerprint] > 0:
            left[item.fingerprint] -= 1
        else:
            kept.append(item)
    return kept, len(findings) - len(kept)
