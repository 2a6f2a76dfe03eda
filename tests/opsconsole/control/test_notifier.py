"""Alerts reach a webhook, an Alertmanager and a command: once, again after a failure, and never in another's way."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from opsconsole.clock import SystemClock
from opsconsole.control.notifier import AGAIN_S, SETTLE_S, Notifier, NotSent, deliver, host
from opsconsole.control.notify import Notice, alertmanager, document, follow, wanted
from opsconsole.control.settings import Channel
from opsconsole.domain.records import AlertView

AT = 1_764_504_271.0
DOWN = AlertView("replica-down", "chat/r0", "firing", AT - 20, "r0 is down: refused", "warning")
BURN = AlertView("slo-burn", "chat/default", "firing", AT - 90, "burns 7x as fast as it may", "critical")
HOOK = Channel("webhook", url="https://chat.example/T0K3N")


class Heard(BaseHTTPRequestHandler):
    """A server that keeps what it is sent and answers what it is told to."""

    got: ClassVar[list[tuple[str, Any, str]]] = []
    answers: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Heard.got.append((self.path, body, self.headers.get("authorization", "")))
        self.send_response(Heard.answers.pop(0) if Heard.answers else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[str]:
    Heard.got, Heard.answers = [], []
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Heard)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    listening.server_close()
    thread.join()


def notice(alert: AlertView = DOWN, fired: bool = True) -> Notice:
    return Notice(alert, fired, AT, "prod-eu")


def test_a_beginning_and_an_end_are_told_once_and_a_silence_is_neither() -> None:
    pending = replace(DOWN, state="pending")
    told, notices = follow({}, [pending], AT, "f")
    assert notices == [] and told == {}
    told, notices = follow(told, [DOWN], AT + 1, "f")
    assert [(n.alert.rule, n.fired) for n in notices] == [("replica-down", True)]
    told, notices = follow(told, [DOWN], AT + 2, "f")
    assert notices == []
    told, notices = follow(told, [replace(DOWN, state="silenced")], AT + 3, "f")
    assert notices == [] and told
    told, notices = follow(told, [], AT + 4, "f")
    assert [n.fired for n in notices] == [False] and told == {}


def test_a_silenced_alert_that_nobody_was_told_of_ends_in_silence() -> None:
    told, notices = follow({}, [replace(DOWN, state="silenced")], AT, "f")
    assert follow(told, [], AT + 1, "f")[1] == [] == notices


def test_a_channel_hears_only_what_is_grave_enough() -> None:
    assert wanted(replace(HOOK, least="critical"), [notice(DOWN), notice(BURN)]) == [notice(BURN)]
    assert len(wanted(replace(HOOK, least="info"), [notice(DOWN), notice(BURN)])) == 2


def test_the_document_of_a_webhook_reads_alone() -> None:
    told = document(notice(BURN))
    assert told["text"] == "prod-eu: CRITICAL slo-burn chat/default: burns 7x as fast as it may"
    assert (told["status"], told["since"]) == ("firing", "2025-11-30T12:03:01.000Z")
    assert document(notice(BURN, False))["text"].startswith("prod-eu: RESOLVED slo-burn")


def test_alertmanager_is_given_an_end_it_can_trust() -> None:
    fired, ended = alertmanager([notice(), notice(fired=False)])
    assert fired["labels"] == {
        "alertname": "replica-down", "severity": "warning", "fleet": "prod-eu", "pool": "chat", "subject": "chat/r0",
    }  # fmt: skip
    assert fired["startsAt"] < fired["endsAt"] and ended["endsAt"] == "2025-11-30T12:04:31.000Z"


async def test_a_webhook_gets_json_with_its_headers(server: str) -> None:
    await deliver(Channel("webhook", url=f"{server}/hook", headers=(("Authorization", "Bearer s"),)), [notice()])
    ((path, body, authorization),) = Heard.got
    assert (path, body["rule"], authorization) == ("/hook", "replica-down", "Bearer s")


async def test_alertmanager_is_posted_to_its_api(server: str) -> None:
    await deliver(Channel("alertmanager", url=f"{server}/am/"), [notice(), notice(BURN)])
    ((path, body, _),) = Heard.got
    assert path == "/am/api/v2/alerts" and [one["labels"]["alertname"] for one in body] == ["replica-down", "slo-burn"]


async def test_a_command_reads_the_document_and_its_environment(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    script = (
        "import json,os,sys;d=json.load(sys.stdin);"
        f"open({str(out)!r},'w').write(json.dumps([d['rule'],os.environ['OPSCONSOLE_ALERT_SUBJECT']]))"
    )
    await deliver(Channel("command", command=(sys.executable, "-c", script)), [notice()])
    assert json.loads(out.read_text()) == ["replica-down", "chat/r0"]


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (Channel("command", command=("/nowhere/at-all",)), "cannot be started"),
        (Channel("command", command=(sys.executable, "-c", "raise SystemExit(3)")), "ended with 3"),
        (Channel("command", command=("sleep", "30"), timeout_s=0.2), "took longer than 0.2 s"),
        (Channel("webhook", url="http://127.0.0.1:9/T0K3N"), "127.0.0.1: ConnectError"),
    ],
)
async def test_a_failure_is_a_sentence_without_the_secret(channel: Channel, words: str) -> None:
    with pytest.raises(NotSent, match=re.escape(words)) as raised:
        await deliver(channel, [notice()])
    assert "T0K3N" not in str(raised.value)


async def test_an_answer_that_is_no_success_is_tried_again(server: str, hasty: SystemClock) -> None:
    Heard.answers = [500, 429, 200]
    said: list[str] = []
    notifier = Notifier([Channel("webhook", url=f"{server}/hook")], hasty, said.append)
    notifier.take([DOWN], AT, "prod-eu")
    await until(lambda: len(Heard.got) == 3 and len(said) == 2)
    await notifier.close()
    assert said == [
        "alerts are not told to webhook: 127.0.0.1 answered 500", "alerts are told to webhook again",
    ]  # fmt: skip


async def test_a_channel_that_hangs_holds_up_no_other(hasty: SystemClock) -> None:
    heard: list[str] = []
    released = asyncio.Event()

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        if channel.url == "hangs":
            await released.wait()
        heard.append(f"{channel.url}: {batch[0].alert.rule}")

    notifier = Notifier([Channel("webhook", url="hangs"), Channel("webhook", url="works")], hasty, print, send)
    notifier.take([DOWN, BURN], AT, "f")
    await until(lambda: len(heard) == 2)
    assert heard == ["works: replica-down", "works: slo-burn"]
    released.set()
    await notifier.close()
    assert heard[2:] == ["hangs: replica-down", "hangs: slo-burn"]


async def test_what_is_on_its_way_at_the_end_is_told_once_and_what_waits_behind_it_too(hasty: SystemClock) -> None:
    heard: list[str] = []
    arrives = asyncio.Event()

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        heard.append(batch[0].alert.rule)
        await arrives.wait()

    notifier = Notifier([HOOK], hasty, print, send)
    notifier.take([DOWN, BURN], AT, "f")
    await until(lambda: bool(heard))
    closing = asyncio.create_task(notifier.close())
    await asyncio.sleep(0)
    arrives.set()
    await closing
    assert heard == ["replica-down", "slo-burn"]


async def test_a_channel_that_fails_at_the_end_takes_nothing_from_another(hasty: SystemClock) -> None:
    heard: list[str] = []

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        if channel.url == "fails":
            raise NotSent("it fails")
        await asyncio.sleep(0)
        heard.append(batch[0].alert.rule)

    notifier = Notifier([Channel("webhook", url="fails"), Channel("webhook", url="works")], hasty, print, send)
    notifier.take([DOWN, BURN], AT, "f")
    await notifier.close()
    assert heard == ["replica-down", "slo-burn"]


async def test_alertmanager_hears_again_of_what_goes_on_firing(hasty: SystemClock) -> None:
    batches: list[list[bool]] = []

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        batches.append([n.fired for n in batch])

    notifier = Notifier([Channel("alertmanager", url="http://am")], hasty, print, send)
    for seconds in (0.0, 5.0, AGAIN_S + 1):
        notifier.take([DOWN], AT + seconds, "f")
    await until(lambda: len(batches) == 2)
    notifier.take([], AT + AGAIN_S + 2, "f")
    await until(lambda: len(batches) == 3)
    await notifier.close()
    assert batches == [[True], [True], [False]]


async def test_a_follower_tells_nothing_and_after_taking_over_only_what_is_new(hasty: SystemClock) -> None:
    heard: list[str] = []

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        heard.append(batch[0].alert.rule)

    notifier = Notifier([HOOK], hasty, print, send)
    notifier.take([DOWN], AT, "f", told_by_others=True)
    notifier.take([DOWN, BURN], AT + 5, "f")
    await until(lambda: bool(heard))
    await notifier.close()
    assert heard == ["slo-burn"]


async def test_a_restart_pages_nobody_again_and_does_not_take_the_unseen_for_over(hasty: SystemClock) -> None:
    heard: list[tuple[str, bool]] = []

    async def send(channel: Channel, batch: Sequence[Notice]) -> None:
        heard.append((batch[0].alert.rule, batch[0].fired))

    notifier = Notifier([HOOK], hasty, print, send, told=(DOWN, BURN))
    notifier.take([], AT, "f")  # the first tick has found nothing yet
    notifier.take([replace(DOWN, state="pending", since=AT)], AT + 5, "f")
    notifier.take([replace(DOWN, since=AT)], AT + 20, "f")
    assert {alert.rule for alert in notifier.told} == {"replica-down", "slo-burn"}
    notifier.take([replace(DOWN, since=AT)], AT + SETTLE_S + 1, "f")
    await until(lambda: bool(heard))
    await notifier.close()
    assert heard == [("slo-burn", False)]


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.fixture
def hasty() -> SystemClock:
    """Pauses between attempts pass at once."""

    class Hasty(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    return Hasty()


def test_errors_name_the_host_and_no_more() -> None:
    assert host("https://hooks.example/services/T0K3N?x=1") == "hooks.example"
