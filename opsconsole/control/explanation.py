"""A decision's whole reasoning as plain lines: what was seen, what each rule said, what came of it.

It prints what was journalled and words nothing about the decision itself. The trap: a situation read back from the
journal is plain data of the version that wrote it, so every key is looked up and none is required.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opsconsole.domain.records import DecisionView, JournalEntry

_FIGURES = (
    ("request_rate", "requests/s arrive"),
    ("prompt_rate", "prompt tokens/s"),
    ("output_rate", "output tokens/s"),
    ("waiting_growth", "requests/s queue growth"),
)
SHOWN_LEVELS = (0.5, 0.9, 0.99)


def explain(
    view: DecisionView,
    situation: Mapping[str, Any] | None = None,
    delta: Mapping[str, Any] | None = None,
    after: Sequence[JournalEntry] = (),
) -> Iterator[str]:
    """The lines, most important first."""
    move = f"stays at {view.current}" if view.target == view.current else f"{view.current} -> {view.target}"
    held = ", held" if view.held else ""
    yield f"{view.pool}: {move} ({view.binding}{held})"
    yield f"  {view.reason}"
    if view.drain and view.target < view.current:
        yield f"  to go: {', '.join(view.drain)}"
    if view.trace:
        yield "rules, in the order they were asked:"
    for rule in view.trace:
        wants = "" if rule.wants is None else f", wants {rule.wants}"
        yield f"  {rule.rule:<14} {rule.verdict}{wants}"
        yield f"  {'':<14} {rule.text}"
        if rule.inputs:
            yield f"  {'':<14} from {rule.inputs}"
    if view.counterfactual:
        said = ", ".join(f"{name} {count}" for name, count in sorted(view.counterfactual.items()))
        yield f"others would have said: {said}"
    if situation:
        yield from _situation(situation)
        yield from _outlooks(situation)
    if delta:
        yield f"memory changed: {', '.join(_changed(delta))}"
    if after:
        yield "what came of it:"
        yield from (f"  {entry.text}" for entry in after)
    if view.regret is not None:
        yield f"looking back: {view.regret.text}"


def _situation(data: Mapping[str, Any]) -> Iterator[str]:
    replicas = data.get("replicas") or []
    lead = _number(data.get("lead_s", 120.0))  # the default of a situation, which the wire leaves out
    yield f"what was seen: {len(replicas)} replicas, {data.get('want', '?')} wanted, lead {lead} s"
    demand = data.get("demand") or {}
    told = [f"{_number(demand[name])} {words}" for name, words in _FIGURES if demand.get(name) is not None]
    yield f"  demand: {', '.join(told) if told else 'unknown'}"
    if not data.get("covered"):
        yield "  not every live replica answered"
    for replica in replicas:
        facts = [f"{name} {_number(replica[name])}" for name in ("waiting", "running", "kv_usage") if name in replica]
        yield f"  {replica.get('name', '?'):<16} {replica.get('state', '?'):<10} {', '.join(facts) or 'nothing known'}"


def _outlooks(data: Mapping[str, Any]) -> Iterator[str]:
    """Each forecast that the law was given, at the lead nearest to the decision's own."""
    lead = data.get("lead_s", 120.0)
    outlooks = data.get("outlooks") or {}
    if outlooks:
        yield "what was forecast:"
    for name, told in sorted(outlooks.items()):
        leads, levels, rows = (told.get(key) or [] for key in ("leads", "levels", "quantiles"))
        if not leads or not levels or len(rows) != len(leads):
            continue
        row = min(range(len(leads)), key=lambda i: abs(leads[i] - lead))
        shown = [f"{level:.0%} {_number(rows[row][i])}" for i, level in enumerate(levels) if level in SHOWN_LEVELS]
        yield f"  {name}: {', '.join(shown)} in {leads[row]:.3g} s ({told.get('model') or 'a model without a name'})"
        yield from (f"    {warning}" for warning in told.get("warnings") or [])


def _number(value: Any) -> str:
    return "?" if not isinstance(value, int | float) else f"{value:.4g}"


def _changed(delta: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Names of what changed, as far down as there are names."""
    for name in [*delta.get("set", {}), *(f"-{key}" for key in delta.get("del", ()))]:
        yield f"{above}{name}"
    for name, deeper in delta.get("in", {}).items():
        yield from _changed(deeper, f"{above}{name}.")
