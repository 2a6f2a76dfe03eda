# ruff: noqa: E501 - sources and shell lines as text
"""How fast the linter reads: logs in fast and exact mode, sources beside `ast.parse`, and memory per log size.

Prints a table and asserts nothing; every number is of this machine and this run, on one core, in CPU seconds of a fresh
process. Peers run on the same inputs where they are on the PATH (sources: half a megabyte, they are slow). The trap: a busy machine; CPU time is compared, not wall.

    make bench-lint BENCH_ARGS="--log-mb 20 --big-mb 1000"
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

RULES = "".join(
    f"Rule {n}: answer in plain words, cite section {n}, and keep the tone calm and friendly.\n" for n in range(100)
)
WORDS = [
    "where",
    "is",
    "my",
    "parcel",
    "order",
    "refund",
    "please",
    "cancel",
    "address",
    "shop",
    "open",
    "sunday",
    "delivery",
    "late",
    "broken",
    "new",
]
PEERS = {"cachelint": ["cachelint", "analyze", "--provider", "openai", "{log}"]}
SOURCE_PEERS = {"cachedrift": ["cachedrift", "{src}"], "pcdlint": ["pcdlint", "{src}"]}


class Cost(NamedTuple):
    """CPU seconds and peak memory of a child process."""

    cpu_s: float
    peak_mb: float
    said: str


def cost(command: list[str]) -> Cost:
    """Run a command on one core and read what it used."""
    code = (
        "import json,os,resource,subprocess,sys\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "made = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, (made.stdout + made.stderr)[-300:]]))\n"
    )
    out = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return Cost(*json.loads(out.stdout))


def write_log(path: Path, megabytes: float, *, broken: bool) -> None:
    """A repetitive log: one long system prompt, short questions; `broken` puts a clock in front."""
    rng = random.Random(1)
    size = at = 0
    with path.open("w", encoding="utf-8") as out:
        while size < megabytes * 1e6:
            head = f"Now: 2026-03-09 {at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d}\n" if broken else ""
            question = " ".join(rng.choice(WORDS) for _ in range(20))
            body: dict[str, object] = {"model": "m"}
            body |= {
                "messages": [
                    {"role": "system", "content": head + RULES},
                    {"role": "user", "content": f"{question} {at}"},
                ]
            }
            size += out.write(json.dumps(body) + "\n")
            at += 1


def write_sources(folder: Path, megabytes: float) -> None:
    """Python files like those of an agent program: one in four sends prompts."""
    rng = random.Random(2)
    plain = "".join(
        f"def step_{n}(items, limit={n}):\n    total = 0\n    for item in items:\n        if item.size > limit:\n"
        f"            total += item.size * {rng.randint(2, 9)}\n    return {{'total': total, 'name': 'step {n}'}}\n\n\n"
        for n in range(60)
    )
    sender = (
        "import time\nRULES = open('r.md').read()\n\n\nclass Agent:\n    def system(self):\n"
        "        return RULES + f'\\nNow {time.time()}'\n\n    def ask(self, client, history, q):\n"
        "        return client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': self.system()}, "
        "*history, {'role': 'user', 'content': q}])\n\n\n"
    )
    size = at = 0
    while size < megabytes * 1e6:
        text = (sender if at % 4 == 0 else "") + plain
        (folder / f"m{at}.py").write_text(text, encoding="utf-8")
        size += len(text)
        at += 1


def lint(*words: str) -> list[str]:
    return [sys.executable, "-m", "opsconsole", "lint", "--no-cache", "-q", *words]


def rows(folder: Path, options: argparse.Namespace) -> list[tuple[str, float, Cost]]:
    """Every measurement: what, megabytes, cost."""
    made: list[tuple[str, float, Cost]] = []
    start = cost(lint("--exit-zero", "--show-files", str(folder)))
    made.append(("start-up alone", 0.0, start))
    for name, broken in (("healthy log, fast mode", False), ("log with a clock in front", True)):
        log = folder / f"{'broken' if broken else 'healthy'}.jsonl"
        write_log(log, options.log_mb, broken=broken)
        made.append((name, options.log_mb, cost(lint(str(log)))))
        if options.tokenizer:
            made.append(
                (f"{name}, exact tokens", options.log_mb, cost(lint("--tokenizer", options.tokenizer, str(log))))
            )
        for peer, command in PEERS.items():
            if shutil.which(command[0]):
                made.append((f"{name}: {peer}", options.log_mb, cost([word.format(log=log) for word in command])))
    if options.big_mb:
        big = folder / "big.jsonl"
        write_log(big, options.big_mb, broken=True)
        made.append(("large log with a clock in front", options.big_mb, cost(lint(str(big)))))
        big.unlink()
    sources = folder / "src"
    sources.mkdir()
    write_sources(sources, options.source_mb)
    parse = "import ast,pathlib,sys\nfor p in sorted(pathlib.Path(sys.argv[1]).glob('*.py')): ast.parse(p.read_text())"
    made.append(("ast.parse alone", options.source_mb, cost([sys.executable, "-c", parse, str(sources)])))
    made.append(("sources", options.source_mb, cost(lint(str(sources)))))
    few = folder / "few"
    few.mkdir()
    write_sources(few, min(options.source_mb, 0.5))
    for peer, command in SOURCE_PEERS.items():
        if shutil.which(command[0]):
            words = [word.format(src=few) for word in command]
            made.append((f"sources: {peer}", min(options.source_mb, 0.5), cost(words)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-mb", type=float, default=20.0)
    parser.add_argument("--source-mb", type=float, default=5.0)
    parser.add_argument("--big-mb", type=float, default=0.0, help="also a log of this size, for its memory")
    parser.add_argument("--tokenizer", default="", help="tokenizer.json for the exact mode")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = rows(Path(folder), options)
    print(f"{'what':<44}{'MB':>8}{'CPU s':>9}{'MB/s':>9}{'peak MB':>9}")
    for name, megabytes, used in made:
        speed = f"{megabytes / used.cpu_s:9.1f}" if megabytes else f"{'':>9}"
        if ": error:" in used.said:
            speed = f"{'refused':>9}"
        print(f"{name:<44}{megabytes:>8.0f}{used.cpu_s:>9.2f}{speed}{used.peak_mb:>9.0f}")
    alone = next(used for name, _, used in made if name == "ast.parse alone")
    ours = next(used for name, _, used in made if name == "sources")
    print(
        f"sources run at {alone.cpu_s / ours.cpu_s:.2f}x of ast.parse alone; this process itself used "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
