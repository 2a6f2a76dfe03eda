"""Builds the C operators with the system's compiler, once per source, compiler flags and kind of CPU.

Must not know: torch's headers (it needs none), what the operators do. Trap: several workers start at once; each
builds under a name of its own and renames, so nobody loads half a file.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent
BASE = ("-std=gnu11", "-O3", "-fPIC", "-pthread", "-fno-math-errno", "-Wno-psabi")
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma")


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of CPU: what it must be able to do (as Linux names it) and how to compile for it."""

    name: str
    needs: frozenset[str]
    flags: tuple[str, ...]


# Best first.
VARIANTS = (
    Variant(
        "amx",
        frozenset({"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16", "avx512_vnni"}),
        (*AVX512, "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
    ),
    Variant(
        "avx512vnni",
        frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}),
        (*AVX512, "-mavx512vnni"),
    ),
    Variant("avx512", frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"}), AVX512),
    Variant("avx2", frozenset({"avx2", "fma", "f16c"}), AVX2),
    Variant("generic", frozenset(), ()),
)


class BuildError(RuntimeError):
    """The operators cannot be built here; the text says why. The engine then runs on torch alone."""


def cpu_features() -> frozenset[str]:
    """Flags of the first processor; empty where Linux does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split(":", 1)[1].split()) for line in lines if line.startswith("flags")), frozenset())


def fitting(features: frozenset[str]) -> tuple[Variant, ...]:
    """The variants this CPU can run, best first; an older compiler may not know the best."""
    return tuple(variant for variant in VARIANTS if variant.needs <= features)


def built_library(variant: Variant) -> str:
    """The path of the built library, from the cache when it is there and loads."""
    name = f"operators-{variant.name}-{_fingerprint(variant)}.so"
    failures = []
    for folder in _cache_folders():
        path = folder / name
        try:
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                _compile(variant, path)
            ctypes.CDLL(str(path))
            return str(path)
        except OSError as error:
            failures.append(f"{folder}: {error}")
    raise BuildError("The C operators could not be stored or loaded (" + "; ".join(failures) + ").")


def _sources() -> list[Path]:
    return sorted([*SOURCE.glob("*.c"), *SOURCE.glob("*.h")])


def _fingerprint(variant: Variant) -> str:
    digest = hashlib.sha256("\0".join((*BASE, *variant.flags)).encode())
    for path in _sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _cache_folders() -> list[Path]:
    """Beside the package where it may be written, else the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opsconsole" / "operators"
    beside = SOURCE / "build"
    return [beside, cache] if os.access(SOURCE, os.W_OK) else [cache]


def _compile(variant: Variant, path: Path) -> None:
    compiler = next(
        (found for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and (found := shutil.which(name))), None
    )
    if compiler is None:
        raise BuildError(
            "No C compiler (cc, gcc or clang) was found, so the engine runs on torch alone, several times slower."
        )
    handle, unfinished = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    units = [str(source) for source in _sources() if source.suffix == ".c"]
    try:
        command = [compiler, *BASE, *variant.flags, "-shared", "-o", unfinished, *units, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise BuildError(f"The C compiler refused the operators: {last}")
        os.replace(unfinished, path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
