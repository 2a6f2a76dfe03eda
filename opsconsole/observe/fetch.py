"""One bounded GET of a metrics page: bytes, or a failure with its kind. Nothing is believed of the other side.

It must not know what a page means. Asks for text 0.0.4 only: a server that may answer in OpenMetrics rewrites names.
Body, time, redirects and decompression are bounded. The trap: decompression; a small gzip body may hold gigabytes, so
the raw stream is read and inflated here with a limit. Credentials never follow a redirect to another host.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from socket import gaierror
from urllib.parse import quote, urljoin, urlsplit

from opsconsole.errors import SourceErrorKind
from opsconsole.observe.answer import Answer, BadAnswer
from opsconsole.observe.connections import Connection, Connections, Place

ACCEPT = (("Accept", "text/plain;version=0.0.4"), ("Accept-Encoding", "gzip"), ("User-Agent", "opsconsole"))
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOR_ONE_HOST = frozenset({"authorization", "cookie", "x-api-key", "proxy-authorization", "host"})
_REQUESTS_KEPT = 4096


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


class Fetcher:
    """A pool of connections that are kept alive; one a process is enough."""

    def __init__(self, options: FetchOptions | None = None, connections: int = 1024) -> None:
        self.options = options or FetchOptions()
        self._connections = Connections(cache(lambda: tls_context(self.options)), connections)
        self._asked: dict[tuple[str, tuple[tuple[str, str], ...], bool], tuple[Place, bytes]] = {}

    async def fetch(self, url: str, headers: tuple[tuple[str, str], ...] = ()) -> Body:
        """The page at `url`, or `FetchFailed`. `headers` are sent beside those of the options."""
        progress = _Progress()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await self._follow(url, headers, progress)
        except TimeoutError:
            raise progress.too_late(self.options.timeout_s) from None
        except FetchFailed:
            raise
        except Exception as error:  # what transports raise is theirs to choose
            raise _named(error, progress) from error

    async def close(self) -> None:
        await self._connections.close()

    async def _follow(self, url: str, headers: tuple[tuple[str, str], ...], progress: _Progress) -> Body:
        seen = {url}
        secrets = True
        for _ in range(self.options.max_redirects + 1):
            connection = await self._connections.ask(*self._request(url, headers, secrets))
            try:
                progress.answered = True
                answer = connection.answer
                if answer.status in _REDIRECTS:
                    after = _next(answer.headers.get("location", ""), url, seen)
                    secrets = secrets and _same_server(url, after)
                    url = after
                    continue
                _require_ok(answer)
                return await _body(connection, self.options, progress, url)
            finally:
                self._connections.release(connection)
        raise FetchFailed(SourceErrorKind.REDIRECT, f"more than {self.options.max_redirects} redirects")

    def _request(self, url: str, headers: tuple[tuple[str, str], ...], secrets: bool) -> tuple[Place, bytes]:
        """Where and what to ask, worked out once for each address."""
        key = (url, headers, secrets)
        known = self._asked.get(key)
        if known is None:
            sent = (*ACCEPT, *self.options.headers, *headers)
            if not secrets:
                sent = tuple(header for header in sent if header[0].lower() not in _FOR_ONE_HOST)
            if len(self._asked) >= _REQUESTS_KEPT:
                self._asked.clear()
            known = self._asked[key] = _worded(url, sent)
        return known


def _worded(url: str, headers: Iterable[tuple[str, str]]) -> tuple[Place, bytes]:
    """An address is taken as it is written; of headers named alike the last stands. ValueError: it cannot be asked.

    A header Host names the server where the address is only a number; its certificate is then for that name.
    """
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    usual = 443 if is_tls else 80
    host, port = parts.hostname or "", usual if parts.port is None else parts.port
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"{url[:100]} is no http address")
    name = f"[{host}]" if ":" in host else host.encode("idna").decode()
    target = quote(parts.path or "/", safe=_WRITTEN) + ("?" if parts.query else "") + quote(parts.query, safe=_WRITTEN)
    sent = {"host": ("Host", name if port == usual else f"{name}:{port}")}
    sent |= {header.lower(): (header, value) for header, value in headers}
    lines = [f"GET {target} HTTP/1.1", *(f"{header}: {value}" for header, value in sent.values())]
    if any(char in line for line in lines for char in "\r\n\0"):
        raise ValueError("a header holds the end of a line")
    named = urlsplit(f"//{sent['host'][1]}").hostname or host
    return Place(host, port, is_tls, named), ("\r\n".join(lines) + "\r\n\r\n").encode()


_WRITTEN = "!$%&'()*+,-./:;=?@[]_~"


def tls_context(options: FetchOptions) -> ssl.SSLContext:
    """Whom to believe and what to show; raises OSError for files that are not there or hold no certificates."""
    checked = options.verify
    context = ssl.create_default_context(cafile=options.ca_file) if checked else ssl._create_unverified_context()
    if options.client_cert:
        context.load_cert_chain(*options.client_cert)
    return context


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


def _next(location: str, url: str, seen: set[str]) -> str:
    try:
        after = urljoin(url, location)
        place = urlsplit(after)
        is_address = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:  # half an address, no port
        is_address = False
    if not location or not is_address:
        raise FetchFailed(SourceErrorKind.REDIRECT, f"redirects to {location[:100] or 'nowhere'}")
    if after in seen:
        raise FetchFailed(SourceErrorKind.REDIRECT, f"redirects in a circle ({after})")
    seen.add(after)
    return after


def _same_server(url: str, after: str) -> bool:
    """Whether credentials may go along: the same host and port, and never from TLS to none."""
    here, there = urlsplit(url), urlsplit(after)
    same = (here.hostname, here.port) == (there.hostname, there.port)
    return same and (here.scheme, there.scheme) != ("https", "http")


def _require_ok(answer: Answer) -> None:
    status = answer.status
    if status in (401, 403):
        raise FetchFailed(SourceErrorKind.AUTH, f"answered {status}: give a token or user and password")
    if status != 200:
        raise FetchFailed(SourceErrorKind.HTTP_STATUS, f"answered {status} {answer.reason}".rstrip())


async def _body(connection: Connection, options: FetchOptions, progress: _Progress, url: str) -> Body:
    answer = connection.answer
    told = answer.headers.get
    if (answer.length or 0) > options.max_bytes:
        raise _too_large(options)
    encoding = told("content-encoding", "identity").lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise FetchFailed(SourceErrorKind.NOT_METRICS, f"answered in encoding {encoding}, which was not asked for")
    parts: list[bytes] = []
    room = options.max_bytes
    inflater = _Inflater() if encoding in ("gzip", "x-gzip", "deflate") else None
    while chunk := await connection.read():
        progress.received += len(chunk)
        data = inflater.feed(chunk, room + 1) if inflater else chunk
        room -= len(data)
        if room < 0:
            raise _too_large(options)
        parts.append(data)
    if inflater and not inflater.done and progress.received:
        raise FetchFailed(SourceErrorKind.TRUNCATED, "the gzip body ends early")
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    is_whole = inflater is not None or (answer.is_framed and not answer.is_overlong)
    return Body(data, is_whole, _date(told("date")), url)


def _too_large(options: FetchOptions) -> FetchFailed:
    return FetchFailed(SourceErrorKind.TOO_LARGE, f"larger than {options.max_bytes / 2**20:g} MiB")


class _Inflater:
    """gzip in one member or several, or zlib; never producing more than asked for. Dirt after the end is let be."""

    __slots__ = ("_members", "_rest", "_stream")

    def __init__(self) -> None:
        self._stream = _new_stream()
        self._members = 1
        self._rest = b""  # after a member, too little to tell whether another begins

    @property
    def done(self) -> bool:
        return self._stream.eof

    def feed(self, chunk: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        chunk, self._rest = self._rest + chunk, b""
        while chunk and room > 0:
            if self._stream.eof:
                if chunk == _GZIP[:1]:
                    self._rest = chunk
                if not chunk.startswith(_GZIP):
                    break
                self._members += 1
                if self._members > _MEMBERS_MOST:
                    raise FetchFailed(SourceErrorKind.NOT_METRICS, f"is gzip in more than {_MEMBERS_MOST} members")
                self._stream = _new_stream()
            try:
                parts.append(self._stream.decompress(chunk, room))
            except zlib.error as error:
                raise FetchFailed(SourceErrorKind.NOT_METRICS, f"is not the gzip it says it is ({error})") from None
            room -= len(parts[-1])
            chunk = self._stream.unused_data
        return parts[0] if len(parts) == 1 else b"".join(parts)


_GZIP = b"\x1f\x8b"
_MEMBERS_MOST = 1000  # each costs a new stream, however empty


def _new_stream() -> zlib._Decompress:
    return zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, by the header


@lru_cache(maxsize=64)  # a second's answers bear the same
def _date(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _named(error: Exception, progress: _Progress) -> FetchFailed:
    chain = list(_causes(error))
    words = str(error) or type(error).__name__
    if isinstance(error, BadAnswer):
        return FetchFailed(SourceErrorKind.REFUSED, f"no HTTP answer: {words}")
    if any(isinstance(cause, gaierror | UnicodeError) for cause in chain):
        return FetchFailed(SourceErrorKind.DNS, "the name does not resolve")
    if any(isinstance(cause, ssl.SSLError | ssl.CertificateError) for cause in chain):
        return FetchFailed(SourceErrorKind.TLS, f"TLS failed: {words}")
    if isinstance(error, ValueError):
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
