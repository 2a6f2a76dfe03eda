"""A real browser without a window, driven over its own debugging protocol: open a page, read its terminal, type at it.

It must not know what is shown. The trap: the terminal is painted on a canvas, so its text is in no element; it is
read from the emulator's own buffer, which a script placed before the page's own finds when the page makes it.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--mute-audio", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip
FIND_TERMINAL = """
Object.defineProperty(Object.prototype, "canvasAddon", {
    configurable: true,
    get() { return undefined; },
    set(addon) {
        Object.defineProperty(this, "canvasAddon", {value: addon, writable: true, configurable: true});
        window.shown = this.terminal;
    },
});
"""
READ_TERMINAL = """
(() => {
    if (!window.shown) return "";
    const buffer = window.shown.buffer.active;
    const lines = [];
    for (let row = 0; row < window.shown.rows; row++)
        lines.push(buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "");
    return lines.join("\\n");
})()
"""


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.send(method, self._session, **params)

    async def open(self, url: str) -> None:
        """Go there, and remember every request."""
        await self.send("Page.enable")
        await self.send("Network.enable")
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=FIND_TERMINAL)
        await self.send("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        return (await self.send("Runtime.evaluate", expression=script, returnByValue=True))["result"].get("value")

    async def terminal(self) -> str:
        """What stands in the terminal now."""
        return str(await self.evaluate(READ_TERMINAL))

    async def body(self) -> str:
        """What stands on the page outside of the terminal, as far as it is visible."""
        return str(await self.evaluate("document.body.innerText"))

    async def sees(self, *words: str, seconds: float = 40.0) -> str:
        """Wait until the terminal holds each of the words; its text."""
        text = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    text = await self.terminal()
                    if all(word in text for word in words):
                        return text
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{words} not in the terminal within {seconds:g} s; it shows:\n{text}") from None

    async def click(self, x: int, y: int) -> None:
        """Press and release the left button; what is there gets the keys from then on."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def key(self, key: str) -> None:
        """Press and release one key that makes a letter."""
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def picture(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])

    def requests(self) -> dict[str, str]:
        """URL asked for, and what came of it: a status, or why it was not sent."""
        return self._browser.outcomes.get(self._session, {})


class Browser:
    """The process's debugging connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._urls: dict[str, str] = {}
        self.outcomes: dict[str, dict[str, str]] = {}  # session -> URL -> outcome
        self._task = asyncio.create_task(self._listen())

    async def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        await self._socket.send_json(message)
        async with asyncio.timeout(30):
            return await self._answers[number]

    async def page(self) -> Page:
        """A new empty tab."""
        target = (await self.send("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.send("Target.attachToTarget", targetId=target, flatten=True)
        return Page(self, attached["sessionId"])

    async def close(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            await self.send("Browser.close")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        async for message in self._socket:
            got = message.json()
            waiting = self._answers.pop(got.get("id"), None)
            if waiting is not None and not waiting.done():
                if "error" in got:
                    waiting.set_exception(AssertionError(got["error"]["message"]))
                else:
                    waiting.set_result(got["result"])
            elif str(got.get("method", "")).startswith("Network."):
                self._note(got["method"], got.get("sessionId", ""), got["params"])

    def _note(self, method: str, session: str, params: dict[str, Any]) -> None:
        outcomes = self.outcomes.setdefault(session, {})
        if method == "Network.requestWillBeSent":
            self._urls[params["requestId"]] = params["request"]["url"]
            outcomes[params["request"]["url"]] = "sent"
        elif method == "Network.responseReceived":
            outcomes[params["response"]["url"]] = str(params["response"]["status"])
        elif method == "Network.loadingFailed" and params["requestId"] in self._urls:
            outcomes[self._urls[params["requestId"]]] = params.get("blockedReason") or params["errorText"]
        elif method == "Network.webSocketCreated":
            outcomes[params["url"]] = "opened"


@asynccontextmanager
async def browser(width: int = 1280, height: int = 800) -> AsyncIterator[Browser]:
    """Chromium, for as long as it is needed."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium is not installed: the browser's tests need it (apt-get install chromium)")
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program, *OPTIONS, f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with (
                asyncio.timeout(200),
                aiohttp.ClientSession() as session,
                session.ws_connect(await _place(process), max_msg_size=0) as connection,
            ):
                made = Browser(connection)
                try:
                    yield made
                finally:
                    await made.close()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _place(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = b""
    while line := await process.stderr.readline():
        said += line
        if found := re.search(rb"ws://\S+", line):
            return found[0].decode()
    raise AssertionError(f"Chromium ended: {said.decode(errors='replace')[-500:]}")
