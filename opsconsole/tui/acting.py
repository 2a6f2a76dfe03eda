"""A change of the fleet being asked for: target, dry run, what must be typed, the intent, and its end.

It must not know widgets; the dialog shows it. Nothing is done here without a plan of the agent's that the user saw.
The trap: a plan belongs to the number it was made for; when the number is edited, the old plan must not be applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opsconsole.domain.records import AlertView, JournalEntry, Outcome, Plan, PlanKind
from opsconsole.errors import OpsConsoleError, PlanRefused
from opsconsole.tui.session import Session
from opsconsole.tui.viewmodel import lists
from opsconsole.tui.world import World, is_production, main_pool

if TYPE_CHECKING:
    from opsconsole.client.agent import AgentClient

ENDED = ("done", "failed", "refused")
PLANNED = ("scale", "drain", "undrain")
SILENCE_S, MUTE_S = 3600.0, 86_400.0
EVERY_RULE = "*"  # what the agent takes for a silence of whatever fires


@dataclass(slots=True)
class Change:
    """One change, from the first key to its outcome."""

    kind: str  # scale | drain | undrain | pause | resume | pin | silence | mute | maintenance
    pool: str = ""
    replicas: tuple[str, ...] = ()
    number: int | None = None
    rule: str = ""
    reason: str = ""
    production: bool = False
    plan: Plan | None = None
    error: str = ""
    busy: bool = False
    outcome: Outcome | None = None
    sent: bool = False
    facts: tuple[str, ...] = field(default=())

    @property
    def asks_number(self) -> bool:
        return self.kind in ("scale", "pin")

    @property
    def title(self) -> str:
        """What is about to happen to what."""
        target = ", ".join(self.replicas) if self.replicas else self.rule or self.pool or "every pool"
        words = {
            "pause": "Pause automatic scaling of",
            "resume": "Resume automatic scaling of",
            "pin": "Pin a minimum for",
            "silence": "Silence for an hour",
            "mute": "Mute for a day every alert of",
            "maintenance": "Maintenance for an hour on",
        }
        return f"{words.get(self.kind, self.kind.capitalize())} {target}"

    @property
    def word(self) -> str:
        """What has to be typed to confirm: the number, the one replica's last part, else how many."""
        if self.asks_number:
            return "" if self.number is None else str(self.number)
        if len(self.replicas) == 1:
            return self.replicas[0].rsplit("-", 1)[-1]
        return str(len(self.replicas)) if self.replicas else (self.pool or "all")

    @property
    def needs_typing(self) -> bool:
        """Production always asks again; elsewhere only a plan with a warning does."""
        return self.production or (self.plan is not None and bool(self.plan.warnings))

    def missing(self, typed: str) -> str:
        """What still keeps it from being applied, or nothing."""
        if self.sent:
            return "already sent"
        if self.asks_number and self.number is None:
            return "type a number"
        if self.kind in PLANNED:
            if self.busy:
                return "wait for the dry run"
            if self.plan is None:
                return self.error or "no plan yet"
            if self.kind == "scale" and self.plan.to_count != self.number:
                return "wait for the dry run of the new number"
            if self.kind == "scale" and self.plan.from_count == self.number:
                return "that is the size it has"
        if self.needs_typing and typed.strip() != self.word:
            return f"type {self.word} to confirm"
        return ""

    async def ask(self, client: AgentClient) -> None:
        """The dry run. An answer for a number that was edited meanwhile is dropped."""
        self.plan, self.error = None, ""
        if self.kind not in PLANNED or (self.kind == "scale" and self.number is None):
            return
        wanted, self.busy = self.number, True
        try:
            plan = await client.plan(
                PlanKind(self.kind), self.pool, to=self.number, replicas=self.replicas, reason=self.reason
            )
            if wanted == self.number:
                self.plan = plan
        except OpsConsoleError as error:
            if wanted == self.number:
                self.error = str(error)
        finally:
            self.busy = False

    async def apply(self, client: AgentClient, note: str) -> bool:
        """Send it. A refusal is shown, and the dry run made anew for the world as it is now."""
        self.sent, self.error = True, ""
        try:
            if self.kind in PLANNED:
                assert self.plan is not None
                self.outcome = await client.intent(self.plan.plan_id, note or self.reason)
            elif self.kind == "silence":
                await client.silence(self.rule, self.pool, for_s=SILENCE_S, note=note)
            elif self.kind == "mute":
                await client.silence(self.rule, for_s=MUTE_S, note=note)
            elif self.kind == "maintenance":
                for name in self.replicas:
                    await client.silence(EVERY_RULE, f"{self.pool}/{name}", for_s=SILENCE_S, note=note)
            else:
                await client.hold(self.kind, self.pool, minimum=self.number, note=note)
        except OpsConsoleError as error:
            refused = str(error)
            self.sent = False
            if isinstance(error, PlanRefused) and self.kind in PLANNED:
                await self.ask(client)
            self.error = refused
            return False
        return True


