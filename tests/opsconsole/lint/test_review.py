# ruff: noqa: E501 - tables of inputs, one per line
"""What a second reader found: ways into a prompt that were not followed, and inputs that cost more than one record.

Each case failed before its rule was written. The trap: look-alikes stand beside the defects they resemble.
"""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opsconsole.cli import app
from opsconsole.errors import UsageError
from opsconsole.lint.frontends import jinja
from opsconsole.lint.frontends.javascript import JsFrontend
from opsconsole.lint.frontends.python import PythonFrontend
from opsconsole.lint.logcheck import LogAnalysis, LogOptions
from opsconsole.lint.reader import LogFile
from opsconsole.lint.truth import replay

HEAD = "import random, socket, time, uuid\nfrom string import Template\nRULES = open('r.md').read()\n"
SEND = "cl.chat.completions.create(model='m', messages=[{'role': 'system', 'content': %s}, {'role': 'user', 'content': q}])\n"
ASK = "def ask(cl, q):\n    return " + SEND
RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def python(text: str) -> list[tuple[str, str, int, int]]:
    findings, notes = PythonFrontend({"app.py": lambda: text}).check("app.py", text)
    assert notes == []
    return [(item.code, item.severity.value, item.line, item.col or 0) for item in findings]


FOLLOWED = {
    "instructions of a Responses call": ("def ask(cl, q):\n    return cl.responses.create(model='m', instructions='On ' + socket.gethostname() + RULES, input=q)\n", ("PX105", "error", "socket.gethostname()")),
    "messages made by dict()": ("def ask(cl, q):\n    m = [dict(role='system', content=f'{uuid.uuid4()} {RULES}')]\n    return cl.chat.completions.create(model='m', messages=m)\n", ("PX103", "error", "uuid.uuid4()}")),
    "method of an object made here": ("class P:\n    def text(self):\n        return f'{time.time()} {RULES}'\ndef ask(cl, q):\n    p = P()\n    return " + SEND % "p.text()", ("PX101", "error", "time.time()}")),
    "static method": ("class P:\n    @staticmethod\n    def text():\n        return f'{time.time()} {RULES}'\n" + ASK % "P.text()", ("PX101", "error", "time.time()}")),
    "string.Template": ("T = Template('At $stamp. $rules')\n" + ASK % "T.substitute(stamp=time.time(), rules=RULES)", ("PX101", "error", "time.time(), rules")),
    "case of a match": ("def ask(cl, q, kind):\n    match kind:\n        case 1:\n            s = f'{time.time()} {RULES}'\n        case _:\n            s = RULES\n    return " + SEND % "s", ("PX101", "error", "time.time()}")),
    "counter of a module": ("turn = 0\ndef ask(cl, q):\n    global turn\n    turn += 1\n    return " + SEND % "f'{turn} {RULES}'", ("PX106", "warning", "turn} {")),
    "counter of an object": ("class A:\n    def __init__(self):\n        self.n = 0\n    def ask(self, cl, q):\n        self.n += 1\n        return " + SEND % "f'{self.n} {RULES}'", ("PX106", "warning", "self.n} {")),
}  # fmt: skip
CALM = {
    "seeded in the function": "def ask(cl, q, shots):\n    random.seed(0)\n    return " + SEND % "' '.join(random.sample(shots, 3)) + RULES",
    "template of fixed words": "T = Template('Hello $tone. $rules')\n" + ASK % "T.substitute(tone='calm', rules=RULES)",
    "attribute made once": "class P:\n    def __init__(self):\n        self.at = time.time()\n    def text(self):\n        return f'{self.at} {RULES}'\nMADE = P()\n" + ASK % "MADE.text()",
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_way_into_the_prompt_is_followed_to_its_place(name: str) -> None:
    body, (code, severity, written) = FOLLOWED[name]
    before = (HEAD + body)[: (HEAD + body).index(written)]
    place = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert python(HEAD + body) == [(code, severity, *place)]


@pytest.mark.parametrize("name", CALM)
def test_what_only_looks_like_it_is_silent(name: str) -> None:
    assert python(HEAD + CALM[name]) == []


@pytest.mark.parametrize(
    ("first", "count", "expected"), [("let", "n += 1;", ["PX106"]), ("let", "n++;", ["PX106"]), ("let", "", [])]
)
def test_a_counter_of_a_javascript_module_is_found(first: str, count: str, expected: list[str]) -> None:
    text = f"{first} n = 0;\nexport function ask(c, q) {{ {count} return c.chat.completions.create({{ messages: [{{ role: 'system', content: `${{n}} ${{RULES}}` }}] }}); }}\n"
    assert [item.code for item in JsFrontend({"a.js": lambda: text}).check("a.js", text)] == expected


def test_the_number_of_a_ticket_is_an_id() -> None:
    assert [item.code for item in jinja.check("p.j2", "{{ ticket_id }}\n" + RULE_LINES, 64)] == ["PX103"]


def body(at: int, more: str = "") -> str:
    system = {"role": "system", "content": f"Now 2026-05-01T10:0{at}:31Z\n{RULE_LINES}{more}"}
    return json.dumps({"messages": [system, {"role": "user", "content": f"Where is parcel {at}?"}]})


BODIES = [body(at) for at in range(6)]


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("[" * 100_000 + "\n" + "\n".join(BODIES), 6),
        ("[1,2\n" + "\n".join(BODIES), 6),
        ("[" + ",\n".join(BODIES) + ',{"messages":[{"ro', 6),
        ("[\n" + ",\n".join([*BODIES[:4], '{"messages": oops}', *BODIES[4:]]) + "]", 4),
    ],
    ids=["a first line too deep", "a first line cut off", "an array cut off", "an array broken within"],
)
def test_a_broken_bracket_costs_what_is_broken(text: str, records: int) -> None:
    log = LogFile("log.jsonl", io.BytesIO(text.encode()))
    assert (len(list(log.requests())), log.bad) == (records, 1)
    assert log.notes[0].code == "PX901"


