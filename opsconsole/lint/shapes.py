"""What kind of value changed: its shape (time, id, path, counter, person) and the words that stand before it.

Knows no thresholds. Shape alone is never reported; it only names what already diverged. The trap: a fixed date that
differs nowhere must not be looked at, so matches count only where they overlap the changed characters.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|"
    rf"{MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?\.? {MONTH}\.?,? \d{{4}}|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? {MONTH} +\d{{1,2}})"
)
CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?:\s?[AaPp]\.?[Mm]\.?)?(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"


class Shape(NamedTuple):
    """A kind of value: the rule that names it, a word for it, and its pattern."""

    code: str
    word: str
    pattern: re.Pattern[str]


SHAPES = (
    Shape("PX110", "an encoded image", re.compile(r"data:[\w/+.-]+;base64,[\w+/=]{16,}")),
    Shape(
        "PX110",
        "a signed URL",
        re.compile(r"https?://\S+[?&](?:X-Amz-|X-Goog-|Signature|Expires|sig|se|token)\S*", re.I),
    ),
    Shape("PX103", "a token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.?[\w-]*")),
    Shape("PX101", "a time", re.compile(rf"{DATE}[T ,]*(?:at )?{CLOCK}", re.I)),
    Shape("PX101", "a time", re.compile(rf"\b{CLOCK}\b")),
    Shape("PX101", "a Unix time", re.compile(r"(?<![\w.-])1[4-9]\d{8}(?:\d{3}|\d{6}|\.\d+)?(?![\w-])")),
    Shape(
        "PX105",
        "a path",
        re.compile(r"(?<![\w:/<])(?:~?/|\$HOME/|[A-Za-z]:\\)[\w.@+-]+(?:[/\\][\w.@+-]+)+|/tmp/[\w.-]+"),
    ),
    Shape("PX105", "an address", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")),
    Shape("PX104", "an e-mail address", re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")),
    Shape("PX103", "a UUID", re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.I)),
    Shape("PX103", "a ULID", re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")),
    Shape("PX102", "a date", re.compile(rf"{DATE}", re.I)),
    Shape("PX102", "a weekday", re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", re.I)),
    Shape("PX106", "a percentage", re.compile(r"\d[\d.,]*\s?%")),
    Shape("PX106", "a count", re.compile(r"\b\d[\d.,]*\s?(?:/|of|out of)\s?\d[\d.,]*")),
)


def _any(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.I)


_LABELS = (
    (
        "PX105",
        _any(
            "cwd|pid|host(?:name)?|work(?:ing |ing_|space|dir)|workspace|directory|folder|branch|commit|HEAD|git|"
            "machine|container|pod"
        ),
    ),
    (
        "PX104",
        _any(
            "users?|username|user_?name|customers?|tenants?|clients?|accounts?|members?|person|patients?|employees?|"
            "students?|owner|company|organi[sz]ation|org|team|conversation|e-?mail|my name is|named?|speaking with|"
            "talking (?:to|with)|chatting with|assisting|helping|assistant (?:of|for)|hello|hi|dear|on behalf of"
        ),
    ),
    (
        "PX106",
        _any(
            "turns?|steps?|iterations?|rounds?|attempts?|count(?:er)?|budget|remaining|left|used|tokens?|messages?|"
            "progress|chars?|characters|retries|try|calls?|credits?|balance|number of|total|page|score|level|unread"
        ),
    ),
    (
        "PX103",
        _any(
            "ids?|uuid|request|trace|span|nonce|session|run|ref(?:erence)?|correlation|ticket|cch|hash|build|job|"
            "invocation|seed|token|key|[a-z]+_id"
        ),
    ),
)
_PERSON_ID = re.compile(
    r"(?:user|customer|tenant|client|account|member|patient|employee|student|org|company|conversation) id$", re.I
)
_RETRIEVED = re.compile(
    r"(?:document|context|memor(?:y|ies)|retriev|passage|knowledge|search[ _-]?result|snippet|chunk|excerpt|recall|"
    r"relevant|\bdocs?\b|\bfacts?\b|\bsources?\b|\breferences?\b|\barticles?\b|\bnotes\b|background|evidence|"
    r"corpus|\bfiles?\b)",
    re.I,
)
_QUESTION = re.compile(
    r"\b(?:question|query|user (?:input|message|request)|request|input|topic|text|asks?|task)\b", re.I
)
_EXAMPLES = re.compile(r"(?:\bexamples?\b|few[- ]?shot|\bQ:|\bInput:|\bOutput:|\bdemonstrations?\b|\bshots?\b)", re.I)


class Kind(NamedTuple):
    """The verdict on a changed value: rule, word for it, the value widened, and where it starts in its line."""

    code: str
    word: str
    value: str
    start: int


def changed_span(before: str, after: str) -> tuple[int, int]:
    """The first changed run of words of a line, in the later line."""
    old, new = re.findall(r"\s+|[^\s]+", before), re.findall(r"\s+|[^\s]+", after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    starts = [0]
    for token in new:
        starts.append(starts[-1] + len(token))
    for tag, _, _, b0, b1 in matcher.get_opcodes():
        if tag != "equal":
            return starts[b0], starts[b1]
    return 0, len(after)


def label_code(prefix: str, value: str = "") -> str | None:
    """The rule that the words before a value speak for: the nearest ones decide."""
    text = prefix.replace("_", " ").replace("-", " ")
    best: tuple[int, str] | None = None
    for code, pattern in _LABELS:
        for match in pattern.finditer(text):
            if best is None or match.end() > best[0]:
                best = (match.end(), code)
    if best is not None and best[1] == "PX103" and _PERSON_ID.search(text[: best[0]]):
        return "PX104"
    return best[1] if best else None


def by_shape(before: str, after: str) -> Kind | None:
    """The kind of a value changed inside one line, or None where its shape says nothing."""
    low, high = changed_span(before, after)
    for shape in SHAPES:
        for match in shape.pattern.finditer(after):
            if match.start() < high and match.end() > low:
                if match.end() - match.start() < 0.5 * (high - low) and high - low > 24:
                    continue
                prefix = after[: match.start()][-48:]
                code = shape.code
                if shape.word == "a UUID" and label_code(prefix) in ("PX104",):
                    code = "PX104"
                if shape.word == "a path" and "://" in after[max(0, match.start() - 8) : match.start() + 3]:
                    continue
                return Kind(code, shape.word, match[0], match.start())
    return _by_token(before, after, low, high)


def _by_token(before: str, after: str, low: int, high: int) -> Kind | None:
    raw = after[low:high]
    value = raw.strip(" \t\n\r.,;:!?()[]{}<>\"'`*#=")
    start = low + raw.find(value) if value else low
    # The words that label a value may be glued to it: `cch=a1b2c`, `turn:3`.
    glued = re.match(r"([A-Za-z_ -]{2,})[=:#]\s*(\S+)$", value)
    prefix = after[:low][-48:] + (glued[1] if glued else "")
    if glued:
        start, value = start + glued.start(2), glued[2].strip(" .,;:!?()[]{}<>\"'`")
    if not value or len(value.split()) > 4:
        return None
    label = label_code(prefix)
    letters = re.sub(r"[^A-Za-z]", "", value)
    digits = sum(char.isdigit() for char in value)
    if digits and not letters:
        if label == "PX104":
            return Kind("PX104", "an id of a person or tenant", value, start)
        code = "PX103" if label == "PX103" and digits >= 4 else "PX105" if label == "PX105" else "PX106"
        return Kind(code, {"PX103": "an id", "PX105": "a process id", "PX106": "a counter"}[code], value, start)
    if re.fullmatch(r"[\w.:-]*", value) and " " not in value:
        if label == "PX104" or (label is None and re.match(r"(?:user|cust|tenant|acct|org)[_-]?\d", value, re.I)):
            return Kind("PX104", "an id of a person or tenant", value, start)
        core = re.split(r"[_:-]", value)[-1]
        is_hex = re.fullmatch(r"[0-9a-fA-F]{4,}", core) is not None and (digits > 0 or label == "PX103")
        if label == "PX105" and (digits or label):
            return Kind("PX105", "a machine or workspace", value, start)
        if is_hex or (digits >= 2 and len(letters) >= 2 and len(value) >= 6):
            return Kind("PX103", "an id", value, start)
    if label == "PX105":
        return Kind("PX105", "a machine or workspace", value, start)
    if label == "PX104" or re.search(r"\b(?:for|with|to|Mr|Ms|Mrs|Dr)\.? $", prefix + " "[: not prefix.endswith(" ")]):
        named = all(word[:1].isupper() for word in re.findall(r"[A-Za-zÀ-ÿ']+", value)) and letters
        if named:
            return Kind("PX104", "a name", value, start)
    return None


def by_context(context: str, line_prefix: str, role: str, pooled: bool) -> tuple[str, str]:
    """The rule for changed prose, from the words before it and the role that speaks."""
    near = context[-300:] + line_prefix
    if pooled and _EXAMPLES.search(near):
        return "PX108", "examples drawn anew"
    if _RETRIEVED.search(near):
        return "PX107", "retrieved text"
    if pooled:
        return "PX108", "blocks drawn anew"
    if role == "user" or _QUESTION.search(near):
        return "PX109", "the user's words"
    return "PX111", "a value"
