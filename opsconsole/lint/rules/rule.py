"""One rule as a value: what it finds, why that costs, an example, the fix and its limits.

Knows no detection. The trap: the words here are the documentation and the SARIF help, so a change shows thrice.
"""

from __future__ import annotations

from dataclasses import dataclass

from opsconsole.lint.model import FixKind, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the linter and the text that explains it."""

    code: str
    name: str
    severity: Severity
    fix: FixKind
    summary: str
    why: str
    bad: str
    good: str
    how: str
    limits: str

    def explain(self) -> str:
        """The page that `--explain` prints."""
        fixable = {
            FixKind.NONE: "No automatic fix.",
            FixKind.SAFE: "`--fix` applies it: the prompt says the same.",
            FixKind.UNSAFE: "`--fix --unsafe-fixes` applies it: text moves, so read the diff.",
        }[self.fix]
        return (
            f"# {self.code} {self.name}\n\nDefault severity: {self.severity.value}. {fixable}\n\n"
            f"## What it finds\n\n{self.summary}\n\n## Why it costs\n\n{self.why}\n\n"
            f"## Example\n\nBefore:\n\n```\n{self.bad}\n```\n\nAfter:\n\n```\n{self.good}\n```\n\n"
            f"## How to fix it\n\n{self.how}\n\n## Limits\n\n{self.limits}\n"
        )


E_, W_, I_, O_ = Severity.ERROR, Severity.WARNING, Severity.INFO, Severity.OFF
N, S, U = FixKind.NONE, FixKind.SAFE, FixKind.UNSAFE
