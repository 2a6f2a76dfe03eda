"""All rules by code, and selectors over them.

The one place that knows every rule. The trap: a selector is a prefix (`PX1`), and an unknown one is an error, never
silently empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from opsconsole.errors import ConfigError
from opsconsole.lint.model import Severity
from opsconsole.lint.rules import cache, history, meta, order, prefix, template
from opsconsole.lint.rules.rule import Rule

RULES: dict[str, Rule] = {
    rule.code: rule for module in (prefix, order, history, template, cache, meta) for rule in module.RULES
}


def matching(selectors: Iterable[str], where: str) -> frozenset[str]:
    """The codes that the selectors (prefixes, names, or ALL) stand for."""
    found: set[str] = set()
    for selector in selectors:
        wanted = selector.strip()
        hit = {
            code for code, rule in RULES.items() if wanted == "ALL" or code.startswith(wanted) or rule.name == wanted
        }
        if not wanted or not hit:
            valid = ", ".join(sorted({code[:3] for code in RULES}))
            raise ConfigError(
                f"{where}: unknown rule selector {selector!r}; give a code, a name or a prefix ({valid})."
            )
        found |= hit
    return frozenset(found)


def default_codes() -> frozenset[str]:
    """The rules that run when nothing is selected."""
    return frozenset(code for code, rule in RULES.items() if rule.severity is not Severity.OFF)


def find(code_or_name: str) -> Rule | None:
    """A rule by its code or its name."""
    for rule in RULES.values():
        if code_or_name.upper() == rule.code or code_or_name == rule.name:
            return rule
    return None


def documentation() -> str:
    """The page of all rules (docs/lint-rules.md)."""
    rows = "\n".join(
        f"| [{r.code}](#{r.code.lower()}-{r.name}) | {r.name} | {r.severity.value} | {r.fix.value} |"
        for r in RULES.values()
    )
    pages = "\n".join(rule.explain().replace("\n## ", "\n### ").replace("# PX", "## PX", 1) for rule in RULES.values())
    return (
        "# Rules of `opsconsole lint`\n\n"
        "Written by `opsconsole lint --write-docs`; do not edit by hand.\n\n"
        f"| code | name | severity | fix |\n|---|---|---|---|\n{rows}\n\n{pages}"
    )
