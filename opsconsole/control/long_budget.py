"""The error budgets of 30 days, read once from the minutes in the database and then kept up with.

It must not read them all at once: a month is 43,000 lines. The trap: hours are dropped as they grow too old, so a sum
is never taken off again, which would drift.
"""

from __future__ import annotations

from opsconsole.domain import budget
from opsconsole.domain.records import BudgetView, FleetSnapshot
from opsconsole.history.reader import Reader

HOUR_S = 3600.0


class LongBudget:
    """Sums by the hour."""

    def __init__(self) -> None:
        self._hours: dict[int, dict[budget.Key, budget.Spent]] = {}
        self._until: float | None = None  # minutes before it are counted

    def catch_up(self, reader: Reader, now: float) -> bool:
        """Count a day's minutes at most, of those that ended before `now`; whether all are counted."""
        if self._until is None:
            bounds = reader.bounds()
            self._until = max(now - budget.MONTH_S, now if bounds is None else bounds.first)
        until = min(now, self._until + budget.DAY_S)
        for totals in reader.totals(self._until, until):
            hour = int(totals.at // HOUR_S)
            self._hours[hour] = budget.together((self._hours.get(hour, {}), budget.of_minute(totals)))
        self._until = max(self._until, until)
        for hour in [hour for hour in self._hours if hour < (now - budget.MONTH_S) // HOUR_S]:
            del self._hours[hour]
        return self._until >= now

    def views(self, newest: FleetSnapshot) -> tuple[BudgetView, ...]:
        """The budgets of the objectives there are now."""
        return budget.views(budget.together(self._hours.values()), newest)
