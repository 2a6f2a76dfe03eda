"""The values of the linter: findings, pairs of evidence, notes, families and the result of a run.

Knows no file formats and no rules' meaning. The trap: `char` is a 0-based code point inside the request's value,
`line` and `col` are 1-based places in a file; they are never mixed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters; `off` rules run only when selected."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OFF = "off"

    @property
    def rank(self) -> int:
        return {"error": 3, "warning": 2, "info": 1, "off": 0}[self.value]


class FixKind(StrEnum):
    """Whether a rewrite may change what the model says."""

    NONE = "none"
    SAFE = "safe"
    UNSAFE = "unsafe"

    @property
    def mark(self) -> str:
        return {"none": "", "safe": "[*]", "unsafe": "[-]"}[self.value]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests of a log and the first code point at which their prompts differ."""

    requests: tuple[int, int]
    path: str
    char: int
    before: str = ""
    after: str = ""
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, 1-based line and column in characters."""

    file: str
    line: int
    col: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace characters [start, end) of a file's text."""

    file: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that breaks the prefix, with its proof."""

    code: str
    severity: Severity
    message: str
    file: str
    line: int
    col: int = 1
    path: str = ""
    char: int | None = None
    end_char: int | None = None
    pairs: tuple[Pair, ...] = ()
    literal_chars: int | None = None
    token: int | None = None
    exact: bool = False
    family: str = ""
    requests_touched: int | None = None
    requests_total: int | None = None
    tokens_lost: int | None = None
    stable_tokens: int | None = None
    reuse_before: float | None = None
    reuse_after: float | None = None
    confirmed: bool = False
    fix: FixKind = FixKind.NONE
    advice: str = ""
    edits: tuple[Edit, ...] = ()
    written_at: Place | None = None
    subject: str = ""
    record: str = ""

    def order(self) -> tuple[str, int, int, str, str]:
        return (self.file, self.line, self.col, self.code, self.path)

    @property
    def fingerprint(self) -> str:
        """Stable over values and line numbers: the rule, the file, the path and the subject of the finding."""
        seed = "\0".join((self.code, self.file, self.path if self.char is not None else "", self.subject))
        return hashlib.sha256(seed.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Note:
    """Something the reader must know that is not a defect of a prompt (PX9xx)."""

    code: str
    message: str
    file: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Bar:
    """One prompt drawn as runs of shared (True) and divergent (False) tokens."""

    runs: tuple[tuple[bool, int], ...]


@dataclass(frozen=True, slots=True)
class Waste:
    """What could be avoided, as an upper bound. None where the inputs to compute it are not given."""

    tokens: int
    gpu_seconds: float | None = None
    kv_bytes: int | None = None
    money: float | None = None
    currency: str = "USD"
    basis: str = ""


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """Requests that share a prompt: what is reused now and what could be."""

    name: str
    requests: int
    prompt_tokens: int
    reused_tokens: int
    reusable_tokens: int
    file: str
    before: Bar | None = None
    after: Bar | None = None
    waste: Waste | None = None
    reused_in_budget: int | None = None
    reported_cached: int | None = None

    @property
    def rate(self) -> float:
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def rate_after(self) -> float:
        return self.reusable_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(slots=True)
class Result:
    """Everything one run found, in the order it is printed."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    families: list[FamilyReport] = field(default_factory=list)
    files: int = 0
    records: int = 0
    bad_records: int = 0
    suppressed: int = 0
    baselined: int = 0
    failures: list[Note] = field(default_factory=list)

    def merge(self, other: Result) -> None:
        self.findings += other.findings
        self.notes += other.notes
        self.families += other.families
        self.files += other.files
        self.records += other.records
        self.bad_records += other.bad_records
        self.suppressed += other.suppressed
        self.failures += other.failures
