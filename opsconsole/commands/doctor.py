"""`opsconsole doctor`: what is recognised on a metrics page, what is missing, and why.

It must not read pages by itself; `observe.diagnosis` does, with the scanner and tables that the agent uses. The trap:
files are successive scrapes of one replica, in the order given; every URL is a replica of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from opsconsole.errors import UsageError


def doctor(
    pages: Annotated[
        list[str],
        typer.Argument(metavar="URL|FILE...", help="Metrics pages. Files are scrapes of one replica, in order."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
    times: Annotated[
        list[str] | None,
        typer.Option("--times", help="When the files were scraped, seconds: 0,60,120. Else comments in them tell."),
    ] = None,
    scrapes: Annotated[int, typer.Option("--scrapes", min=1, max=100, help="How often each URL is read.")] = 1,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two reads of a URL.")] = 5.0,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help='Sent to URLs: "Name: value".')] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Do not verify TLS certificates.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a URL.")] = 5.0,
) -> None:
    """Say what opsconsole reads on a metrics page, what it does not, and why.

    Examples:

      opsconsole doctor http://10.0.0.7:8000/metrics

      opsconsole doctor first.txt second.txt --times 0,60 --output json

      opsconsole doctor http://10.0.0.7:8000 --scrapes 3 --every 10
    """
    if output not in ("text", "json"):
        raise UsageError(f"--output {output}: give text or json")
    urls = [page for page in pages if _is_url(page)]
    files = [page for page in pages if page not in urls]
    reports = [_files(files, _times(times, len(files)))] if files else []
    if urls:
        from opsconsole.observe.fetch import FetchOptions

        options = FetchOptions(timeout_s=timeout, headers=tuple(_headers(header or [])), verify=not insecure)
        reports += asyncio.run(_urls(urls, scrapes, every, options))
    if output == "json":
        typer.echo(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2, ensure_ascii=False))
    else:
        from opsconsole.observe.diagnosis_text import as_text

        typer.echo("\n\n".join(as_text(report) for report in reports))
    if any(report["error"] or report["engine"] is None for report in reports):
        raise typer.Exit(1)


def _is_url(page: str) -> bool:
    """An address, unless a file of that name is there: `10.0.0.7:8000` needs no scheme."""
    if "://" in page:
        return True
    host, _, port = page.partition("/")[0].rpartition(":")
    return bool(host) and port.isdigit() and not os.path.exists(page)


def _times(given: list[str] | None, files: int) -> list[float] | None:
    if not given:
        return None
    words = [word for text in given for word in text.replace(",", " ").split()]
    try:
        times = [float(word) for word in words]
    except ValueError:
        raise UsageError(f"--times {' '.join(given)}: give seconds, such as 0,60,120") from None
    if len(times) != files:
        raise UsageError(f"--times gives {len(times)} times for {files} files: give one for each")
    if times != sorted(times):
        raise UsageError("--times goes backwards: give the files in the order in which they were scraped")
    return times


def _headers(given: list[str]) -> list[tuple[str, str]]:
    parted = [text.partition(":") for text in given]
    wrong = next((text for text, part in zip(given, parted, strict=True) if not part[1]), None)
    if wrong is not None:
        raise UsageError(f'--header {wrong!r}: give "Name: value"')
    return [(name.strip(), value.strip()) for name, _, value in parted]


def _files(names: list[str], times: list[float] | None) -> dict[str, Any]:
    from opsconsole.observe.diagnosis import diagnose, read_page, time_in
    from opsconsole.observe.dialects.normalise import new_memo

    memo = new_memo()
    reads = []
    for index, name in enumerate(names):
        try:
            data = Path(name).read_bytes()
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
        reads.append(read_page(data, times[index] if times else time_in(data), memo))
    return diagnose(names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}", reads)


async def _urls(urls: list[str], scrapes: int, every: float, options: Any) -> list[dict[str, Any]]:
    from opsconsole.clock import SystemClock
    from opsconsole.observe.diagnosis import DUPLICATE_FLAG, SKEW_FLAG, Reads, diagnose, failure, read_page
    from opsconsole.observe.dialects.normalise import new_memo
    from opsconsole.observe.fetch import Fetcher, FetchFailed
    from opsconsole.observe.scrape import SKEW_S, canonical_url
    from opsconsole.observe.targets import as_url, without_login

    addresses: dict[str, str] = {}
    notices: dict[str, list[str]] = {}
    logins: dict[str, tuple[tuple[str, str], ...]] = {}
    for given in urls:
        address, login = without_login(as_url(given))
        first = addresses.setdefault(canonical_url(address), address)
        logins.setdefault(first, login)
        notices[first] = [DUPLICATE_FLAG] if first in notices else []
    clock, memo, fetcher = SystemClock(), new_memo(), Fetcher(options)
    reads: dict[str, list[Reads]] = {address: [] for address in notices}

    async def once(address: str) -> None:
        try:
            body = await fetcher.fetch(address, logins[address])
            now = clock.now()
            reads[address].append(read_page(body.data, now, memo, complete=body.complete))
            if body.server_time is not None and abs(body.server_time - now) > SKEW_S:
                notices[address] = [*dict.fromkeys((*notices[address], SKEW_FLAG))]
        except FetchFailed as failed:
            reads[address].append(failure(failed, clock.now()))

    try:
        for index in range(scrapes):
            if index:
                await clock.sleep(every)
            await asyncio.gather(*(once(address) for address in reads))
    finally:
        await fetcher.close()
    return [diagnose(address, seen, notices[address]) for address, seen in reads.items()]
