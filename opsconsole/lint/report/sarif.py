"""SARIF 2.1.0, as code-scanning services read it: rules with help, results with fingerprints.

Pure. The trap: log findings have two places, the record's line in the file and the path inside the request; the latter
is a logical location.
"""

from __future__ import annotations

import json
from typing import Any

from opsconsole import __version__
from opsconsole.lint.model import Finding, Result
from opsconsole.lint.rules.table import RULES

_LEVEL = {"error": "error", "warning": "warning", "info": "note", "off": "none"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report(result: Result) -> str:
    """The SARIF log."""
    used = sorted({item.code for item in result.findings})
    driver: dict[str, Any] = {
        "name": "opsconsole lint",
        "version": __version__,
        "rules": [_rule(code) for code in used],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(item, used.index(item.code)) for item in result.findings],
        "invocations": [
            {
                "executionSuccessful": not result.failures,
                "toolExecutionNotifications": [
                    {"level": "note", "descriptor": {"id": note.code}, "message": {"text": note.message}}
                    for note in result.notes
                ],
            }
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = RULES[code]
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.how, "markdown": rule.explain()},
        "defaultConfiguration": {"level": _LEVEL[rule.severity.value]},
    }


def _result(item: Finding, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": item.file},
            "region": {"startLine": item.line, "startColumn": item.col},
        }
    }
    if item.char is not None:
        place["logicalLocations"] = [{"fullyQualifiedName": f"{item.path}:{item.char}", "kind": "member"}]
    made: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": _LEVEL[item.severity.value],
        "message": {"text": item.message},
        "locations": [place],
        "partialFingerprints": {"opsconsoleLint/v1": item.fingerprint},
    }
    if item.written_at is not None:
        made["relatedLocations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": item.written_at.file},
                    "region": {"startLine": item.written_at.line, "startColumn": item.written_at.col},
                },
                "message": {"text": "written here"},
            }
        ]
    return made
