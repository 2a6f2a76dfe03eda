"""Where things go, at any size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.tui.layout import Form, Size, form, scrolled, shares


@pytest.mark.parametrize(
    ("size", "expected"),
    [((1, 1), Form.TINY), ((59, 50), Form.TINY), ((200, 14), Form.TINY), ((60, 15), Form.SMALL), ((80, 24), Form.SMALL),
     ((100, 24), Form.WIDE), ((160, 35), Form.WIDE), ((140, 36), Form.PANELS)],
)  # fmt: skip
def test_a_size_has_one_form(size: tuple[int, int], expected: Form) -> None:
    assert form(Size(*size)) is expected


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 300), st.lists(st.tuples(st.floats(0, 5), st.integers(0, 20)), min_size=1, max_size=5))
def test_shares_use_every_cell_and_no_more(total: int, parts: list[tuple[float, int]]) -> None:
    found = shares(total, [p[0] for p in parts], [p[1] for p in parts])
    assert sum(found) == max(0, total) or sum(p[1] for p in parts) >= total
    assert sum(found) <= max(0, total)
    assert all(cells >= 0 for cells in found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.integers(0, 499), st.integers(0, 500), st.integers(1, 60))
def test_the_cursor_is_always_in_view(top: int, cursor: int, rows: int, visible: int) -> None:
    found = scrolled(top, min(cursor, rows - 1) if rows else None, rows, visible)
    assert 0 <= found <= max(0, rows - visible)
    if rows:
        assert found <= min(cursor, rows - 1) < found + visible


def test_a_list_that_is_seen_whole_does_not_scroll() -> None:
    assert scrolled(7, 3, 8, 20) == 0
