"""The search for the highest passing rate, against servers whose knee is known."""

from __future__ import annotations

import pytest

from opsconsole.bench.knee import find_knee


@pytest.mark.parametrize("knee", [0.11, 0.9, 2.7, 14.0])
async def test_the_bracket_closes_in_on_the_knee(knee: float) -> None:
    async def passes(rate: float) -> bool:
        return rate <= knee

    found = await find_knee(passes, 1.0, steps=12)
    assert found.passed is not None and found.failed is not None
    assert found.passed <= knee < found.failed
    assert found.failed / found.passed < 1.25


async def test_a_server_that_never_passes_has_no_knee() -> None:
    tried: list[float] = []

    async def passes(rate: float) -> bool:
        tried.append(rate)
        return False

    found = await find_knee(passes, 1.0, steps=20)
    assert found.passed is None and found.failed is not None
    assert tried == sorted(tried, reverse=True) and min(tried) >= 0.05
