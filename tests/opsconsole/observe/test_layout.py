"""Pages read by comparison with the last one are the pages the scanner reads, whatever changed between two scrapes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from opsconsole.observe.dialects.normalise import new_memo, normalise
from opsconsole.observe.exposition import Page, SeriesMemo, Slot, scan
from opsconsole.observe.layout import TRIES, Layouts, PageReader

STRANGE = ["1_000", "٣", "5 1700000000000", '5 # {a="b"} 1', "", "x", " 7", "7 "]
REAL = (Path(__file__).parents[2] / "data" / "pages" / "vllm-0.32.0-served.txt").read_text()
SMALL = '# TYPE a gauge\na 1\n# HELP b more\nb{x="1"} 2\nother 3\nb{x="2"} 4\n'


def only(*names: str) -> SeriesMemo:
    return SeriesMemo(lambda name: Slot(name, "") if name in names else None)


def told(page: Page) -> tuple[object, ...]:
    rows = [(s.name, tuple(s.labels.items()), repr(v)) for s, v in zip(page.series, page.values, strict=True)]
    return rows, page.types, page.helps, page.lines, page.bad_count, page.truncated, page.damaged


def edited(text: str, chance: random.Random) -> str:
    """The page of a later scrape: mostly other values, now and then another line, a lost byte, a strange value."""
    lines = text.split("\n")
    for _ in range(chance.randint(0, 8)):
        at = chance.randrange(len(lines))
        head = lines[at].rpartition(" ")[0]
        kind = chance.randrange(12)
        if kind < 7:
            value = chance.choice(["0", "17.0", "1e9", "NaN", "+Inf", "-1"])
            lines[at] = f"{head} {value}" if head and not head.startswith("#") else lines[at]
        elif kind == 7:
            lines[at] = f"{head} {chance.choice(STRANGE)}"
        elif kind == 8:
            lines.insert(at, chance.choice(lines))
        elif kind == 9:
            del lines[at]
        elif kind == 10:
            lines[at] = lines[at][: len(lines[at]) // 2]
        else:
            lines[at] += chance.choice(["\r", " ", "9", "\n\n", "#"])
        lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize(("first", "runs"), [(REAL, 40), (SMALL, 300)], ids=["real", "small"])
def test_a_page_read_after_another_is_the_page_read_alone(first: str, runs: int) -> None:
    memo = new_memo() if first is REAL else only("a", "b")
    for seed in range(runs):
        chance = random.Random(seed)
        reader, text = PageReader(Layouts(memo)), first
        follow(reader, memo, text, first, chance)


def follow(reader: PageReader, memo: SeriesMemo, text: str, first: str, chance: random.Random) -> None:
    for _ in range(5):
        for complete in (True, False):
            assert told(reader.read(text.encode(), complete=complete)) == told(scan(text, memo, complete=complete))
        assert repr(normalise(reader.read(text.encode()), 1.0, "r")) == repr(normalise(scan(text, memo), 1.0, "r"))
        text = edited(text if chance.random() < 0.7 else first, chance)


def test_the_next_page_is_read_by_comparison_and_replicas_share_what_is_common() -> None:
    layouts = Layouts(new_memo())
    one, other = PageReader(layouts), PageReader(layouts)
    first = one.read(REAL.encode())
    later = one.read(REAL.replace(" 12.0\n", " 13.0\n").encode())
    assert first.layout is not None and later.layout is first.layout
    assert other.read(REAL.encode()).layout is first.layout


@pytest.mark.parametrize("strange", ["1_000", "٣", "5 1700000000000", '5 # {trace_id="x"} 0.1', "", "five"])
def test_a_value_that_is_no_plain_number_goes_to_the_scanner(strange: str) -> None:
    memo = only("a", "b")
    reader = PageReader(Layouts(memo))
    reader.read(SMALL.encode())
    text = SMALL.replace("a 1\n", f"a {strange}\n")
    page = reader.read(text.encode())
    assert told(page) == told(scan(text, memo)) and page.layout is None


def test_a_series_that_appears_is_seen_at_once() -> None:
    reader = PageReader(Layouts(only("a", "b")))
    reader.read(SMALL.encode())
    text = SMALL.replace("other 3\n", 'other 3\nb{x="9"} 40\n')
    assert [s.labels.get("x") for s in reader.read(text.encode()).series] == [None, "1", "9", "2"]


def test_pages_that_never_stay_the_same_are_not_learned_again_and_again() -> None:
    layouts = Layouts(only("a"))
    reader = PageReader(layouts)
    pages = [reader.read(f"# scrape number {n}\na {n}\n".encode()) for n in range(TRIES + 3)]
    assert [page.values for page in pages] == [[float(n)] for n in range(TRIES + 3)]
    assert [page.layout is not None for page in pages] == [True] * TRIES + [False] * 3
