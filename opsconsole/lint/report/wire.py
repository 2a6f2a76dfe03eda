"""Findings as plain objects: the JSON report, the cache and the agent's findings speak this form.

Pure. The trap: absent values are left out, never written as 0, and no field depends on time or place of the run.
"""

from __future__ import annotations

import json
from typing import Any

from opsconsole.lint.model import FamilyReport, Finding, FixKind, Note, Pair, Place, Result, Severity
from opsconsole.lint.rules.table import RULES

VERSION = 1


def finding(item: Finding, *, redact: bool = False) -> dict[str, Any]:
    """One finding."""
    rule = RULES[item.code]
    made: dict[str, Any] = {
        "code": item.code,
        "name": rule.name,
        "severity": item.severity.value,
        "message": item.message,
        "file": item.file,
        "line": item.line,
        "col": item.col,
        "path": item.path,
        "char": item.char,
        "end_char": item.end_char,
        "fix": item.fix.value,
        "advice": item.advice,
        "confirmed": item.confirmed,
        "family": item.family or None,
        "requests_touched": item.requests_touched,
        "requests_total": item.requests_total,
        "tokens_lost": item.tokens_lost,
        "stable_tokens": item.stable_tokens,
        "reuse_before": None if item.reuse_before is None else round(item.reuse_before, 4),
        "reuse_after": None if item.reuse_after is None else round(item.reuse_after, 4),
        "subject": None if redact else item.subject or None,
        "fingerprint": item.fingerprint,
    }
    if item.char is not None:
        made["shared_prefix_end"] = {
            "path": item.pairs[0].path if item.pairs else item.path,
            "char": item.char,
            "token": item.token,
        }
        made["pairs"] = [pair(one, redact=redact) for one in item.pairs]
    else:
        made["volatile_at"] = {"file": item.file, "line": item.line, "col": item.col}
        if item.literal_chars is not None:
            made["shared_prefix_end"] = {"literal_chars": item.literal_chars}
    if item.written_at is not None:
        made["written_at"] = {"file": item.written_at.file, "line": item.written_at.line, "col": item.written_at.col}
    return {key: value for key, value in made.items() if value is not None}


def pair(item: Pair, *, redact: bool) -> dict[str, Any]:
    """One pair of evidence; its text is left out when redacted."""
    made: dict[str, Any] = {"requests": list(item.requests), "path": item.path, "char": item.char}
    if not redact and (item.before or item.after):
        made |= {"before": item.before, "after": item.after}
    return made


def note(item: Note) -> dict[str, Any]:
    """One note."""
    return {"code": item.code, "message": item.message, "file": item.file, "line": item.line}


def family(item: FamilyReport) -> dict[str, Any]:
    """One family."""
    made: dict[str, Any] = {
        "name": item.name,
        "file": item.file,
        "requests": item.requests,
        "prompt_tokens": item.prompt_tokens,
        "reused_tokens": item.reused_tokens,
        "reusable_tokens": item.reusable_tokens,
        "reuse": round(item.rate, 4),
        "reuse_possible": round(item.rate_after, 4),
        "reused_in_budget": item.reused_in_budget,
        "reported_cached": item.reported_cached,
    }
    if item.waste is not None:
        waste = item.waste
        made["waste_upper_bound"] = {
            key: value
            for key, value in (
                ("tokens", waste.tokens),
                ("prefill_gpu_seconds", None if waste.gpu_seconds is None else round(waste.gpu_seconds, 3)),
                ("kv_bytes", waste.kv_bytes),
                ("money", None if waste.money is None else round(waste.money, 4)),
                ("basis", waste.basis or None),
            )
            if value is not None
        }
    return {key: value for key, value in made.items() if value is not None}


def report(result: Result, *, redact: bool = False) -> str:
    """The JSON report: keys in a fixed order, ASCII-safe, one newline at the end."""
    counts = {level.value: sum(f.severity is level for f in result.findings) for level in Severity if level.rank}
    data = {
        "version": VERSION,
        "findings": [finding(item, redact=redact) for item in result.findings],
        "families": [family(item) for item in result.families],
        "notes": [note(item) for item in result.notes],
        "summary": {
            "files": result.files,
            "records": result.records,
            "bad_records": result.bad_records,
            "suppressed": result.suppressed,
            "baselined": result.baselined,
            **counts,
        },
    }
    return json.dumps(data, indent=2) + "\n"


def read_finding(data: dict[str, Any]) -> Finding:
    """A finding from its object (the cache's way back)."""
    place = data.get("written_at")
    return Finding(
        data["code"],
        Severity(data["severity"]),
        data["message"],
        data["file"],
        data["line"],
        data["col"],
        path=data.get("path", ""),
        char=data.get("char"),
        end_char=data.get("end_char"),
        pairs=tuple(
            Pair((p["requests"][0], p["requests"][1]), p["path"], p["char"], p.get("before", ""), p.get("after", ""))
            for p in data.get("pairs", [])
        ),
        literal_chars=data.get("shared_prefix_end", {}).get("literal_chars"),
        token=data.get("shared_prefix_end", {}).get("token"),
        family=data.get("family", ""),
        requests_touched=data.get("requests_touched"),
        requests_total=data.get("requests_total"),
        tokens_lost=data.get("tokens_lost"),
        stable_tokens=data.get("stable_tokens"),
        reuse_before=data.get("reuse_before"),
        reuse_after=data.get("reuse_after"),
        confirmed=data["confirmed"],
        fix=FixKind(data["fix"]),
        advice=data.get("advice", ""),
        subject=data.get("subject", ""),
        written_at=Place(**place) if place else None,
    )
