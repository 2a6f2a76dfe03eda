"""Hashes of prefixes and guesses of tokens, as the router uses them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsconsole.local.prefixes import CHUNKS_MOST, estimated_tokens, prefix_hashes, tenant_salt


def test_equal_beginnings_share_hashes_up_to_where_they_part() -> None:
    first = prefix_hashes({"prompt": "a" * 1000 + "x" * 600}, "s")
    second = prefix_hashes({"prompt": "a" * 1000 + "y" * 600}, "s")
    assert first[:3] == second[:3]
    assert not set(first[3:]) & set(second[3:])


def test_a_chunk_is_known_by_everything_before_it() -> None:
    first = prefix_hashes({"prompt": "a" * 256 + "same" * 64}, "s")
    second = prefix_hashes({"prompt": "b" * 256 + "same" * 64}, "s")
    assert len(first) == 2 and not set(first) & set(second)


def test_tenants_share_nothing() -> None:
    body = {"prompt": list(range(640))}
    ours, theirs = (prefix_hashes(body, tenant_salt(b"secret", key)) for key in ("key-a", "key-b"))
    assert len(ours) == 10 and not set(ours) & set(theirs)


def test_a_salt_cannot_be_computed_without_the_secret() -> None:
    assert tenant_salt(b"one", "key") != tenant_salt(b"two", "key")
    assert tenant_salt(b"one", "key") == tenant_salt(b"one", "key")


def test_messages_share_their_system_prompt() -> None:
    system = {"role": "system", "content": "be kind " * 100}
    first = prefix_hashes({"messages": [system, {"role": "user", "content": "hi"}]}, "s")
    second = prefix_hashes({"messages": [system, {"role": "user", "content": "ho"}]}, "s")
    assert len(first) >= 3 and first[:3] == second[:3]


def test_hashes_are_bounded() -> None:
    assert len(prefix_hashes({"prompt": "z" * 1_000_000}, "s")) == CHUNKS_MOST


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"prompt": [1] * 100, "max_tokens": 20}, 120),
        ({"prompt": "x" * 400, "max_tokens": 20}, 120),
        ({"prompt": "x" * 400}, 164),
        ({"prompt": "", "max_tokens": True}, 64),
        ({"prompt": "", "max_tokens": -5}, 64),
        ({"max_completion_tokens": 7, "prompt": ""}, 7),
    ],
)
def test_tokens_are_guessed_without_a_tokenizer(body: dict[str, object], tokens: float) -> None:
    assert estimated_tokens(body) == tokens


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["prompt", "messages", "max_tokens", "tools"]),
        st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    )
)
def test_whatever_a_client_sends_is_no_reason_to_fail(body: dict[str, object]) -> None:
    assert isinstance(prefix_hashes(body, "s"), tuple)
    assert estimated_tokens(body) > 0
