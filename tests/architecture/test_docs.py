"""The documents agree with the tree: links resolve, commands and options exist, and nothing of a workplace is named."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from opsconsole.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^\s*(?:\$ )?((?:[A-Z_]+=\S+ )*opsconsole(?: .*)?)$", re.M)

# Written in pieces, so that this file does not find itself.
WORKPLACE = re.compile(
    r"(?<![\w.~-])/" + r"work(?=/|\b(?!-))(?!\w)"
    r"|\bissue" + r" #?\d{1,2}\b|/tmp/" + r"ops\b"
    r"|\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs|proxy\.golang|download\.pytorch)",
    re.I,
)
WRITTEN = {".py", ".md", ".toml", ".sh", ".c", ".h", ".sql", ".tcss"}
FOLDERS = ("opsconsole", "engine", "policies", "forecaster", "tests", "docs", ".ci")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(document.read_text("utf-8"))]
    relative = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in relative if not (document.parent / target).exists()] == []


def commands_in(text: str) -> Iterator[list[str]]:
    """Command lines of code blocks, without their comments and without what is piped on."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(code_in(text)))  # a line that ends in a backslash goes on
    for line in COMMAND.findall(joined):
        words = shlex.split(re.split(r"\s{2,}| # | \| ", line)[0])
        yield words[words.index("opsconsole") + 1 :]


def code_in(text: str) -> Iterator[str]:
    """Lines inside fences, and indented ones."""
    is_fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield line.strip()


def mistake(words: list[str]) -> str:
    """What is wrong with a command line: an unknown command, or an option it does not have."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("opsconsole", [], resilient_parsing=True)
    rest = iter(words)
    for word in rest:
        if word.startswith("-") and word != "-":
            option, _, value = word.partition("=")
            takes_value = options_of(command).get(option)
            if takes_value is None:
                return f"{command.name} has no {option}"
            if takes_value and not value:
                next(rest, "")
        elif hasattr(command, "get_command"):
            command = command.get_command(context, word)
            if command is None:
                return f"there is no command {word}"
    return ""


def options_of(command: Any) -> dict[str, bool]:
    """Each option's name, and whether a value follows it."""
    named = {name: not getattr(p, "is_flag", False) for p in command.params for name in (*p.opts, *p.secondary_opts)}
    return {"--help": False, "-h": False, **named}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_that_is_shown_exists_with_its_options(document: Path) -> None:
    shown = list(commands_in(document.read_text("utf-8")))
    assert {shlex.join(words): why for words in shown if (why := mistake(words))} == {}


def test_the_readme_shows_commands_and_a_wrong_one_would_be_found() -> None:
    assert len(list(commands_in((ROOT / "README.md").read_text("utf-8")))) >= 6
    assert mistake(["launch"]) == "there is no command launch"
    assert mistake(["up", "--lod", "burst"]) == "up has no --lod"
    assert mistake(["config", "validate", "--config", "fleet.toml"]) == ""


def test_nothing_names_the_workplace_or_a_registrys_host() -> None:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in WRITTEN]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")]
    found = {
        f"{name_of(path)}:{number}": line.strip()
        for path in files
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if WORKPLACE.search(line)
    }
    assert found == {}


@pytest.mark.parametrize(
    "text", ["see /" + "work/main", "as Issue" + " 3 says", "issue" + " #12", "https://pypi" + ".org/simple"]
)
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert WORKPLACE.search(text)


@pytest.mark.parametrize("text", ["GET /workers", "home/" + "work/x", "the issue is 3 lines", "/workload"])
def test_the_search_leaves_other_words_alone(text: str) -> None:
    assert WORKPLACE.search(text) is None
