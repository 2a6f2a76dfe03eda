"""Why: the explanation of what is selected, with where each number comes from and how old it is.

It must not reason; it prints reasons that others wrote (a state's `why`, a decision's trace). The trap: a decision is
explained as it was made, from its own trace, not from the fleet as it is now.
"""

from __future__ import annotations

from opsconsole.domain.records import AlertView, DecisionView, JournalEntry, RegretView, ReplicaView, RuleTrace
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, left, plain, right, wrap
from opsconsole.tui.state import ViewState
from opsconsole.tui.viewmodel import lists, outlook
from opsconsole.tui.world import Look, World


def lines(world: World, state: ViewState, look: Look, cells: int) -> list[Line]:
    """The explanation for a panel of this width."""
    if state.page in lists.PLAIN:
        entry = lists.under_cursor(world, state)
        if isinstance(entry, JournalEntry):
            return of_entry(entry, world, look, cells)
        if isinstance(entry, AlertView):
            return of_alert(entry, look, cells)
    snapshot = world.snapshot
    replica = snapshot.replica(state.selected or "") if snapshot else None
    if replica is None:
        return [(Cell("Nothing is selected.", "dim"),)]
    out = of_replica(replica, world, look, cells)
    decision = next((d for d in world.decisions if d.pool == replica.pool), None)
    if decision is not None:
        out += [(), (Cell(f"The newest decision about pool {clean(replica.pool)}:", "head"),)]
        out += of_decision(decision, look, cells, whole=True)
    return out


def of_replica(replica: ReplicaView, world: World, look: Look, cells: int) -> list[Line]:
    """A replica: state, reason, numbers with their source."""
    out: list[Line] = [
        (Cell(clean(replica.replica), "title"), Cell(f"  {replica.state.value}", replica.state.value)),
        *_text(f"because {replica.why or 'no reason was given'}", cells, "text"),
    ]
    if replica.error:
        out += _text(replica.error, cells, "bad")
    age = f"{fmt.span(replica.age)} old" if replica.age is not None else "age unknown"
    page = f"read from {replica.url or 'its source'} at {fmt.clock(replica.seen_at, look.zone)}, {age}"
    out += _text(page, cells, "dim")
    if replica.flags:
        out += _text("flags: " + ", ".join(replica.flags), cells, "warn")
    out += [(), (Cell("where its numbers come from", "head"),)]
    slo = fmt.share(replica.attainment)
    for name, value, source in (
        ("queue", fmt.count(replica.waiting), "gauge: requests that wait for a place in the batch"),
        ("running", fmt.count(replica.running), "gauge: requests in the batch"),
        ("KV", f"{fmt.percent(replica.kv_usage, 1)}%", "gauge: share of KV blocks in use, the fullest rank"),
        ("preempt", f"{fmt.per_minute(replica.preempt_rate)}/m", "counter over the window"),
        ("ttft p95", fmt.latency(replica.ttft.p95, replica.ttft.lower_bound), _histogram(replica.ttft.count)),
        ("tpot p95", fmt.latency(replica.tpot.p95, replica.tpot.lower_bound), _histogram(replica.tpot.count)),
        ("SLO", slo, _attainment(replica)),
        ("hit rate", f"{fmt.percent(replica.hit_rate)}%", "cached tokens of prompt tokens, over the window"),
    ):
        out += _fact(name, value, source, cells)
    if replica.sample is not None:
        for field, reason in replica.sample.unknown:
            out += _fact(field, fmt.MISSING, reason, cells)
    return out


def of_decision(decision: DecisionView, look: Look, cells: int, whole: bool = False, others: bool = True) -> list[Line]:
    """A decision: the rule table as the rules wrote it; `whole` cuts nothing and adds each rule's own sentence.

    Without `others`, what other laws would have decided is left to whoever shows it beside.
    """
    word = "HOLD" if decision.held or decision.current == decision.target else "SCALE"
    out: list[Line] = [
        (Cell(f"{fmt.clock(decision.at, look.zone)} {word} {decision.current} -> {decision.target}", "title"),
         Cell(f"   bound by {clean(decision.binding)}", "accent")),
        *_text(decision.reason, cells, "text"),
    ]  # fmt: skip
    inputs = max(10, min(44, cells - 36))
    out.append((Cell(left("rule", 13) + left("input", inputs) + right("wants", 6) + "  verdict", "dim"),))
    for rule in decision.trace:
        out += _rule(rule, inputs, cells, whole)
    for words, count in decision.counterfactual.items() if others else ():
        out.append((Cell(f"{count} {clean(words)}", "dim"),))
    known = decision.capacity is not None or decision.lead is not None
    if known:
        of_one = outlook.capacity_words(decision, decision.current)
        behind = (of_one, outlook.lead_words(decision), outlook.supply_words(decision, look))
        out += _text("; ".join(words for words in behind if words), cells, "dim")
    if decision.regret is not None:
        out += _text(
            f"afterwards: {regret_text(decision.regret)}", cells, "bad" if decision.regret.short > 0 else "text"
        )
    if decision.drain:
        out += _text(f"would drain first: {', '.join(decision.drain)}", cells, "text")
    return out


