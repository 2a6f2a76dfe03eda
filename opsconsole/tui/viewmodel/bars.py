"""The first line (what is shown and can it be trusted) and the last (keys), the same on every screen.

It must not look at replicas. The trap: trust comes before identity when there is no room, so a narrow line drops the
fleet's name and not the word LOST.
"""

from __future__ import annotations

from opsconsole.domain.records import FleetSnapshot, ReplicaState
from opsconsole.tui import actions
from opsconsole.tui import format as fmt
from opsconsole.tui.cells import Cell, Line, clean, cut, fit, line_width, spread, width
from opsconsole.tui.state import ViewState
from opsconsole.tui.world import LinkState, Look, World, can_change, is_production

NARROW = 72  # below, labels stand before the counts, which are cut instead of them
LATE = 3.0  # intervals without a tick before LIVE is doubted


def moment(world: World, state: ViewState, look: Look) -> list[Cell]:
    """LIVE, PAUSED, PAST, LOST or CONNECTING, with the time shown and how old it is."""
    snapshot, link = world.snapshot, world.link
    if snapshot is None:
        return [Cell(link.state.value, "warn" if link.state is not LinkState.LOST else "bad")]
    shown = fmt.clock(snapshot.at, look.zone)
    late = look.now - snapshot.at
    if any("REPLAY" in note for note in snapshot.notes):
        late = 0.0 if world.received_at is None else look.now - world.received_at  # its time is not this machine's
    if state.at is not None:
        return [Cell(f"PAST {shown} (-{fmt.span(max(0.0, late))})", "demo")]
    if state.paused:
        return [Cell(f"PAUSED {shown} (-{fmt.span(max(0.0, late))})", "demo")]
    if link.state is not LinkState.LIVE:
        return [Cell(f"{link.state.value} {shown} ({fmt.span(max(0.0, late))} old)", "bad")]
    if late > max(LATE * snapshot.interval, 3.0):
        return [Cell(f"LATE {shown} ({fmt.span(late)} old)", "warn")]
    return [Cell(f"LIVE {shown}", "live")]


def sources(snapshot: FleetSnapshot) -> Cell:
    """How many replicas answer, and what is wrong with the others; a source that failed altogether comes first."""
    failed = [source for source in snapshot.sources if not source.ok]
    if not snapshot.sources:
        return Cell("src none", "warn")
    stale = sum(replica.state is ReplicaState.STALE for replica in snapshot.replicas)
    down = sum(replica.state is ReplicaState.DOWN for replica in snapshot.replicas)
    total = len(snapshot.replicas)
    if failed and not total:
        return Cell(f"src {clean(failed[0].name)} fails", "bad")
    wrong = [f"{number} {word}" for number, word in ((stale, "stale"), (down, "down")) if number]
    style = "text" if not wrong else "bad" if stale + down == total else "warn"
    return Cell(" ".join([f"src {total - stale - down}/{total}", *wrong]), style)


def may_change(world: World, state: ViewState, look: Look) -> bool:
    """Whether an action could really go through: never from a past or paused screen."""
    return state.at is None and not state.paused and can_change(world, look)


def rights(world: World, state: ViewState, look: Look) -> Cell:
    """RW only when an action could really go through."""
    return Cell("RW", "warn") if may_change(world, state, look) else Cell("RO", "dim")


def labels(snapshot: FleetSnapshot, look: Look) -> list[Cell]:
    """REC, DEMO, REPLAY and PROD: what must never be overlooked."""
    found = [Cell(f" {word} ", "demo") for word in ("DEMO", "REPLAY") if any(word in n.upper() for n in snapshot.notes)]
    if look.recording:
        found.insert(0, Cell(" REC ", "demo"))
    if is_production(snapshot.fleet, look.production):
        found.append(Cell(" PROD ", "demo"))
    return found


def mode(world: World, snapshot: FleetSnapshot) -> Cell:
    """What the agent does by itself: its mode, or PAUSED where somebody has stopped it in every pool."""
    paused = {hold.pool for hold in world.holds if hold.kind == "pause"}
    if "" in paused or (snapshot.pools and all(pool.pool in paused for pool in snapshot.pools)):
        return Cell("PAUSED", "warn")
    return Cell(snapshot.mode.upper(), "accent")


def header(world: World, state: ViewState, look: Look, cells: int, title: str = "") -> Line:
    """Line 1: identity and trust."""
    snapshot = world.snapshot
    now = moment(world, state, look)
    if snapshot is None:
        return spread((Cell("opsconsole", "title"), Cell(f"  {clean(world.link.address)}", "dim")), now, cells)
    model = snapshot.pools[0].model if len(snapshot.pools) == 1 and snapshot.pools[0].model else ""
    name = clean(f"{snapshot.fleet}/{model}" if model else snapshot.fleet)
    marked = [part for label in labels(snapshot, look) for part in (Cell(" "), label)]
    trust: list[Cell] = [*now, *(marked if cells < NARROW else ()), Cell("  "), sources(snapshot), Cell("  ")]
    trust += [mode(world, snapshot), Cell("  "), rights(world, state, look)]
    trust += marked if cells >= NARROW else []
    brand = [Cell("opsconsole", "title"), Cell("  ")] if cells >= 100 else []
    room = cells - line_width(trust) - line_width(brand) - 2
    screen = _title(state, title, room - min(width(name), 20))
    room -= line_width(screen)
    who = Cell(name if width(name) <= room else cut(name, max(0, room - 1)) + "~" if room > 1 else "", "title")
    return spread((*brand, who, *screen), (*trust,), cells)


def _title(state: ViewState, title: str, room: int) -> list[Cell]:
    """The screen's name, with the ones it was reached through where there is room."""
    if not title or width(title) + 2 > room:
        return []
    way = " > ".join(page for page in state.before[-2:] if page != state.page)
    if way and width(way) + 5 + width(title) <= room:
        return [Cell(f"  {way} > ", "dim"), Cell(title, "head")]
    return [Cell(f"  {title}", "head")]


def foot(world: World, state: ViewState, look: Look, cells: int) -> Line:
    """The last line: a message while there is one, else the keys that work here."""
    if state.message and look.now < state.message_until:
        return fit((Cell(" " + clean(state.message), "warn"),), cells)
    line: list[Cell] = []
    used = 0
    for key, label in actions.footer(state.page, may_change(world, state, look), look.keys):
        size = width(key) + width(label) + 3
        if used + size > cells:
            break
        line += [Cell(f" {key}", "key"), Cell(f" {label} ", "dim")]
        used += size
    return fit(line, cells)
