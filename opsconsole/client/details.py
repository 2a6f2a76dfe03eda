"""What is looked at seldom: findings, shared prefixes, budgets of weeks, and the last lines a replica wrote.

It must not be asked every second; each may cost the agent a file or a call. The trap: an older agent has them
not, and says so with a `UsageError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opsconsole.client.reader import AgentReader
from opsconsole.domain.records import BudgetView, PrefixView


class AgentDetails(AgentReader):
    """The reader with what is asked for seldom."""

    async def findings(self) -> tuple[Mapping[str, Any], ...]:
        """What the prompt linter found in the traffic, when the agent was told to look."""
        return tuple((await self._get("/v1/findings"))["items"])

    async def prefixes(self) -> tuple[PrefixView, ...]:
        """Prompt prefixes that many requests share, as the router sees them; empty where nobody tells any."""
        return self._many(PrefixView, await self._get("/v1/prefixes"))

    async def budgets(self) -> tuple[BudgetView, ...]:
        """Objectives over weeks, as far back as minutes are kept; the first question of a long past takes seconds."""
        return self._many(BudgetView, await self._get("/v1/budgets"))

    async def logs(self, replica: str, lines: int = 200) -> tuple[str, ...]:
        """The last lines a replica wrote. Raises `UsageError` where the agent cannot reach its log."""
        found = await self._get("/v1/logs", {"replica": replica, "lines": lines})
        return tuple(str(line) for line in found["lines"])
