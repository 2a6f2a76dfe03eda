"""Names to addresses: a resolver that hangs holds up who asked for that name, and nobody else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from opsconsole.observe import resolving
from opsconsole.observe.resolving import Addresses, Resolver


class Names:
    """A resolver by table; what is not in it hangs until the test is over."""

    def __init__(self) -> None:
        self.table: dict[str, Addresses | OSError] = {}
        self.asked: list[str] = []
        self.over = threading.Event()

    def __call__(self, host: str, port: int) -> Addresses:
        self.asked.append(host)
        found = self.table.get(host)
        if found is None:
            self.over.wait()
            return ()
        if isinstance(found, OSError):
            raise found
        return found


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.over.set()


async def test_names_that_hang_take_no_thread_of_anybody_else_and_one_each(names: Names) -> None:
    resolver = Resolver(names)
    names.table["good"] = ("10.0.0.1",)
    hanging = [asyncio.create_task(resolver.addresses(f"dead{n % 10}", 80)) for n in range(60)]
    async with asyncio.timeout(5.0):
        assert await asyncio.to_thread(str, 7) == "7"
        assert await resolver.addresses("good", 80) == ("10.0.0.1",)
    assert sorted(names.asked) == sorted([f"dead{n}" for n in range(10)] + ["good"])
    names.over.set()
    assert await asyncio.gather(*hanging) == [()] * 60
    resolver.close()


async def test_numbers_are_not_looked_up(names: Names) -> None:
    resolver = Resolver(names)
    assert await resolver.addresses("127.0.0.1", 80) == ("127.0.0.1",)
    assert await resolver.addresses("::1", 80) == ("::1",)
    assert names.asked == []


async def test_what_a_name_was_is_good_enough_where_the_resolver_fails_or_is_late(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "LATE_S", 0.01)
    resolver = Resolver(names)
    names.table["engine"] = ("10.0.0.1",)
    assert await resolver.addresses("engine", 80) == ("10.0.0.1",)
    names.table["engine"] = OSError("SERVFAIL")
    assert await resolver.addresses("engine", 80) == ("10.0.0.1",)
    del names.table["engine"]
    assert await resolver.addresses("engine", 80) == ("10.0.0.1",)
    names.over.set()
    resolver.close()


async def test_a_name_that_moves_is_followed_and_one_never_known_fails(names: Names) -> None:
    resolver = Resolver(names)
    names.table |= {"engine": ("10.0.0.1",), "none": socket.gaierror(-2, "Name or service not known")}
    assert await resolver.addresses("engine", 80) == ("10.0.0.1",)
    names.table["engine"] = ("10.0.0.2",)
    assert await resolver.addresses("engine", 80) == ("10.0.0.2",)
    with pytest.raises(socket.gaierror):
        await resolver.addresses("none", 80)
    resolver.close()


async def test_who_gives_up_waiting_does_not_take_the_answer_from_the_others(names: Names) -> None:
    resolver = Resolver(names)
    first, second = (asyncio.create_task(resolver.addresses("late", 80)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    names.over.set()
    assert await second == ()
    assert first.cancelled() and names.asked == ["late"]
    resolver.close()


def test_the_system_s_resolver_gives_numbers_once_each() -> None:
    found = resolving.lookup("127.0.0.1", 80)
    assert found == ("127.0.0.1",)
    assert set(resolving.lookup("localhost", 80)) <= {"127.0.0.1", "::1"}
