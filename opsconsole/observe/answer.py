"""One HTTP/1.1 answer, read as its bytes come, in whatever pieces.

It knows no sockets and not what was asked, except that it was asked by GET. It is strict where leniency would mean to
guess how long the body is: two lengths, a length that is no number, codings other than chunks. The traps: a body that
bears no length ends with the connection, so the end has to be told (`ended`), and it is never known to be whole; and
somebody may send a chunk for every byte, so what surrounds a body is read by position and has its bounds, too.
"""

from __future__ import annotations

import re
from enum import Enum, auto

HEAD_MOST = 65_536  # bytes before the body, and of one line between chunks
INTERIM_MOST = 20  # answers that only say that the answer will come
LINES_MOST = 20_000  # between chunks, and one more for every eight bytes of the body
_START = b"HTTP/1."
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9]\d\d)(?: (.*))?")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
_WITHOUT_BODY = frozenset({204, 304})


class BadAnswer(Exception):
    """What came is not HTTP/1.1 as anyone may write it."""


class _Part(Enum):
    """What comes next."""

    HEAD = auto()
    LENGTH = auto()  # a body of known length
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    REST = auto()  # a body up to the end of the connection
    DONE = auto()


class Answer:
    """Status and headers, then pieces of the body. `status` is 0 until the head is whole."""

    __slots__ = (
        "_interim",
        "_left",
        "_lines",
        "_part",
        "_unread",
        "headers",
        "is_overlong",
        "is_reusable",
        "length",
        "pieces",
        "reason",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}  # names in lower case; what is told twice is joined by ", "
        self.length: int | None = None  # of the body, where it is told beforehand
        self.pieces: list[bytes] = []  # of the body, none of them empty, for the reader to take away
        self.is_reusable = False  # the connection may be asked again once this is done
        self.is_overlong = False  # more came than its end allows
        self._part = _Part.HEAD
        self._left = 0  # bytes to come of the body or chunk
        self._interim = 0
        self._lines = LINES_MOST  # that may still come between chunks
        self._unread = b""  # a head or line that has not come in full

    @property
    def is_done(self) -> bool:
        return self._part is _Part.DONE

    @property
    def is_framed(self) -> bool:
        """Whether its end is told by other means than the end of the connection."""
        return self.length is not None or "transfer-encoding" in self.headers

    @property
    def is_begun(self) -> bool:
        """Whether anything at all has come."""
        return bool(self.status or self._unread)

    def feed(self, data: bytes) -> None:
        """The next bytes of the connection; raises `BadAnswer` where they are none of an answer."""
        if self._unread:
            data, self._unread = self._unread + data, b""
        while data and self._part is _Part.HEAD:
            data = self._head(data)
        if self._part is _Part.LENGTH:
            data = self._body(data)
        elif self._part is _Part.REST:
            if data:
                self.pieces.append(data)
            return
        elif self._part is not _Part.HEAD:
            data = self._chunks(data)
        if data and self._part is _Part.DONE:
            self.is_reusable, self.is_overlong = False, True  # nobody asked for more

    def ended(self) -> bool:
        """The connection ended; whether the answer is done, as far as anyone can know."""
        if self._part is _Part.REST:
            self._part = _Part.DONE
        return self.is_done

    def _head(self, data: bytes) -> bytes:
        """Read the head if it is there in full; what comes after it, or nothing yet."""
        end = _HEAD_END.search(data)
        if not data.startswith(_START[: len(data)]):
            raise BadAnswer(f"it begins with {data[:40]!r}")
        if (len(data) if end is None else end.start()) > HEAD_MOST:
            raise BadAnswer("its head has no end")
        if end is None:
            self._unread = data
            return b""
        line, *fields = data[: end.start()].decode("latin-1").split("\n")
        status = _STATUS_LINE.fullmatch(line.rstrip("\r"))
        if status is None:
            raise BadAnswer(f"it begins with {line[:40]!r}")
        if status[2][0] == "1" and status[2] != "101":  # only says that the answer will come
            self._interim += 1
            if self._interim > INTERIM_MOST:
                raise BadAnswer(f"it says {status[2]} again and again")
            return data[end.end() :]
        self.reason = (status[3] or "").strip()
        self.headers = _headers(fields)
        self.status = int(status[2])
        said = self.headers.get("connection", "").lower()
        self.is_reusable = "close" not in said and (status[1] == "1" or "keep-alive" in said)
        self._part = self._framing()
        return data[end.end() :]

    def _framing(self) -> _Part:
        """How the end of the body is told."""
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if self.status in _WITHOUT_BODY:
            return _Part.DONE
        if coding is not None:
            if coding.lower() != "chunked":
                raise BadAnswer(f"its transfer encoding is {coding[:40]}")
            return _Part.CHUNK_SIZE
        if length is not None:
            lengths = {text.strip() for text in length.split(",")}
            if len(lengths) > 1 or not (length := lengths.pop()).isdecimal() or len(length) > 18:
                raise BadAnswer(f"its length is {length[:40]!r}")
            self.length = self._left = int(length)
            return _Part.LENGTH if self._left else _Part.DONE
        self.is_reusable = False
        return _Part.REST

    def _body(self, data: bytes) -> bytes:
        """Take what belongs to a body of known length; what comes after it."""
        piece, rest = (data, b"") if len(data) <= self._left else (data[: self._left], data[self._left :])
        if piece:
            self.pieces.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._part = _Part.DONE
        return rest

    def _chunks(self, data: bytes) -> bytes:
        """Take chunks and the lines between them; what comes after the last, or nothing yet."""
        at, end = 0, len(data)
        while at < end and self._part is not _Part.DONE:
            if self._part is _Part.CHUNK:
                size = min(self._left, end - at)
                self.pieces.append(data[at : at + size])
                at += size
                self._left -= size
                self._lines += size // 8
                if not self._left:
                    self._part = _Part.CHUNK_END
                continue
            stop = data.find(b"\n", at)
            if (end if stop < 0 else stop) - at > HEAD_MOST:
                raise BadAnswer("a line between its chunks has no end")
            if stop < 0:
                self._unread = data[at:]
                return b""
            self._between(data[at:stop].rstrip(b"\r"))
            at = stop + 1
        return data[at:]

    def _between(self, line: bytes) -> None:
        """A line that is no content: the size of a chunk, its end, or a trailer."""
        self._lines -= 1
        if self._lines < 0:
            raise BadAnswer("its chunks are too small")
        if self._part is _Part.CHUNK_SIZE:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise BadAnswer(f"{line[:40]!r} is no size of a chunk")
            self._left = int(size[1], 16)
            self._part = _Part.CHUNK if self._left else _Part.TRAILER
        elif self._part is _Part.CHUNK_END:
            if line:
                raise BadAnswer("a chunk is longer than it says")
            self._part = _Part.CHUNK_SIZE
        elif not line:
            self._part = _Part.DONE


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name[0] in " \t" or name[-1] in " \t":
            raise BadAnswer(f"{line[:40]!r} is no header")
        name, value = name.lower(), value.strip()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
