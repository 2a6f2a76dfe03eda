"""What a call returns: clocks, ids, machines, random draws, retrievers and unordered iterables, by dotted name.

Data for the Python and JavaScript front ends. The trap: names are matched by their ends, so `self.clock.now` and
`datetime.datetime.now` are one entry, but a project's own function is resolved before this table is asked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from opsconsole.lint.frontends.ir import Volatility as V


class Source(NamedTuple):
    """The class, rule and word of a call's result."""

    volatility: V
    code: str
    word: str
    unordered: bool = False


_CLOCK = Source(V.REQUEST, "PX101", "the current time")
_DAY = Source(V.DAY, "PX102", "today's date")
_ID = Source(V.REQUEST, "PX103", "a new id")
_HOST = Source(V.SESSION, "PX105", "the machine or working directory")
_DRAW = Source(V.RANDOM, "PX108", "a random draw")
_FOUND = Source(V.TURN, "PX107", "retrieved text")
_UNORDERED = Source(V.REQUEST, "PX203", "unordered iteration", unordered=True)

PYTHON: dict[str, Source] = {
    **dict.fromkeys(
        (
            "datetime.now",
            "datetime.utcnow",
            "datetime.today",
            "time.time",
            "time.time_ns",
            "time.ctime",
            "time.asctime",
            "time.strftime",
            "time.localtime",
            "time.gmtime",
            "timezone.now",
            "timezone.localtime",
            "pendulum.now",
            "arrow.now",
            "arrow.utcnow",
            "Timestamp.now",
            "Timestamp.utcnow",
            "time.monotonic",
            "now",
            "utcnow",
            "Instant.now",
        ),
        _CLOCK,
    ),
    **dict.fromkeys(("date.today", "pendulum.today", "today"), _DAY),
    **dict.fromkeys(
        (
            "uuid.uuid4",
            "uuid.uuid1",
            "uuid4",
            "uuid1",
            "uuid7",
            "secrets.token_hex",
            "secrets.token_urlsafe",
            "secrets.token_bytes",
            "os.urandom",
            "nanoid.generate",
            "ulid.new",
            "ULID",
            "ksuid",
            "shortuuid.uuid",
            "random.random",
            "random.randint",
            "random.getrandbits",
            "random.randrange",
            "secrets.randbelow",
        ),
        _ID,
    ),
    **dict.fromkeys(
        (
            "os.getcwd",
            "Path.cwd",
            "socket.gethostname",
            "os.getpid",
            "platform.node",
            "tempfile.mkdtemp",
            "tempfile.gettempdir",
            "tempfile.mktemp",
            "getpass.getuser",
            "os.uname",
            "tempfile.TemporaryDirectory",
            "subprocess.check_output",
            "subprocess.getoutput",
            "os.getlogin",
            "socket.getfqdn",
        ),
        _HOST,
    ),
    **dict.fromkeys(
        (
            "random.sample",
            "random.choice",
            "random.choices",
            "random.shuffle",
            "secrets.choice",
            "np.random.choice",
            "numpy.random.choice",
            "random.uniform",
        ),
        _DRAW,
    ),
    **dict.fromkeys(
        (
            "os.listdir",
            "os.scandir",
            "glob.glob",
            "glob.iglob",
            "iterdir",
            "rglob",
            "as_completed",
            "imap_unordered",
            "os.walk",
        ),
        _UNORDERED,
    ),
}
JAVASCRIPT: dict[str, Source] = {
    **dict.fromkeys(
        (
            "Date.now",
            "toISOString",
            "toLocaleTimeString",
            "toLocaleString",
            "toUTCString",
            "toTimeString",
            "new Date",
            "performance.now",
            "toJSON",
            "getTime",
            "dayjs",
            "moment",
            "DateTime.now",
            "DateTime.local",
        ),
        _CLOCK,
    ),
    **dict.fromkeys(("toLocaleDateString", "toDateString"), _DAY),
    **dict.fromkeys(
        (
            "randomUUID",
            "crypto.randomUUID",
            "nanoid",
            "uuidv4",
            "uuid.v4",
            "uuid",
            "v4",
            "randomBytes",
            "Math.random",
            "createId",
            "cuid",
            "ulid",
            "getRandomValues",
        ),
        _ID,
    ),
    **dict.fromkeys(("process.cwd", "os.hostname", "os.tmpdir", "os.userInfo", "execSync", "os.homedir"), _HOST),
    **dict.fromkeys(("sampleSize", "shuffle", "_.sample", "_.shuffle", "_.sampleSize"), _DRAW),
    **dict.fromkeys(("readdirSync", "fs.readdirSync", "readdir"), _UNORDERED),
}
_RETRIEVERS = re.compile(
    r"^(?:retrieve\w*|similarity_search\w*|similaritySearch\w*|get_relevant_\w+|getRelevant\w+|recall\w*|rerank\w*|"
    r"(?:vector|semantic|hybrid|memory|web|kb)_?search\w*|search(?:_\w+)?|fetch_(?:context|docs|documents|memories)|"
    r"find_(?:relevant|similar)\w*|lookup_(?:docs|context)|load_memories|get_(?:context|memories|memory|documents|docs)|"
    r"(?:get|fetch|find|load)(?:Context|Memories|Documents|Docs)|searchMemories|searchDocs)$"
)
_STORES = re.compile(r"(?:retriever|vector|index|store|collection|rag|memory|memories|mem0|kb)", re.I)


def source(dotted: str, table: dict[str, Source]) -> Source | None:
    """The source a dotted call names, by its longest known end."""
    parts = dotted.split(".")
    for start in range(max(0, len(parts) - 3), len(parts)):
        found = table.get(".".join(parts[start:]))
        if found is not None and (
            start == 0
            or len(parts) - start > 1
            or found.unordered
            or table is JAVASCRIPT
            or parts[start] in ("now", "utcnow", "today")
        ):
            return found
    last = parts[-1]
    if _RETRIEVERS.match(last) and not (last == "search" and parts[0] == "re"):
        return _FOUND
    if (
        last in ("query", "invoke", "ainvoke", "search", "get", "call", "run")
        and len(parts) > 1
        and _STORES.search(parts[-2])
    ):
        return _FOUND
    return None


def format_source(found: Source, fmt: str | None) -> Source:
    """A clock printed by a format of whole days is a date."""
    if found.code == "PX101" and fmt is not None and not re.search(r"%[HIMSpXcfsTRr]|[Hhms]{1,2}:", fmt):
        return _DAY
    return found