def _rule(rule: RuleTrace, inputs: int, cells: int, whole: bool) -> list[Line]:
    """One rule: a row, or as many lines as its inputs take."""
    binding = rule.verdict.upper().startswith(("BIND", "FIRED", "RAISES", "CAPS"))
    said = clean(rule.inputs or rule.text)
    first, *rest = wrap(said, inputs - 1) if whole else [said]
    out: list[Line] = [(
        Cell(left(clean(rule.rule), 12) + " "),
        Cell(left(first, inputs - 1) + " ", "text"),
        Cell(right("-" if rule.wants is None else str(rule.wants), 6) + "  ", "title"),
        Cell(clean(rule.verdict), "warn" if binding else "dim"),
    )]  # fmt: skip
    out += [(Cell(" " * 13), Cell(piece, "text")) for piece in rest]
    if whole and rule.text and rule.text != rule.inputs:
        out += [(Cell(" " * 13), Cell(piece, "dim")) for piece in wrap(clean(rule.text), cells - 14)]
    return out


def regret_text(regret: RegretView) -> str:
    """What the decision should have been."""
    if regret.text:
        return regret.text
    gap = f"{regret.short} too few" if regret.short > 0 else f"{-regret.short} too many" if regret.short else "right"
    return f"{regret.needed} were needed, {regret.target} decided: {gap}"


def of_entry(entry: JournalEntry, world: World, look: Look, cells: int) -> list[Line]:
    """A line of the journal, with whatever hangs on it."""
    if entry.decision is not None:
        return of_decision(entry.decision, look, cells, whole=True)
    out: list[Line] = [
        (Cell(f"{fmt.clock(entry.at, look.zone)} {entry.kind.upper()}", "title"),
         Cell(f"  by {clean(entry.who)}", "accent")),
        *_text(entry.text, cells, "text"),
    ]  # fmt: skip
    plan, outcome = entry.plan, entry.outcome
    if plan is not None:
        out += _text(f"plan {plan.plan_id}: {plan.effect}", cells, "text")
        if plan.streams_at_risk is not None:
            out += _text(f"{plan.streams_at_risk} streams at risk when it was made", cells, "text")
        for warning in plan.warnings:
            out += _text(f"! {warning}", cells, "warn")
    if outcome is not None:
        out += _text(f"{outcome.status}: {outcome.detail}  ({outcome.streams_cut} streams cut)", cells, "text")
    return out


def of_alert(alert: AlertView, look: Look, cells: int) -> list[Line]:
    """An alert."""
    return [
        (Cell(f"{clean(alert.rule)}  {alert.state}", "title"), Cell(f"  {clean(alert.subject)}", "accent")),
        *_text(alert.text, cells, "text"),
        (Cell(f"since {fmt.clock(alert.since, look.zone)}, {alert.severity}", "dim"),),
    ]


def as_text(world: World, state: ViewState, look: Look) -> str:
    """The same as plain text, for the clipboard."""
    return "\n".join(plain(line).rstrip() for line in lines(world, state, look, 100))


def _attainment(replica: ReplicaView) -> str:
    """How the share that met both bounds is known."""
    counted = replica.sample is not None and replica.sample.slo_outcomes is not None
    if replica.attainment is None:
        return "nothing ended in the window" if counted else "no objective, or no requests in the window"
    if counted:
        return "exact: the engine counts the requests that met every bound"
    if replica.attainment.exact:
        return "exact: TTFT and TPOT leave no doubt about the two together"
    return "a bound: the engine exports TTFT and TPOT apart"


def _histogram(count: float | None) -> str:
    return (
        f"histogram over the window, {fmt.count(count)} requests"
        if count is not None
        else "histogram; none in the window"
    )


def _fact(name: str, value: str, source: str, cells: int) -> list[Line]:
    room = max(10, cells - 22)
    first, *rest = wrap(clean(source), room)
    out: list[Line] = [(Cell(left(clean(name), 10), "dim"), Cell(right(value, 9) + "   "), Cell(first, "dim"))]
    out += [(Cell(" " * 22), Cell(more, "dim")) for more in rest]
    return out


def _text(text: str, cells: int, style: str) -> list[Line]:
    return [(Cell(piece, style),) for piece in wrap(clean(text), cells)]
