"""Keys to choices, without a terminal: each action against the session it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC

import pytest

from opsconsole.clock import ManualClock
from opsconsole.domain.records import FleetSnapshot
from opsconsole.tui import actions, dispatch
from opsconsole.tui.layout import Size
from opsconsole.tui.recording import Recording
from opsconsole.tui.session import Session
from opsconsole.tui.world import Link, LinkState, Look, World

AT = 1_764_504_271.4
X2K, P4M, DZ9 = "llama-8b-7d9-x2k", "llama-8b-7d9-p4m", "llama-8b-7d9-dz9"


@dataclass
class Recorder:
    """A shell that writes down what was asked of it."""

    session: Session
    recording: Recording
    asked: list[tuple[str, str]] = field(default_factory=list)

    def ask_line(self, kind: str) -> None:
        self.asked.append(("line", kind))

    def open_panel(self, name: str) -> None:
        self.asked.append(("panel", name))

    def plan(self, kind: str, argument: str) -> None:
        self.asked.append((kind, argument))

    def travel(self, how: str, argument: str) -> None:
        self.asked.append((how, argument))

    def set_theme(self, name: str) -> None:
        self.asked.append(("theme", name))

    def copy_to_clipboard(self, text: str) -> None:
        self.asked.append(("copy", text))

    def export(self, path: str) -> None:
        self.asked.append(("export", path))

    def exit(self, result: int | None = None) -> None:
        self.asked.append(("leave", ""))


@pytest.fixture
def shell(world: World) -> Recorder:
    session = Session(ManualClock(AT), Look(zone=UTC, now=AT))
    session.live = world
    session.frame(Size(80, 24))
    return Recorder(session, Recording(session, None))


def do(shell: Recorder, *ids: str) -> Session:
    for action in ids:
        dispatch.perform(shell, action)
        shell.session.frame(Size(80, 24))
    return shell.session


def test_the_most_urgent_row_is_selected_at_first(shell: Recorder) -> None:
    assert shell.session.state.selected == X2K


def test_moving_goes_by_the_order_on_the_screen(shell: Recorder) -> None:
    assert do(shell, "down").state.selected == DZ9
    assert do(shell, "down", "up", "up", "up").state.selected == X2K
    assert do(shell, "last").state.selected == "llama-8b-7d9-bc7"
    assert do(shell, "first").state.selected == X2K


def test_order_is_frozen_for_a_moment_after_moving(shell: Recorder) -> None:
    session = do(shell, "down")
    assert session.state.frozen_until == pytest.approx(AT + 3)


def test_enter_goes_in_and_escape_comes_out(shell: Recorder) -> None:
    assert do(shell, "open").state.page == "replica"
    assert do(shell, "next").state.selected == DZ9
    assert do(shell, "previous").state.selected == X2K
    assert do(shell, "back").state.page == "fleet"


def test_what_the_filter_hides_is_neither_explained_nor_acted_on(shell: Recorder) -> None:
    session = shell.session
    session.change(selected=X2K, filter="p4m")
    assert session.chosen() == ()  # typed ahead of the next frame
    session.frame(Size(80, 24))
    assert (session.state.selected, session.chosen()) == (P4M, (P4M,))
    session.change(filter="no-such-name")
    session.frame(Size(80, 24))
    assert session.chosen() == ()


def test_escape_first_clears_the_filter_then_the_marks(shell: Recorder) -> None:
    session = do(shell, "mark")
    session.change(filter="st:hot")
    assert do(shell, "back").state.filter == "" and session.state.marks
    assert do(shell, "back").state.marks == frozenset()


def test_minus_returns_to_the_screen_before(shell: Recorder) -> None:
    assert do(shell, "page_slo", "page_caches", "last_page").state.page == "slo"


def test_sort_walks_the_columns_and_turns(shell: Recorder) -> None:
    assert do(shell, "sort").state.sort == "replica"
    assert do(shell, "reverse").state.reverse
    dispatch.run_command(shell, "sort kv asc")
    assert (shell.session.state.sort, shell.session.state.reverse) == ("kv", True)
    dispatch.run_command(shell, "sort colour")
    assert "cannot sort by colour" in shell.session.state.message


def test_group_wide_columns_and_glyphs(shell: Recorder) -> None:
    assert do(shell, "group").state.group == "pool"
    assert do(shell, "wide").state.wide
    dispatch.run_command(shell, "columns replica,kv,out")
    assert list(shell.session.state.columns) == ["replica", "kv", "out"]
    dispatch.run_command(shell, "columns colour")
    assert "no column colour" in shell.session.state.message
    dispatch.run_command(shell, "columns default")
    assert not shell.session.state.columns
    dispatch.run_command(shell, "glyphs ascii")
    assert shell.session.look.glyphs.name == "ascii"


def test_marks_are_what_an_action_takes_but_only_while_they_are_shown(shell: Recorder) -> None:
    session = do(shell, "mark", "mark")
    assert set(session.chosen()) == {X2K, DZ9}
    session.change(filter="st:sat")
    session.frame(Size(80, 24))
    assert list(session.chosen()) == [X2K]
    assert do(shell, "unmark").state.marks == frozenset()


def test_pause_holds_the_world_and_again_lets_go(shell: Recorder, make_snapshot: Callable[..., FleetSnapshot]) -> None:
    session = do(shell, "pause")
    held = session.shown
    session.live = replace(session.live, snapshot=make_snapshot((), tick=9))
    assert session.shown is held and session.state.paused
    assert do(shell, "pause").shown is session.live


@pytest.mark.parametrize("action", [a.id for a in actions.ACTIONS if a.mutates])
def test_nothing_mutates_when_the_agent_lets_nothing_through(action: str, shell: Recorder) -> None:
    snapshot = shell.session.live.snapshot
    assert snapshot is not None
    shell.session.live = replace(shell.session.live, snapshot=replace(snapshot, can_act=False))
    for page in actions.PAGES:
        shell.session.change(page=page)
        dispatch.perform(shell, action, "x2k")
        dispatch.run_command(shell, f"{actions.BY_ID[action].command} x2k 3")
    assert shell.asked == []
    assert "read-only" in shell.session.state.message


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda s: setattr(s, "look", replace(s.look, read_only=True)), "this console is read-only"),
        (lambda s: s.hold(replace(s.live)), "this is not live"),
        (lambda s: setattr(s, "live", replace(s.live, link=Link(LinkState.LOST))), "no agent answers"),
    ],
)
def test_nothing_mutates_from_where_it_must_not(spoil: Callable[[Session], object], said: str, shell: Recorder) -> None:
    spoil(shell.session)
    dispatch.perform(shell, "scale")
    assert shell.asked == [] and said in shell.session.state.message


def test_an_action_of_another_screen_says_where_it_works(shell: Recorder) -> None:
    do(shell, "page_slo", "mark")
    assert "mark works on the fleet screen" in shell.session.state.message


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("scale chat 9", ("scale", "chat 9")), ("drain x2k", ("drain", "x2k")), ("theme cvd", ("theme", "cvd")),
        ("at 12:01", ("at", "12:01")),
        ("export out", ("export", "out")), ("q", ("leave", "")), ("help", ("panel", "help")), ("why", ("panel", "why")),
    ],
)  # fmt: skip
def test_a_command_is_the_action_with_its_words(command: str, asked: tuple[str, str], shell: Recorder) -> None:
    dispatch.run_command(shell, command)
    assert shell.asked == [asked]


SAID = [
    ("sort kv", "rows by KV"), ("reverse", "rows by RISK, turned round"), ("wide", "more columns"),
    ("columns replica,kv", "columns: replica, kv"), ("columns default", "the layout's own columns"),
    ("columns ,,,", "no column is named: replica"), ("columns", ""), ("filter", ""), ("filter kv>90", "filter: kv>90"),
    ("filter -", "no filter"), ("group pool", "grouped by pool"), ("group none", "no groups"), ("mark", "marked: 1"),
    ("mark nobody", "no row is called nobody"), ("unmark", "marked: nothing"), ("panels", "the table alone"),
    ("pause", "the screen stands still"), ("maximise demand", ""),
    ("fleet", "this is the fleet screen already"), ("last", "this is the fleet screen already"),
    ("back", "asking the agent"), ("at 12:01", "asking the agent"), ("glyphs ascii", "glyphs: ascii"),
    ("slo", ""), ("why", ""), ("scale", ""), ("copy", "copied through"),
    ("next", "next works on the replica screen"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "said"), SAID, ids=[command for command, _ in SAID])
def test_a_command_is_answered_at_once_and_never_by_what_was_said_before(
    command: str, said: str, shell: Recorder
) -> None:
    shell.session.say("what was said before")
    dispatch.run_command(shell, command)
    assert shell.session.state.message.startswith(said)
    assert bool(said) is bool(shell.session.state.message)


def test_every_command_has_an_answer_or_opens_something(shell: Recorder) -> None:
    start = shell.session.state
    for action in actions.BY_COMMAND.values():
        for page in actions.PAGES:
            shell.asked.clear()
            shell.session.hold(None)
            shell.session.state = start.having(page=page, message="what was said before")
            dispatch.run_command(shell, action.command)
            state = shell.session.state
            assert "said before" not in state.message
            screen = (page, start.maximised)
            assert state.message or shell.asked or (state.page, state.maximised) != screen, (action.command, page)


def test_what_has_the_screen_already_is_said(shell: Recorder) -> None:
    for said in ("", "demand has the screen already"):
        dispatch.run_command(shell, "maximise demand")
        assert (shell.session.state.maximised, shell.session.state.message) == ("demand", said)


def test_an_unknown_command_is_named(shell: Recorder) -> None:
    dispatch.run_command(shell, "fly me")
    assert ":fly is no command" in shell.session.state.message
    dispatch.run_command(shell, "e")
    assert "did you mean" in shell.session.state.message


def test_open_by_name_finds_a_part_of_it(shell: Recorder) -> None:
    dispatch.run_command(shell, "open p4m")
    assert (shell.session.state.page, shell.session.state.selected) == ("replica", P4M)
    dispatch.run_command(shell, "open nobody")
    assert "no replica is called nobody" in shell.session.state.message


def test_a_replica_that_goes_away_hands_the_cursor_to_its_neighbour(shell: Recorder) -> None:
    session = do(shell, "down", "down")
    gone = session.state.selected
    snapshot = session.live.snapshot
    assert snapshot is not None and gone == P4M
    left = tuple(r for r in snapshot.replicas if r.replica != gone)
    session.live = replace(session.live, snapshot=replace(snapshot, replicas=left))
    session.frame(Size(80, 24))
    assert session.state.selected == "llama-8b-7d9-q8t"


def test_copy_gives_the_row_and_where_its_numbers_come_from(shell: Recorder) -> None:
    do(shell, "copy")
    kind, text = shell.asked[0]
    assert kind == "copy" and X2K in text and "waiting 16 > 0" in text and "gauge" in text


def test_lists_of_entries_have_a_cursor_of_their_own(shell: Recorder) -> None:
    session = do(shell, "page_events", "down", "down")
    assert session.state.cursor("events") == 2
    assert do(shell, "last").state.cursor("events") == 8
    assert session.state.selected == X2K
