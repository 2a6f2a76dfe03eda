# ruff: noqa: E501 - tables of inputs, one per line
"""What a linter owes its users: codes, selection, ignores, configuration, exit codes, formats, baseline, fixes, bytes.

Runs the command in process. The trap: each test has its own folder with its own configuration, so nothing of this
repository's settings leaks in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from opsconsole.cli import app, main
from opsconsole.lint.rules.table import RULES

CLOCK = """import time
RULES = open('r.md').read()
def ask(client, q):
    return client.completions.create(model='m', prompt=f'{time.time()} {RULES}')
"""
SET = """RULES = open('r.md').read()
def ask(client, parts):
    return client.completions.create(model='m', prompt='\\n'.join(set(parts)) + RULES)
"""
RULE_LINES = "".join(f"Rule {n}: keep calm and carry on with step {n}.\n" for n in range(40))


def bodies(count: int = 6) -> str:
    made: list[dict[str, Any]] = []
    for at in range(count):
        text = f"Now: 2026-05-01T10:0{at}:31Z\n{RULE_LINES}"
        made.append({"messages": [{"role": "system", "content": text}, {"role": "user", "content": f"Q{at}"}]})
    return "".join(json.dumps(body) + "\n" for body in made)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "app.py").write_text(CLOCK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint(*words: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["lint", *words], input=data)


def test_exit_codes_are_0_1_and_2(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lint("app.py").exit_code == 1
    assert lint("app.py", "--exit-zero").exit_code == 0
    assert lint("app.py", "--ignore", "PX1").exit_code == 0
    for words in (
        ["nowhere.py"],
        ["app.py", "--select", "PX7"],
        ["app.py", "--engine", "abacus"],
        ["app.py", "--fail-on", "x"],
    ):
        monkeypatch.setattr("sys.argv", ["opsconsole", "lint", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2, words


def test_fail_on_lowers_the_bar(here: Path) -> None:
    (here / "app.py").write_text(CLOCK.replace("time.time()", "iteration").replace("client, q", "client, iteration"))
    assert lint("app.py").exit_code == 0
    assert lint("app.py", "--fail-on", "warning").exit_code == 1


def test_selectors_are_prefixes_and_names(here: Path) -> None:
    assert "PX101" in lint("app.py", "--select", "PX1").stdout
    assert "PX101" not in lint("app.py", "--select", "PX2").stdout
    assert "PX101" in lint("app.py", "--select", "timestamp-before-stable").stdout


def test_an_inline_ignore_silences_its_line_and_an_unused_one_is_a_finding(here: Path) -> None:
    (here / "app.py").write_text(CLOCK.replace("{RULES}')", "{RULES}')  # px: ignore[PX101] wanted"))
    assert lint("app.py").exit_code == 0
    (here / "app.py").write_text(CLOCK.replace("import time", "import time  # px: ignore[PX101] not here"))
    out = lint("app.py").stdout
    assert "app.py:1:14: warning PX900" in out
    assert "PX101" in out


def test_a_text_that_looks_like_an_ignore_is_none(here: Path) -> None:
    (here / "app.py").write_text("HELP = 'write # px: ignore[PX101] reason'\nprompt = 1\n")
    assert lint("app.py", "--fail-on", "info").exit_code == 0


@pytest.mark.parametrize(
    ("name", "comment"),
    [
        ("a.j2", "{# px: ignore[PX101] x #}\n"),
        ("a.ts", "// px: ignore[PX101] x\n"),
        ("p.yaml", "# px: ignore[PX101] x\n"),
    ],
)
def test_an_ignore_works_in_the_comment_of_each_language(here: Path, name: str, comment: str) -> None:
    text = {
        "a.j2": "{{ now() }}\n" + RULE_LINES,
        "a.ts": "import { RULES } from './r';\n%sexport const f = (c) => c.create({ prompt: `${Date.now()} ${RULES}` });\n",
        "p.yaml": "%sprompt: 'At {timestamp} " + RULE_LINES.replace("\n", " ") + "'\n",
    }[name]
    (here / name).write_text(text.replace("%s", ""))
    assert lint(name, "--fail-on", "warning").exit_code == 1
    (here / name).write_text(text.replace("%s", comment) if "%s" in text else comment + text)
    assert lint(name, "--fail-on", "warning").exit_code == 0


def test_settings_come_from_the_nearest_file(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.opsconsole.lint]\nignore = ['PX101']\n")
    assert lint("app.py").exit_code == 0
    (here / "opsconsole.toml").write_text("[lint]\nper-file-ignores = { 'other.py' = ['PX1'] }\n")
    assert lint("app.py").exit_code == 1
    (here / "opsconsole.toml").write_text("[lint]\nper-file-ignores = { '*.py' = ['PX1'] }\n")
    assert lint("app.py").exit_code == 0
    (here / "opsconsole.toml").write_text("[lint.severity]\nPX101 = 'info'\n")
    assert lint("app.py").exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lint]\nselct = ['PX1']\n", "opsconsole.toml:2: selct is not a setting"),
        ("[lint]\nmin-tokens = 'many'\n", "opsconsole.toml:2: min-tokens has the wrong type"),
        ("[lint]\n\nignore-values = ['(']\n", "opsconsole.toml:3: ignore-values: '(' is not a regular expression"),
        ("[lint]\nselect = ['QQ9']\n", "opsconsole.toml:2: select: unknown rule selector"),
        ("[lint\n", "opsconsole.toml:1: not valid TOML"),
    ],
)
def test_a_mistake_in_the_configuration_names_file_and_line(
    here: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "opsconsole.toml").write_text(text)
    monkeypatch.setattr("sys.argv", ["opsconsole", "lint", "app.py"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "PX905" in error
    assert said in error


def test_configured_sinks_and_sources_are_followed(here: Path) -> None:
    (here / "app.py").write_text(
        "from lib import tick, send\nRULES = open('r').read()\ndef f():\n    send(f'{tick()} {RULES}')\n"
    )
    assert lint("app.py").exit_code == 0
    (here / "opsconsole.toml").write_text("[lint]\nsinks = ['send']\nsources = { tick = 'PX101' }\n")
    assert "app.py:4:13: error PX101" in lint("app.py").stdout


def test_every_format_carries_the_finding(here: Path) -> None:
    (here / "log.jsonl").write_text(bodies())
    data = json.loads(lint("app.py", "log.jsonl", "--format", "json").stdout)
    assert [(f["code"], f["file"], f["line"]) for f in data["findings"]] == [
        ("PX101", "app.py", 4),
        ("PX101", "log.jsonl", 2),
    ]
    assert (data["findings"][1]["path"], data["findings"][1]["char"]) == ("messages[0].content", 20)
    sarif = json.loads(lint("app.py", "log.jsonl", "--format", "sarif").stdout)["runs"][0]
    assert [rule["id"] for rule in sarif["tool"]["driver"]["rules"]] == ["PX101"]
    assert sarif["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 4, "startColumn": 59}
    assert sarif["results"][1]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "messages[0].content:20"
    assert lint("app.py", "--format", "github").stdout.startswith("::error file=app.py,line=4,col=59,title=PX101::")


def test_the_same_input_gives_the_same_bytes(here: Path) -> None:
    (here / "log.jsonl").write_text(bodies(12))
    for form in ("json", "sarif", "text", "github"):
        made = {lint("app.py", "log.jsonl", "--format", form, "--no-cache").stdout_bytes for _ in range(2)}
        assert len(made) == 1


def test_the_bytes_do_not_depend_on_the_hash_seed(here: Path) -> None:
    (here / "log.jsonl").write_text(bodies(12))
    made = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "opsconsole", "lint", "--no-cache", "--format", "json", "log.jsonl", "app.py"]
        run = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed})
        made.add(run.stdout)
    assert len(made) == 1


def test_a_remembered_result_equals_a_fresh_one_and_follows_changes(here: Path) -> None:
    first = lint("app.py", "--format", "json").stdout
    assert (here / ".opsconsole_cache" / "lint").is_dir()
    assert lint("app.py", "--format", "json").stdout == first
    (here / "app.py").write_text("x = 1\n")
    assert json.loads(lint("app.py", "--format", "json").stdout)["findings"] == []


def test_the_report_can_go_to_a_file_and_be_quiet(here: Path) -> None:
    assert lint("app.py", "--output-file", "out.json", "--format", "json").stdout == ""
    assert json.loads((here / "out.json").read_text())["findings"][0]["code"] == "PX101"
    assert "finding in" not in lint("app.py", "-q").stdout
    assert lint("app.py", "--statistics").stdout == "     1  PX101  timestamp-before-stable\n"


def test_a_baseline_hides_what_is_known_and_shows_what_is_new(here: Path) -> None:
    assert lint("app.py", "--write-baseline", "known.json").exit_code == 0
    assert lint("app.py", "--baseline", "known.json").exit_code == 0
    (here / "app.py").write_text("\n\n" + CLOCK)
    assert lint("app.py", "--baseline", "known.json").exit_code == 0
    (here / "app.py").write_text(CLOCK.replace("time.time()", "uuid.uuid4()").replace("import time", "import uuid"))
    assert lint("app.py", "--baseline", "known.json").exit_code == 1


def test_standard_input_goes_by_a_name(here: Path) -> None:
    assert "x.py:4:59" in lint("-", "--stdin-filename", "x.py", data=CLOCK.encode()).stdout
    assert "PX101" in lint("-", data=bodies().encode()).stdout


def test_folders_globs_and_gitignore(here: Path) -> None:
    (here / "sub" / "deep").mkdir(parents=True)
    for name in ("sub/a.py", "sub/deep/b.py", "sub/c.gen.py", "README.md"):
        (here / name).write_text(CLOCK)
    (here / ".gitignore").write_text("*.gen.py\ndeep/\n")
    assert lint(".", "--show-files").stdout.split() == ["app.py", "sub/a.py"]
    assert lint("sub/*.py", "--show-files").stdout.split() == ["sub/a.py", "sub/c.gen.py"]
    assert lint(".", "--exclude", "sub/*", "--show-files").stdout.split() == ["app.py"]


def test_safe_fixes_are_applied_and_shown_as_a_diff(here: Path) -> None:
    (here / "app.py").write_text(SET)
    shown = lint("app.py", "--diff")
    assert shown.exit_code == 1
    assert (
        "+    return client.completions.create(model='m', prompt='\\n'.join(sorted(set(parts))) + RULES)"
        in shown.stdout
    )
    assert (here / "app.py").read_text() == SET
    assert lint("app.py", "--fix").exit_code == 0
    assert "sorted(set(parts))" in (here / "app.py").read_text()
    assert lint("app.py", "--diff").exit_code == 0


def test_fix_on_standard_input_writes_the_fixed_text(here: Path) -> None:
    out = lint("-", "--fix", "--stdin-filename", "x.py", data=SET.encode()).stdout
    assert out == SET.replace("set(parts)", "sorted(set(parts))")


def test_unsafe_fixes_of_templates_need_to_be_asked_for(here: Path) -> None:
    text = "{{ now() }}\n" + RULE_LINES
    (here / "p.j2").write_text(text)
    lint("p.j2", "--fix")
    assert (here / "p.j2").read_text() == text
    assert lint("p.j2", "--fix", "--unsafe-fixes").exit_code == 0
    assert (here / "p.j2").read_text() == RULE_LINES + "{{ now() }}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f'{time.time()} {RULES}'", "f'{RULES}\\n{time.time()}'"),
        ("'Now ' + str(time.time()) + ' ' + RULES", "' ' + RULES + '\\n' + 'Now ' + str(time.time())"),
        ('f"""Now: {time.time()}\n{RULES}"""', 'f"""{RULES}\\nNow: {time.time()}"""'),
    ],
)
def test_unsafe_fixes_put_the_volatile_part_of_a_text_last(here: Path, before: str, after: str) -> None:
    text = CLOCK.replace("f'{time.time()} {RULES}'", before)
    (here / "app.py").write_text(text)
    assert lint("app.py", "--fix").exit_code == 1
    assert (here / "app.py").read_text() == text
    assert lint("app.py", "--fix", "--unsafe-fixes").exit_code == 0
    assert (here / "app.py").read_text() == CLOCK.replace("f'{time.time()} {RULES}'", after)


def test_an_unused_ignore_is_removed_by_fix(here: Path) -> None:
    (here / "app.py").write_text("import os  # px: ignore[PX101] old\nprompt = 1\n")
    lint("app.py", "--fix")
    assert (here / "app.py").read_text() == "import os\nprompt = 1\n"


def test_a_log_finding_names_the_source_line_that_wrote_it(here: Path) -> None:
    (here / "app.py").write_text("def head(t):\n    return 'Service clock shows ' + t\n")
    (here / "log.jsonl").write_text(bodies().replace("Now: ", "Service clock shows "))
    assert "written at app.py:2" in lint("log.jsonl", "app.py").stdout


@pytest.mark.parametrize("code", RULES)
def test_every_rule_explains_itself(code: str) -> None:
    out = lint("--explain", code).stdout
    assert out.startswith(f"# {code} {RULES[code].name}\n")
    for heading in ("## What it finds", "## Why it costs", "## Example", "## How to fix it", "## Limits"):
        assert heading in out


def test_the_page_of_rules_is_up_to_date() -> None:
    from opsconsole.lint.rules.table import documentation

    page = Path(__file__).parents[3] / "docs" / "lint-rules.md"
    assert page.read_text(encoding="utf-8") == documentation(), "run: opsconsole lint --write-docs docs/lint-rules.md"


def test_the_text_report_draws_the_prompt_as_two_bars(here: Path) -> None:
    (here / "log.jsonl").write_text(bodies())
    out = lint("log.jsonl").stdout
    assert "  now    █░█" in out
    assert "  fixed  █" in out
    assert "upper bound" in out


def test_redact_keeps_prompt_text_out_of_every_report(here: Path) -> None:
    (here / "log.jsonl").write_text(bodies())
    for form in ("text", "json"):
        assert "2026-05-01" not in lint("log.jsonl", "--redact", "--format", form).stdout