def begin(session: Session, kind: str, argument: str) -> Change | str:
    """The change a key or command asks for, or the sentence that says why there is none."""
    snapshot = session.live.snapshot
    if snapshot is None:
        return "there is no fleet yet"
    production = is_production(snapshot.fleet, session.look.production)
    words = argument.split()
    if kind in ("drain", "undrain", "maintenance"):
        return _replicas(session, kind, words, production)
    if kind in ("silence", "mute"):
        return _silence(session, kind, words, production)
    pool = main_pool(snapshot, session.state.selected)
    if words and not words[0].lstrip("+-").isdigit():
        pool = snapshot.pool(words[0])
        if pool is None:
            return f"there is no pool {words[0]}: {', '.join(p.pool for p in snapshot.pools)}"
        words = words[1:]
    if pool is None:
        return "there is no pool"
    if kind == "apply":
        return _advised(session.live, pool.pool, production)
    if kind == "pause_scaling":
        paused = any(hold.kind == "pause" and hold.pool in ("", pool.pool) for hold in session.live.holds)
        return Change("resume" if paused else "pause", pool.pool, production=production)
    size = pool.want if pool.want is not None else pool.ready
    number = _number(words[0], size) if words else (size if kind == "scale" else pool.minimum)
    limits = f"want {size}, ready {pool.ready}   (min {_said(pool.minimum)}, max {_said(pool.maximum)})"
    return Change(kind, pool.pool, number=number, production=production, facts=(limits,))


def _said(number: int | None) -> str:
    return "--" if number is None else str(number)


def _number(word: str, size: int) -> int | None:
    """`9`, or `+1` and `-1` from the size wanted now."""
    try:
        return max(0, size + int(word)) if word[0] in "+-" else int(word)
    except ValueError:
        return None


def _replicas(session: Session, kind: str, words: list[str], production: bool) -> Change | str:
    snapshot = session.live.snapshot
    assert snapshot is not None
    names = tuple(words) or session.chosen()
    full: list[str] = []
    for name in names:
        found = [r for r in snapshot.replicas if r.replica == name] or [
            r for r in snapshot.replicas if name in r.replica
        ]
        if len(found) != 1:
            return f"{name} names {len(found) or 'no'} replicas"
        full.append(found[0].replica)
    if not full:
        return "select or mark a replica first"
    pools = {r.pool for r in snapshot.replicas if r.replica in full}
    if len(pools) > 1:
        return f"the marked replicas are of several pools ({', '.join(sorted(pools))}); one at a time"
    streams = [r.streams for r in snapshot.replicas if r.replica in full and r.streams is not None]
    facts = (f"{sum(streams)} {'stream runs' if sum(streams) == 1 else 'streams run'} there now",) if streams else ()
    return Change(kind, pools.pop(), tuple(full), production=production, facts=facts)


def _silence(session: Session, kind: str, words: list[str], production: bool) -> Change | str:
    """One alert for an hour, or all that its rule finds for a day."""
    if words:
        subject = words[1] if kind == "silence" and len(words) > 1 else ""
        return Change(kind, subject, rule=words[0], production=production)
    found = lists.under_cursor(session.live, session.state)
    if not isinstance(found, AlertView):
        return "the cursor is not on an alert"
    if kind == "silence":
        return Change(kind, found.subject, rule=found.rule, production=production, facts=(found.text,))
    same = sum(alert.rule == found.rule for alert in session.live.alerts)
    facts = (f"{same} {'alert' if same == 1 else 'alerts'} of this rule now",)
    return Change(kind, rule=found.rule, production=production, facts=facts)


def _advised(world: World, pool: str, production: bool) -> Change | str:
    decision = next((d for d in world.decisions if d.pool == pool), None)
    if decision is None or decision.target == decision.current:
        return f"nothing is advised for pool {pool} now"
    facts = (f"advised {decision.current} -> {decision.target}: {decision.reason}",)
    return Change(
        "scale", pool, number=decision.target, reason=f"advised: {decision.reason}", production=production, facts=facts
    )


def progress(change: Change, world: World) -> tuple[str, bool]:
    """How far an applied plan has come, in words, and whether it has ended."""
    plan = change.plan
    if plan is None or change.outcome is None:
        return ("done" if change.sent else ""), change.sent
    last: JournalEntry | None = None
    for entry in world.journal:
        if entry.outcome is not None and entry.outcome.plan_id == plan.plan_id:
            last = entry
    outcome = last.outcome if last is not None and last.outcome is not None else change.outcome
    pool = world.snapshot.pool(change.pool) if world.snapshot else None
    now = f"ready {pool.ready}, warming {pool.warming}, draining {pool.draining}" if pool else ""
    if outcome.status in ENDED:
        cut = f"; {outcome.streams_cut} streams cut" if outcome.streams_cut else ""
        return f"{outcome.status}: {outcome.detail or now}{cut}", True
    return f"{outcome.status}: {now}", False
