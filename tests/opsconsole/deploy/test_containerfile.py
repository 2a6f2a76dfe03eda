"""The image's recipe, which nothing here can build: what it says is held against the manifests and the project."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from opsconsole.deploy.daemon import DATA, USER, Daemon, deployment

ROOT = Path(__file__).parents[3]
LINES = [line for line in (ROOT / "Containerfile").read_text("utf-8").splitlines() if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def given(instruction: str) -> list[str]:
    return [line.partition(" ")[2].strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_it_runs_as_the_user_of_the_manifests_who_is_not_root() -> None:
    assert given("USER") == [f"{USER}:{USER}"]
    assert USER > 0
    (container,) = deployment(Daemon("opsconsole", "llm", "opsconsole:1", ""))["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_what_it_writes_goes_to_the_volume_of_the_manifests() -> None:
    assert given("VOLUME") == [DATA]
    assert f"HOME={DATA}" in given("ENV")[0].split()
    assert any(f"chown {USER}:{USER} {DATA}" in line for line in given("RUN"))


def test_its_arguments_are_those_of_the_command() -> None:
    (entry,) = given("ENTRYPOINT")
    assert json.loads(entry) == [next(iter(PROJECT["project"]["scripts"]))]
    (container,) = deployment(Daemon("opsconsole", "llm", "opsconsole:1", ""))["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == json.loads(given("CMD")[0])[0]
    assert "command" not in container  # the entry point is the image's


def test_what_it_copies_is_there_and_all_packages_are_among_it() -> None:
    copied = {name for line in given("COPY") if not line.startswith("--from") for name in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    assert {"opsconsole", "forecaster", "engine", "policies"} <= copied


def test_it_installs_extras_that_there_are_and_not_the_torch_engine() -> None:
    text = " ".join(LINES)
    extras = text.partition("'.[")[2].partition("]'")[0].split(",")
    known = PROJECT["project"]["optional-dependencies"]
    assert set(extras) <= set(known)
    assert {"kubernetes", "keda"} <= set(extras) and "engine" not in extras


def test_its_base_is_a_python_that_the_project_takes() -> None:
    bases = {line.split()[0] for line in given("FROM")}
    (base,) = bases
    version = tuple(int(part) for part in base.partition(":")[2].removesuffix("-slim").split("."))
    least = PROJECT["project"]["requires-python"].removeprefix(">=").partition(",")[0]
    assert version >= tuple(int(part) for part in least.split("."))
