# ruff: noqa: E501 - tables of inputs, one per line
"""Sources and templates of our own, one per way a value reaches a prompt, and look-alikes that must stay silent."""

from __future__ import annotations

import pytest

from opsconsole.lint.frontends import chat_template, jinja, plain, structured
from opsconsole.lint.frontends.javascript import JsFrontend
from opsconsole.lint.frontends.python import PythonFrontend
from opsconsole.lint.model import Finding

HEAD = "import datetime, glob, os, random, time, uuid\nfrom datetime import date\nRULES = open('r.md').read()\n"
CHAT = "client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': %s}, {'role': 'user', 'content': q}])\n"


def python(text: str, **others: str) -> list[tuple[str, str, int]]:
    files = {"app.py": text, **{name.replace("__", "/") + ".py": body for name, body in others.items()}}
    frontend = PythonFrontend({name: (lambda body=body: body) for name, body in files.items()})  # type: ignore[misc]
    findings, notes = frontend.check("app.py", text)
    assert notes == []
    return brief(findings)


def brief(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return sorted((item.code, item.severity.value, item.line) for item in findings)


def ask(system: str, signature: str = "client, q", before: str = "") -> str:
    return f"{HEAD}def ask({signature}):\n{before}    return {CHAT % system}"


POSITIVE = {
    "f-string": (ask("f'Now {datetime.datetime.now()}. {RULES}'"), ("PX101", "error", 5)),
    "plus": (ask("str(time.time()) + RULES"), ("PX101", "error", 5)),
    "percent": (ask("'At %s: ' % time.ctime() + RULES"), ("PX101", "error", 5)),
    "format": (ask("'Run {}. '.format(uuid.uuid4()) + RULES"), ("PX103", "error", 5)),
    "join of a list": (ask("'\\n'.join(['You are at ' + os.getcwd(), RULES])"), ("PX105", "error", 5)),
    "date only": (ask("f'Today {date.today()}. {RULES}'"), ("PX102", "info", 5)),
    "strftime of a day": (ask("f'{datetime.datetime.now():%Y-%m-%d} {RULES}'"), ("PX102", "info", 5)),
    "user by parameter": (ask("f'Hi {user_name}! {RULES}'", "client, user_name, q"), ("PX104", "warning", 5)),
    "question first": (HEAD + "def ask(client, question):\n    return client.completions.create(model='m', prompt=question + RULES)\n", ("PX109", "warning", 5)),
    "glob": (ask("'\\n'.join(glob.glob('*.md')) + RULES"), ("PX203", "error", 5)),
    "shuffled in place": (ask("'\\n'.join(shots) + RULES", "client, q", "    shots = ['a', 'b']\n    random.shuffle(shots)\n"), ("PX108", "error", 7)),
    "retriever of self": (HEAD + "class Bot:\n    def ask(self, client, q):\n        found = self.store.similarity_search(q)\n        return " + CHAT % "f'{found} {RULES}'", ("PX107", "error", 7)),
    "length of the history": (ask("f'Turn {len(history)}. {RULES}'", "client, history, q"), ("PX106", "warning", 5)),
    "appended parts": (ask("text", "client, q", "    text = 'Now: '\n    text += time.ctime()\n    text += RULES\n"), ("PX101", "error", 6)),
    "keyword helper": (HEAD + "def build(*, stamp):\n    return f'{stamp} {RULES}'\ndef ask(client, q):\n    return " + CHAT % "build(stamp=time.time())", ("PX101", "error", 5)),
    "set of tools": (HEAD + "def ask(client, q, names):\n    tools = [{'name': n} for n in set(names)]\n    return client.chat.completions.create(model='m', tools=tools, messages=[{'role': 'system', 'content': RULES}])\n", ("PX201", "error", 5)),
    "anthropic system tail": (HEAD + "def ask(client, history):\n    return client.messages.create(model='m', system=RULES + f'{datetime.datetime.now()}', messages=history)\n", ("PX101", "error", 5)),
    "raw http": (HEAD + "def ask(http, q):\n    return http.post('/v1/chat/completions', json={'messages': [{'role': 'system', 'content': f'{time.time()} {RULES}'}]})\n", ("PX101", "error", 5)),
    "property": (HEAD + "class A:\n    @property\n    def head(self):\n        return f'{time.time()} '\n    def ask(self, client, q):\n        return " + CHAT % "self.head + RULES", ("PX101", "error", 7)),
}  # fmt: skip
NEGATIVE = {
    "clock behind everything": ask("RULES + f'{datetime.datetime.now()}'"),
    "clock in the user turn": HEAD + "def ask(client, history, q):\n    return client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': RULES}, *history, {'role': 'user', 'content': f'{time.time()} {q}'}])\n",
    "made at start": HEAD + f"STARTED = time.time()\ndef ask(client, q):\n    return {CHAT % 'str(STARTED) + RULES'}",
    "cached": HEAD + f"import functools\n@functools.cache\ndef head():\n    return f'{{time.time()}} '\ndef ask(client, q):\n    return {CHAT % 'head() + RULES'}",
    "set in init": HEAD + "class A:\n    def __init__(self):\n        self.head = f'{time.time()} '\n    def ask(self, client, q):\n        return " + CHAT % "self.head + RULES",
    "sorted set": ask("'\\n'.join(sorted(set(parts))) + RULES", "client, q, parts"),
    "seeded draw": ask("'\\n'.join(rng.sample(POOL, 3)) + RULES", "client, q", "    rng = random.Random(3)\n"),
    "log file": ask("RULES", "client, q", "    open(f'{time.time()}.log', 'w').write(q)\n"),
    "prose": HEAD.replace("open('r.md').read()", "'Use now() and uuid4() as you like. ' * 30") + f"def ask(client, q):\n    return {CHAT % 'RULES'}",
    "a limit that sounds like a counter": ask("f'At most {max_turns} turns. {RULES}'", "client, max_turns, q"),
    "a tool's clock": HEAD + f"def clock():\n    return {{'now': time.time()}}\ndef ask(client, q):\n    return {CHAT % 'RULES'}",
    "session started once": HEAD + "def chat(client):\n    talk = [{'role': 'system', 'content': RULES + time.ctime()}]\n    while True:\n        talk.append({'role': 'user', 'content': input()})\n        client.chat.completions.create(model='m', messages=talk)\n",
    "metadata": HEAD + "def ask(client, q):\n    return client.chat.completions.create(model='m', user=str(uuid.uuid4()), messages=[{'role': 'system', 'content': RULES}, {'role': 'user', 'content': q}])\n",
    "version text": HEAD + "VERSION = '2024-11-05'\n" + f"def ask(client, q):\n    return {CHAT % 'f{0}v{{VERSION}} {{RULES}}{0}'.format(chr(34))}",
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIVE)
def test_python_is_followed_into_the_prompt(name: str) -> None:
    text, expected = POSITIVE[name]
    assert python(text) == [expected]


@pytest.mark.parametrize("name", NEGATIVE)
def test_python_that_only_looks_volatile_is_silent(name: str) -> None:
    assert python(NEGATIVE[name]) == []


def test_a_helper_in_another_file_is_followed() -> None:
    other = HEAD + "def system():\n    return f'Now {time.time()}. {RULES}'\n"
    text = f"from prompts.base import system\ndef ask(client, q):\n    return {CHAT % 'system()'}"
    assert python(text, prompts__base=other) == [("PX101", "error", 5)]


def test_the_place_of_a_field_in_a_triple_quoted_text_is_exact() -> None:
    text = (
        HEAD
        + 'def ask(client, q):\n    s = f"""You are calm.\n  Now: {time.time()}\n{RULES}"""\n    return '
        + CHAT % "s"
    )
    frontend = PythonFrontend({"app.py": lambda: text})
    (found,) = frontend.check("app.py", text)[0]
    assert (found.line, found.col) == (6, 9)


def test_the_place_of_an_item_of_a_joined_list_is_exact() -> None:
    text = (
        HEAD
        + "def ask(client, q):\n    head = '\\n'.join(['You are calm.', time.ctime(), RULES])\n    return "
        + CHAT % "head"
    )
    (found,) = PythonFrontend({"app.py": lambda: text}).check("app.py", text)[0]
    assert (found.line, found.col) == (5, 40)


def test_broken_python_is_a_note_with_its_line() -> None:
    text = "client.chat.completions.create(messages=[\ndef x(:\n"
    findings, notes = PythonFrontend({"a.py": lambda: text}).check("a.py", text)
    assert findings == []
    assert [(note.code, note.file) for note in notes] == [("PX901", "a.py")]


JS_CALL = "client.chat.completions.create({ model: 'm', messages: [{ role: 'system', content: %s }, { role: 'user', content: q }] });\n"
JS_HEAD = "import { RULES } from './rules';\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"export const ask = (client, q) => {JS_CALL % '`${new Date().toISOString()} ${RULES}`'}",
            [("PX101", "error", 2)],
        ),
        (
            f"export function ask(client, q) {{ return {JS_CALL % 'crypto.randomUUID() + RULES'} }}",
            [("PX103", "error", 2)],
        ),
        (
            f"export const ask = async (client, userName, q) => {JS_CALL % '`Hi ${userName}. ${RULES}`'}",
            [("PX104", "warning", 2)],
        ),
        (
            f"class A {{ ask(client, q) {{ return {JS_CALL % '`In ${process.cwd()}: ${RULES}`'} }} }}",
            [("PX105", "error", 2)],
        ),
        (
            "export const run = (messages) => generateText({ model, system: `${RULES} ${Date.now()}`, messages });",
            [("PX101", "error", 2)],
        ),
        (
            f"class A {{ head() {{ return `At ${{Date.now()}}\\n`; }} ask(client, q) {{ return {JS_CALL % 'this.head() + RULES'} }} }}",
            [("PX101", "error", 2)],
        ),
        (
            f"export const ask = (client, q) => {JS_CALL % '[`ID ${crypto.randomUUID()}`, RULES].join(nl)'}",
            [("PX103", "error", 2)],
        ),
        ("export const run = (q) => generateText({ model, system: RULES, prompt: `${Date.now()} ${q}` });", []),
        (
            f"const started = new Date().toISOString();\nexport const ask = (client, q) => {JS_CALL % 'started + RULES'}",
            [],
        ),
        (f"export const ask = (client, q) => {{ console.log(Date.now()); return {JS_CALL % 'RULES'} }}", []),
    ],
)
def test_javascript_is_followed_into_the_prompt(body: str, expected: list[tuple[str, str, int]]) -> None:
    for name in ("app.ts", "app.js"):
        text = JS_HEAD + body
        assert brief(JsFrontend({name: lambda text=text: text}).check(name, text)) == expected  # type: ignore[misc]


RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(30))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Request {request_id}\n" + RULE_LINES, ["PX103"]),
        ("You help {user_name}.\n" + RULE_LINES, ["PX104"]),
        ("Today is {today}.\n" + RULE_LINES, ["PX102"]),
        ("Context:\n{context}\n" + RULE_LINES, ["PX107"]),
        (RULE_LINES + "Now: {current_time}\n", []),
        ("Say now() or {\"json\": 1} or {tone}.\n" + RULE_LINES, []),
    ],
)  # fmt: skip
def test_plain_templates_are_judged_by_the_names_of_their_holes(text: str, codes: list[str]) -> None:
    assert [item.code for item in plain.check("p.txt", text, 64)] == codes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("{{ now().isoformat() }}\n" + RULE_LINES, ["PX101"]),
        ("{{ now().strftime('%d %B %Y') }}\n" + RULE_LINES, ["PX102"]),
        ("{% set t = now() %}At {{ t }}\n" + RULE_LINES, ["PX101"]),
        ("{% for d in documents %}{{ d.text }}\n{% endfor %}" + RULE_LINES, ["PX107"]),
        ("{{ examples | random }}\n" + RULE_LINES, ["PX108"]),
        ("{{ request_id }}\n" + RULE_LINES, ["PX103"]),
        (RULE_LINES + "{{ now() }}", []),
        ("{# now() #}{{ tone }}\n" + RULE_LINES, []),
    ],
)
def test_jinja_templates_are_judged_by_calls_and_names(text: str, codes: list[str]) -> None:
    assert [item.code for item in jinja.check("p.j2", text, 64)] == codes


