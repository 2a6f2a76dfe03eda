"""Choosing a variant by the CPU, building it once, and saying why it cannot be built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels import build
from engine.kernels.build import BuildError, Variant, built_library, cpu_features, fitting

GENERIC = build.VARIANTS[-1]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources where nothing is built yet, in a folder that may not be written; the cache is empty too."""
    sources = tmp_path / "kernels"
    shutil.copytree(build.SOURCE, sources, ignore=shutil.ignore_patterns("build", "__pycache__"))
    monkeypatch.setattr(build, "SOURCE", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return sources


@pytest.mark.parametrize(
    ("features", "best"),
    [
        ("", "generic"),
        ("avx2", "generic"),
        ("avx2 fma f16c", "avx2"),
        ("avx2 fma f16c avx512f avx512bw avx512vl avx512dq", "avx512"),
        ("avx2 fma f16c avx512f avx512bw avx512vl avx512dq avx512_vnni", "avx512vnni"),
        ("avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16", "amx"),
    ],
)
def test_the_cpu_decides(features: str, best: str) -> None:
    assert fitting(frozenset(features.split()))[0].name == best
    assert fitting(frozenset(features.split()))[-1] is GENERIC


def test_without_a_compiler_it_says_so(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="No C compiler"):
        built_library(GENERIC)


def test_what_the_compiler_says_is_passed_on(elsewhere: Path) -> None:
    (elsewhere / "rows.c").write_text("this is not C;\n")
    with pytest.raises(BuildError, match="refused the operators"):
        built_library(GENERIC)
    assert not list(elsewhere.rglob("*.so"))


def test_a_flag_the_compiler_does_not_know_is_an_error_of_that_variant(elsewhere: Path) -> None:
    with pytest.raises(BuildError, match="refused"):
        built_library(Variant("future", frozenset(), ("-mno-such-instructions",)))


def test_built_once_and_again_when_the_source_changes(elsewhere: Path) -> None:
    built_library(GENERIC)
    first = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*.so")}
    built_library(GENERIC)
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*.so")} == first and len(first) == 1
    (elsewhere / "rows.c").write_text((elsewhere / "rows.c").read_text() + "\n")
    built_library(GENERIC)
    assert len(list(elsewhere.rglob("*.so"))) == 2


def test_the_users_cache_serves_where_the_package_may_not_be_written(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != elsewhere and allowed(path, mode))
    built_library(GENERIC)
    assert not list(elsewhere.rglob("*.so"))
    assert len(list((tmp_path / "cache").rglob("*.so"))) == 1


def test_processes_that_build_at_the_same_time_do_not_disturb_each_other(elsewhere: Path) -> None:
    program = (
        "import pathlib, sys; from engine.kernels import build; build.SOURCE = pathlib.Path(sys.argv[1]);"
        "build.built_library(build.VARIANTS[-1])"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(elsewhere)]) for _ in range(3)]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0]
    assert len(list((elsewhere / "build").iterdir())) == 1


def test_this_cpu_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu_features() == cpu_features()

    def missing(self: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert cpu_features() == frozenset() and fitting(cpu_features()) == (GENERIC,)
