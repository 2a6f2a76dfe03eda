"""Journal entries as lines: time, a word for what happened, and the entry's own text, nothing added.

It must not explain decisions itself; the text was written by the rule that decided. The trap: an applied plan is three
entries (decision, plan, outcome) and only a person's act names a person.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsconsole.domain.records import AlertView, JournalEntry
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left
from opsconsole.tui.world import Look

STYLES = {"decision": "accent", "plan": "accent", "outcome": "good", "replica": "text", "mode": "warn", "note": "text",
          "alert": "warn", "error": "bad", "regret": "dim"}  # fmt: skip


def word(entry: JournalEntry, mode: str = "") -> str:
    """The kind of entry, in capitals: ADVISE, HOLD, SCALE, DONE, REGRET, NOTE..."""
    if entry.kind == "regret":
        return "REGRET"
    if entry.decision is not None:
        decision = entry.decision
        if decision.held or decision.current == decision.target:
            return "HOLD"
        return "ADVISE" if mode == "advise" else "DECIDE"
    if entry.outcome is not None:
        return entry.outcome.status.upper()
    if entry.plan is not None:
        return entry.plan.kind.value.upper()
    return entry.kind.upper()


def change(entry: JournalEntry) -> str:
    """8->9 where a number of replicas changes, 8 where it stays."""
    if entry.decision is not None:
        now, then = entry.decision.current, entry.decision.target
        return f"{now}->{then}" if now != then else str(now)
    plan = entry.plan
    if plan is not None and plan.to_count is not None:
        return f"{plan.from_count}->{plan.to_count}" if plan.from_count is not None else f"->{plan.to_count}"
    return ""


def style(entry: JournalEntry) -> str:
    if entry.outcome is not None and entry.outcome.status in ("failed", "refused"):
        return "bad"
    if entry.kind == "regret" and entry.decision is not None and entry.decision.regret is not None:
        return "bad" if entry.decision.regret.short > 0 else "dim"
    if entry.decision is not None and word(entry) == "HOLD":
        return "dim"
    return STYLES.get(entry.kind, "text")


def line(entry: JournalEntry, look: Look, mode: str = "", pools: bool = False) -> Line:
    """One entry on one line."""
    decided = entry.decision if entry.kind != "regret" else None
    text = decided.reason if decided is not None and decided.reason else entry.text
    who = f" by {clean(entry.who)}" if entry.who not in ("auto", "") else ""
    out = [
        Cell(f" {fmt.clock(entry.at, look.zone)} ", "dim"),
        Cell(left(word(entry, mode), 8), style(entry)),
        Cell(left(change(entry), 6) + " ", "title"),
    ]
    if pools and entry.pool:
        out.append(Cell(f"{clean(entry.pool)}: ", "dim"))
    out += [Cell(clean(text), "text"), Cell(who, "accent")]
    return tuple(out)


def is_decision(entry: JournalEntry) -> bool:
    """Whether an entry belongs to what was decided and done, as against what happened."""
    return entry.decision is not None or entry.plan is not None or entry.outcome is not None or entry.kind == "mode"


def decisions(journal: Sequence[JournalEntry], pool: str | None = None, regrets: bool = True) -> list[JournalEntry]:
    """Newest first: decisions that changed or held something worth saying, and what came of them.

    Of decisions that held the same number one after another, by whatever rule, the newest stands for all.
    """
    picked: list[JournalEntry] = []
    holding: dict[str, int] = {}  # by pool: the number that the entry picked last for it held
    for entry in reversed(journal):
        if (
            not is_decision(entry)
            or (entry.kind == "regret" and not regrets)
            or (pool and entry.pool and entry.pool != pool)
        ):
            continue
        held = _held(entry)
        if held is not None and holding.get(entry.pool) == held:
            continue
        if held is None:
            holding.pop(entry.pool, None)
        else:
            holding[entry.pool] = held
        picked.append(entry)
    return picked


def _held(entry: JournalEntry) -> int | None:
    """The number a decision kept; None for anything else."""
    decision = entry.decision if entry.kind != "regret" else None
    return decision.target if decision is not None and word(entry) == "HOLD" else None


def alert_line(alert: AlertView, look: Look) -> Line:
    """An alert that has not ended."""
    silenced = alert.state == "silenced"
    mark = "x" if silenced else "!" if alert.state == "firing" else "."
    look_style = "dim" if silenced else {"critical": "bad", "warning": "warn"}.get(alert.severity, "text")
    until = f" (silenced by {clean(alert.silenced_by or '?')})" if silenced else ""
    return (
        Cell(f" {mark} {fmt.clock(alert.since, look.zone)} ", look_style),
        Cell(f"{clean(alert.subject)} ", "title"),
        Cell(clean(alert.text) + until, look_style if not silenced else "dim"),
    )
