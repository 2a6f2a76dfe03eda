"""A difference put back gives what there was."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.control.delta import difference, patched

trees: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
roots = st.dictionaries(st.sampled_from("abcd"), trees, max_size=4)


@settings(max_examples=60, deadline=None)
@given(roots, roots)
def test_patching_with_the_difference_gives_the_second(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert patched(before, difference(before, after)) == after


def test_nothing_changed_is_an_empty_difference_and_null_is_not_absence() -> None:
    assert difference({"a": {"b": 1}}, {"a": {"b": 1}}) == {}
    assert difference({}, {"a": None}) == {"set": {"a": None}}
    assert difference({"a": None}, {}) == {"del": ["a"]}
    assert difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == {"in": {"a": {"del": ["c"]}}}