def places(bodies: list[dict[str, Any]]) -> list[tuple[str, str, int | None]]:
    """Codes and places of the findings of a log."""
    log = LogFile("log.jsonl", io.BytesIO("\n".join(map(json.dumps, bodies)).encode()))
    analysis = LogAnalysis(LogOptions())
    for request in log.requests():
        analysis.feed(request)
    return [(item.code, item.path, item.char) for item in analysis.finish({"log.jsonl": log}).findings]


def test_two_readings_of_one_changed_character_are_one_finding() -> None:
    texts = ["Note 0.12 on fees says Ann came", "Note 0.77 on rent says Bo left and stayed", "Note 0.31 on rent says Bo left", "Note 0.95 on rent says Bo left"] * 3  # fmt: skip
    bodies = [{"messages": [{"role": "user", "content": f"<context>\n{text} {at}.\n</context>\n{RULE_LINES}"}]} for at, text in enumerate(texts)]  # fmt: skip
    found = [place[1:] for place in places(bodies)]
    assert found
    assert len(found) == len(set(found))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "log.jsonl"
    file.write_bytes("\n".join([*BODIES, body(7, "\ud800"), ""]).encode() + b"\xff\xfe\n")
    return file


def lint(*words: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    made = CliRunner().invoke(app, ["lint", *words], input=stdin)
    failure = f"{made.exception}" if made.exception is not None else ""
    return made.exit_code, made.stdout, made.stderr + failure


def test_a_log_is_not_overwritten_by_its_own_copy(log: Path) -> None:
    before = log.read_bytes()
    _, _, told = lint("log.jsonl", "--fix", "--unsafe-fixes", "--out", "./log.jsonl")
    assert "never changed in place" in told
    assert log.read_bytes() == before


def test_bytes_and_half_pairs_survive_a_fix(log: Path) -> None:
    code, _, _ = lint("log.jsonl", "--fix", "--unsafe-fixes", "--out", "copy.jsonl")
    assert code == 1
    lines = Path("copy.jsonl").read_bytes().splitlines()
    assert lines[-1] == b"\xff\xfe"
    assert "\ud800" in json.loads(lines[-2])["messages"][0]["content"]


def test_a_diff_shows_what_a_log_would_become_and_writes_nothing(log: Path) -> None:
    before = log.read_bytes()
    code, shown, _ = lint("log.jsonl", "--diff", "--unsafe-fixes")
    assert code == 1
    assert shown.startswith("--- log.jsonl\n+++ log.jsonl\n@@ -1 +1 @@\n-")
    assert log.read_bytes() == before


def test_line_ends_of_a_source_survive_a_fix(log: Path) -> None:
    text = HEAD + ASK % "f'{time.time()} {RULES}'"
    Path("app.py").write_bytes(text.replace("\n", "\r\n").encode())
    lint("app.py", "--fix", "--unsafe-fixes")
    written = Path("app.py").read_bytes()
    assert b"{RULES}\\n{time.time()}" in written
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_source_that_is_not_utf8_is_reported_and_left_alone(log: Path) -> None:
    data = b"# caf\xe9\n" + (HEAD + ASK % "f'{time.time()} {RULES}'").encode()
    Path("app.py").write_bytes(data)
    code, shown, _ = lint("app.py", "--fix", "--unsafe-fixes")
    assert code == 1
    assert "PX101" in shown
    assert Path("app.py").read_bytes() == data
    _, _, told = lint("-", "--stdin-filename", "app.py", "--fix", stdin=data)
    assert "not UTF-8" in told


@pytest.mark.parametrize("option", ["--output-file", "--write-baseline"])
def test_a_place_that_cannot_be_written_is_a_sentence(log: Path, option: str) -> None:
    _, _, told = lint("log.jsonl", option, "missing/folder/x")
    assert f"{option} missing/folder/x: cannot be written" in told


def test_settings_that_leave_no_rule_are_refused(log: Path) -> None:
    Path("opsconsole.toml").write_text('[lint]\nselect = ["PX101"]\nignore = ["PX1"]\n')
    _, _, told = lint("log.jsonl")
    assert "opsconsole.toml:3: ignore: leaves no rule" in told


def test_a_lone_source_that_cannot_be_parsed_is_not_a_clean_run(log: Path) -> None:
    Path("bad.py").write_text("cl.chat.completions.create(messages=[\ndef f(:\n")
    code, shown, _ = lint("bad.py")
    assert code == 2
    assert "PX901 bad.py:" in shown


def test_a_replay_without_an_engine_is_a_sentence() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(UsageError, match="no answer"):
            replay(LogAnalysis(LogOptions()), [], url, "salt")


def test_lists_of_token_ids_that_diverge_early_are_found_at_the_character() -> None:
    rows = [{"prompt": [1, 2, 3, 100 + at, *range(500, 900)]} for at in range(8)]
    calm = [{"prompt": [*range(500, 900), 1, 100 + at]} for at in range(8)]
    assert places(rows) == [("PX111", "prompt", 12)]
    assert places(calm) == []


def test_a_weekday_is_a_date() -> None:
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    bodies = [{"messages": [{"role": "system", "content": f"It is {day}.\n{RULE_LINES}"}]} for day in days]
    assert places(bodies) == [("PX102", "messages[0].content", 6)]


def test_two_conversations_at_once_are_no_rewritten_history() -> None:
    bodies = []
    talks: list[list[dict[str, str]]] = [[], []]
    for turn in range(5):
        for topic, history in zip(("tax", "music"), talks, strict=True):
            history.append({"role": "user", "content": f"Next about {topic}, part {turn}."})
            bodies.append({"messages": [{"role": "system", "content": RULE_LINES}, *history]})
            history.append({"role": "assistant", "content": f"On {topic} {turn}: " + f"{topic} has rules. " * 20})
    assert places(bodies) == []


def test_a_time_whose_date_stays_is_joined_to_its_source_and_redacted(log: Path) -> None:
    system = "You serve desk 7, time of the request Mon Jun  1 10:0{0}:3{0} 2026.\n{1}"
    bodies = [
        {
            "messages": [
                {"role": "system", "content": system.format(at, RULE_LINES)},
                {"role": "user", "content": f"{at}?"},
            ]
        }
        for at in range(6)
    ]
    log.write_text("".join(json.dumps(one) + "\n" for one in bodies))
    Path("app.py").write_text(HEAD + ASK % 'f"You serve desk {n}, time of the request {time.ctime()}.{RULES}"')
    _, shown, _ = lint("log.jsonl", "app.py", "--no-cache", "--format", "json", "--redact")
    found = json.loads(shown)["findings"]
    assert "written at app.py:5" in next(item["message"] for item in found if item["file"] == "log.jsonl")
    assert "desk" not in shown
