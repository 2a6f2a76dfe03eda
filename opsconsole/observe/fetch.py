"""One bounded GET of a metrics page: bytes, or a failure with its kind. Nothing is believed of the other side.

It must not know what a page means. Asks for text 0.0.4 only: a server that may answer in OpenMetrics rewrites names.
Body, time, redirects and decompression are bounded. The trap: decompression; a small gzip body may hold gigabytes, so
the raw stream is read and inflated here with a limit. Credentials never follow a redirect to another host.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import ssl
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from socket import gaierror
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from opsconsole.errors import SourceErrorKind

if TYPE_CHECKING:
    import httpx

ACCEPT = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip", "User-Agent": "opsconsole"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "x-api-key", "proxy-authorization"})
_FIRST_BYTES = 256


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Bounds of one fetch and how to introduce oneself."""

    timeout_s: float = 5.0
    max_bytes: int = 16 * 1024 * 1024  # after decompression
    max_redirects: int = 3
    headers: tuple[tuple[str, str], ...] = ()
    verify: bool = True
    ca_file: str | None = None
    client_cert: tuple[str, str] | None = None  # certificate file, key file


@dataclass(frozen=True, slots=True)
class Body:
    """A page as received. `complete`: the length was announced and is whole. `server_time` from the Date header."""

    data: bytes
    complete: bool
    server_time: float | None
    url: str


class FetchFailed(Exception):
    """Caught at the edge of this package and turned into a `SourceError`; never crosses it."""

    def __init__(self, kind: SourceErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def new_client(options: FetchOptions, connections: int = 1024) -> httpx.AsyncClient:
    """A client whose connections are kept alive; one per process is enough."""
    import aiohttp
    import httpx
    from httpx_aiohttp import AiohttpTransport

    context: ssl.SSLContext | bool = True
    if not options.verify:
        context = ssl._create_unverified_context()
    elif options.ca_file:
        context = ssl.create_default_context(cafile=options.ca_file)
    if options.client_cert:
        if isinstance(context, bool):
            context = ssl.create_default_context()
        context.load_cert_chain(*options.client_cert)
    connector_limit = connections

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=connector_limit, keepalive_timeout=75, ssl=context)
        return aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent",),
        )

    transport = AiohttpTransport(client=session)
    return httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)


async def fetch(
    client: httpx.AsyncClient, url: str, options: FetchOptions, headers: Mapping[str, str] | None = None
) -> Body:
    """The page at `url`, or `FetchFailed`."""
    started = _Progress()
    try:
        async with asyncio.timeout(options.timeout_s):
            return await _follow(client, url, options, {**ACCEPT, **dict(options.headers), **(headers or {})}, started)
    except TimeoutError:
        raise started.too_late(options.timeout_s) from None


@dataclass(slots=True)
class _Progress:
    """How far a fetch came, so that its failure can be named."""

    answered: bool = False
    received: int = 0

    def too_late(self, seconds: float) -> FetchFailed:
        if self.answered:
            detail = f"began to answer but was not done after {seconds:g} s ({self.received} bytes so far)"
            return FetchFailed(SourceErrorKind.TOO_SLOW, detail)
        return FetchFailed(SourceErrorKind.TIMEOUT, f"no answer within {seconds:g} s")


async def _follow(
    client: httpx.AsyncClient, url: str, options: FetchOptions, headers: dict[str, str], progress: _Progress
) -> Body:
    seen = {url}
    for _ in range(options.max_redirects + 1):
        with _named_failures(progress):
            response = await client.send(client.build_request("GET", url, headers=headers), stream=True)
        try:
            progress.answered = True
            if response.status_code in _REDIRECTS:
                url, headers = _next(response, url, headers, seen)
                continue
            _require_ok(response)
            with _named_failures(progress):
                return await _body(response, options, progress, url)
        finally:
            with contextlib.suppress(Exception):
                await response.aclose()
    raise FetchFailed(SourceErrorKind.REDIRECT, f"more than {options.max_redirects} redirects")


