"""One table feeds keys, footer, help, palette and commands; nothing else may know an action."""

from __future__ import annotations

import pytest

from opsconsole.tui import actions
from opsconsole.tui.dispatch import HANDLERS
from opsconsole.tui.screens.console import ConsoleScreen
from opsconsole.tui.viewmodel.pages import VIEWS


def test_every_action_has_a_handler_and_every_handler_an_action() -> None:
    assert set(HANDLERS) == set(actions.BY_ID)


def test_ids_and_commands_are_used_once() -> None:
    assert len(actions.BY_ID) == len(actions.ACTIONS)
    assert len(actions.BY_COMMAND) == sum(bool(action.command) for action in actions.ACTIONS)


def test_every_page_is_drawn() -> None:
    assert set(VIEWS) == set(actions.PAGES)


def test_no_key_means_two_things_on_one_screen() -> None:
    assert actions.clashes({}) == []


def test_no_key_collides_with_tmux_screen_or_flow_control() -> None:
    taken = {"ctrl+a", "ctrl+b", "ctrl+j", "ctrl+o", "ctrl+s", "ctrl+z", "ctrl+q", "ctrl+c"}
    assert not taken & {key for action in actions.ACTIONS for key in action.keys}


def test_the_screen_binds_exactly_the_table() -> None:
    bound = {binding.id for binding in ConsoleScreen.BINDINGS if not isinstance(binding, tuple)}
    assert bound == {action.id for action in actions.ACTIONS if action.keys}


def test_what_changes_the_fleet_is_marked() -> None:
    mutating = {action.id for action in actions.ACTIONS if action.mutates}
    assert mutating == {"scale", "drain", "undrain", "apply", "pause_scaling", "pin", "silence", "mute", "maintenance"}


def test_read_only_removes_keys_from_the_footer_instead_of_failing_later() -> None:
    assert ("s", "scale") in actions.footer("fleet", True)
    assert not {"scale", "drain", "apply"} & {label for _, label in actions.footer("fleet", False)}


def test_keys_of_the_user_are_shown_and_checked() -> None:
    assert actions.footer("fleet", True, {"filter": ("f",)})[1] == ("f", "filter")
    assert actions.clashes({"filter": ("o",)}) == [
        "o would mean both filter and sort on the fleet screen",
    ]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("sor", "sort"),
        ("theme c", "theme contrast"),
        ("group no", "group node"),
        ("drain x", "drain x2k"),
        ("scale ", "scale x2k"),
    ],
)
def test_commands_complete(typed: str, first: str) -> None:
    assert actions.complete(typed, ["x2k", "p4m"])[0] == first


def test_a_command_without_arguments_completes_nothing_more() -> None:
    assert actions.complete("why ", ["x2k"]) == []