LOOP = "{%- for m in messages %}<{{ m.role }}>{{ m.content }}</s>{%- endfor %}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ bos_token }}" + LOOP, []),
        ("{{ strftime_now('%d %b %Y') }}" + LOOP, [("PX401", "info")]),
        ("{{ strftime_now('%H:%M') }}" + LOOP, [("PX401", "error")]),
        ("Effort: {{ reasoning_effort | default('low') }}\n" + LOOP, [("PX404", "info")]),
        ("{%- for m in messages %}{% if loop.last and tools %}[T]{{ tools | tojson }}{% endif %}<{{ m.role }}>{{ m.content }}{%- endfor %}", [("PX402", "warning")]),
        ("{%- for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}{%- endfor %}", [("PX403", "info")]),
        ("{%- for m in messages %}<{{ m.role }}>{{ m.content }}{%- endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}", []),
    ],
)  # fmt: skip
def test_chat_templates_are_rendered_and_compared(text: str, expected: list[tuple[str, str]]) -> None:
    assert chat_template.looks_like(text)
    findings, notes = chat_template.check("t.jinja", text)
    assert notes == []
    assert [(item.code, item.severity.value) for item in findings] == expected


def test_a_chat_template_cannot_reach_out_of_its_sandbox() -> None:
    text = "{{ ''.__class__.__mro__[1].__subclasses__() }}" + LOOP
    findings, notes = chat_template.check("t.jinja", text)
    assert findings == []
    assert notes[0].code == "PX901"


def test_prompts_in_yaml_json_and_toml_are_found_at_their_place() -> None:
    body = RULE_LINES.replace("\n", "\n    ")
    text = f"name: x\nsystem_prompt: |\n    Now: {{current_time}}\n    {body}\n"
    (found,) = structured.check("p.yaml", text, 64)[0]
    assert (found.code, found.line, found.col) == ("PX101", 3, 10)
    one_line = RULE_LINES.replace("\n", " ")
    (found,) = structured.check("p.toml", f'[a]\nprompt = "At {{timestamp}} {one_line}"\n', 64)[0]
    assert (found.code, found.line, found.col) == ("PX101", 2, 14)
    (found,) = structured.check("p.json", f'{{"prompt": "{{user_name}}: {one_line}"}}', 64)[0]
    assert (found.code, found.line, found.col) == ("PX104", 1, 13)
