"""What is loaded when: a real interpreter is started and asked for its modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "httpx", "kubernetes", "statsmodels", "textual", "starlette", "prometheus_api_client")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import opsconsole", HEAVY),
        ("import opsconsole.cli", HEAVY),
        ("import opsconsole.domain.records", HEAVY),
        ("import policies", HEAVY),
        ("import engine", HEAVY),
        ("import opsconsole.tui.app", ("torch", "numpy", "httpx", "kubernetes", "statsmodels", "starlette")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_importing_does_not_load_what_is_heavy(statement: str, absent: tuple[str, ...]) -> None:
    assert loaded_after(statement) & set(absent) == set()


def test_listing_the_commands_loads_nothing_heavy() -> None:
    statement = (
        "sys.argv = ['opsconsole', '--help']\n"
        "from opsconsole.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert loaded_after(statement) & {"torch", "numpy", "kubernetes", "statsmodels", "starlette"} == set()