def _next(response: httpx.Response, url: str, headers: dict[str, str], seen: set[str]) -> tuple[str, dict[str, str]]:
    location = response.headers.get("location", "")
    after = urljoin(url, location)
    if not location or urlsplit(after).scheme not in ("http", "https"):
        raise FetchFailed(SourceErrorKind.REDIRECT, f"redirects to {location or 'nowhere'}")
    if after in seen:
        raise FetchFailed(SourceErrorKind.REDIRECT, f"redirects in a circle ({after})")
    seen.add(after)
    here, there = urlsplit(url), urlsplit(after)
    if (here.hostname, here.port) != (there.hostname, there.port) or (here.scheme, there.scheme) == ("https", "http"):
        headers = {name: value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
    return after, headers


def _require_ok(response: httpx.Response) -> None:
    status = response.status_code
    if status in (401, 403):
        raise FetchFailed(SourceErrorKind.AUTH, f"answered {status}: give a token or user and password")
    if status != 200:
        raise FetchFailed(SourceErrorKind.HTTP_STATUS, f"answered {status} {response.reason_phrase}".rstrip())


async def _body(response: httpx.Response, options: FetchOptions, progress: _Progress, url: str) -> Body:
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > options.max_bytes:
        raise _too_large(options)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise FetchFailed(SourceErrorKind.NOT_METRICS, f"answered in encoding {encoding}, which was not asked for")
    parts: list[bytes] = []
    room = options.max_bytes
    inflater = _Inflater() if encoding in ("gzip", "x-gzip", "deflate") else None
    async for chunk in response.aiter_raw():
        progress.received += len(chunk)
        data = inflater.feed(chunk, room + 1) if inflater else chunk
        room -= len(data)
        if room < 0:
            raise _too_large(options)
        parts.append(data)
    if inflater and not inflater.done and progress.received:
        raise FetchFailed(SourceErrorKind.TRUNCATED, "the gzip body ends early")
    if length.isdigit() and progress.received != int(length):
        raise FetchFailed(SourceErrorKind.TRUNCATED, f"{progress.received} of {length} bytes came")
    chunked = "chunked" in response.headers.get("transfer-encoding", "")
    return Body(b"".join(parts), bool(length) or chunked or bool(inflater), _date(response), url)


def _too_large(options: FetchOptions) -> FetchFailed:
    return FetchFailed(SourceErrorKind.TOO_LARGE, f"larger than {options.max_bytes / 2**20:g} MiB")


class _Inflater:
    """gzip or zlib, never producing more than asked for."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, by the header

    @property
    def done(self) -> bool:
        return self._stream.eof

    def feed(self, chunk: bytes, room: int) -> bytes:
        try:
            data = self._stream.decompress(chunk, room)
        except zlib.error as error:
            raise FetchFailed(SourceErrorKind.NOT_METRICS, f"is not the gzip it says it is ({error})") from None
        return data


def _date(response: httpx.Response) -> float | None:
    text = response.headers.get("date")
    if not text:
        return None
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


@contextlib.contextmanager
def _named_failures(progress: _Progress) -> Iterator[None]:
    """What the client raises, as a `FetchFailed`. Time-outs pass: the caller's deadline names them."""
    import httpx

    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise _named(error, progress) from error


def _named(error: Exception, progress: _Progress) -> FetchFailed:
    import httpx

    chain = list(_causes(error))
    words = str(error) or type(error).__name__
    if any(isinstance(cause, gaierror) or "DNS" in type(cause).__name__ for cause in chain):
        return FetchFailed(SourceErrorKind.DNS, "the name does not resolve")
    if any(isinstance(cause, ssl.SSLError | ssl.CertificateError) for cause in chain):
        return FetchFailed(SourceErrorKind.TLS, f"TLS failed: {words}")
    # the transport maps a closed connection to ConnectTimeout; no time-out is set there, so it is never one
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | ValueError):
        return FetchFailed(SourceErrorKind.INTERNAL, f"cannot be asked: {words}")
    if progress.answered:
        return FetchFailed(SourceErrorKind.TRUNCATED, f"the connection ended within the body ({words})")
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return FetchFailed(SourceErrorKind.REFUSED, "nothing listens there")
    return FetchFailed(SourceErrorKind.REFUSED, f"no HTTP answer: {words}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(8):
        if error is None:
            return
        yield error
        nested = getattr(error, "os_error", None)
        if isinstance(nested, BaseException):
            yield nested
        error = error.__cause__ or error.__context__
