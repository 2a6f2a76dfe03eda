"""The web console in a real browser: seen, typed at, read-only, one of few, and told when it is over.

Needs Chromium and says so when it is missing. The trap: the browser is slow to start on a busy machine, so it is one
story with one browser, and every step waits for what it needs to see.
"""

from __future__ import annotations

import asyncio
import os
import signal

from tests.opsconsole.commands.browser import Browser, Page, browser
from tests.opsconsole.commands.webs import consoles, serving


async def test_a_reader_in_a_browser_sees_types_changes_nothing_and_is_told_the_end() -> None:
    with serving("--demo", sessions=1) as port:
        async with browser() as chromium:
            page = await chromium.page()
            await page.open(f"http://127.0.0.1:{port}/")
            await page.sees("LIVE", "DEMO", "READY", "REPLICA", "RO")
            await keys_change_the_screen(page)
            await nothing_can_be_changed(page)
            assert (await page.picture()).startswith(b"\x89PNG")
            only_this_server_was_asked(page, port)
            await the_next_reader_is_refused_in_words(chromium, port)
            await the_end_is_told(page, port)


async def keys_change_the_screen(page: Page) -> None:
    await page.click(20, 8)
    await page.key("3")
    text = await page.sees("DECISIONS", "History", "wants  verdict")
    assert "TTFT95" not in text
    await page.key("1")
    await page.sees("TTFT95")


async def nothing_can_be_changed(page: Page) -> None:
    await page.key("s")
    text = await page.sees("read-only")
    assert "Scale" not in text and "Enter apply" not in text


def only_this_server_was_asked(page: Page, port: int) -> None:
    """Its page names a font on another host; the browser was kept from asking for it."""
    asked = page.requests()
    assert asked[f"http://127.0.0.1:{port}/"] == "200" and any(url.startswith("ws://127.0.0.1") for url in asked)
    others = {url: what for url, what in asked.items() if "//127.0.0.1:" not in url and not url.startswith("data:")}
    assert others and set(others.values()) == {"csp"}, others


async def the_next_reader_is_refused_in_words(chromium: Browser, port: int) -> None:
    second = await chromium.page()
    await second.open(f"http://127.0.0.1:{port}/")
    async with asyncio.timeout(20):
        while "sessions are taken" not in (text := await second.body()):
            await asyncio.sleep(0.1)
    assert "--sessions" in text


async def the_end_is_told(page: Page, port: int) -> None:
    assert "Session ended" not in await page.body()
    (console,) = consoles(port)
    os.kill(console, signal.SIGKILL)
    async with asyncio.timeout(20):
        while "Session ended" not in await page.body():
            await asyncio.sleep(0.1)
