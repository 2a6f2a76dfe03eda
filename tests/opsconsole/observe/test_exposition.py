"""The scanner: right on well-formed pages (the library is the oracle), tolerant of broken ones, never guessing."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from opsconsole.observe.exposition import Page, SeriesMemo, Slot, scan

Read = list[tuple[str, dict[str, str], float]]


def everything(name: str) -> Slot:
    return Slot(name, "bucket" if name.endswith("_bucket") else "")


def only(*names: str) -> SeriesMemo:
    return SeriesMemo(lambda name: Slot(name, "") if name in names else None)


def read(text: str | bytes, memo: SeriesMemo | None = None, *, complete: bool = True) -> Read:
    page = scan(text, memo or SeriesMemo(everything), complete=complete)
    return rows(page)


def rows(page: Page) -> Read:
    return [(s.name, s.labels, v) for s, v in zip(page.series, page.values, strict=True)]


def oracle(text: str) -> Read:
    return [(s.name, dict(s.labels), s.value) for f in text_string_to_metric_families(text) for s in f.samples]


def same(one: Read, other: Read) -> bool:
    def key(row: tuple[str, dict[str, str], float]) -> tuple[str, tuple[tuple[str, str], ...], str]:
        return row[0], tuple(sorted(row[1].items())), repr(float(row[2]))

    return sorted(map(key, one)) == sorted(map(key, other))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(lambda n: not n.startswith("__")),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=10),
    max_size=4,
)
VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(["+Inf", "-Inf", "NaN", "-nan", "nan", "inf", "1.04e+010", "0", "-0.0"]),
)
TAILS = st.sampled_from(["", " 1700000000000", "  ", "\t"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = ",".join(f'{k}="{escaped(v)}"' for k, v in draw(LABELS).items())
    key = draw(NAMES) + (f"{{{labels}}}" if labels or draw(st.booleans()) else "")
    return key + draw(st.sampled_from([" ", "  ", "\t"])) + draw(VALUES) + draw(TAILS)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), max_size=12))
def test_a_well_formed_page_reads_as_the_library_reads_it(page: list[str]) -> None:
    text = "".join(line + "\n" for line in page)
    assert same(read(text), [row for line in page for row in oracle(line + "\n")])


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=8))
def test_a_second_read_of_a_page_gives_the_same_as_the_first(page: list[str]) -> None:
    text = "".join(line + "\n" for line in page)
    memo = SeriesMemo(everything)
    assert same(read(text, memo), read(text, memo))


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_what_is_read_of_a_damaged_page_is_what_the_library_reads_of_the_same_line(
    page: list[str], chance: random.Random
) -> None:
    text = "".join(line + "\n" for line in page)
    damaged = damage(text, chance)
    warm = SeriesMemo(everything)
    scan(text, warm)
    found = scan(damaged, warm)
    assert same(rows(found), rows(scan(damaged, SeriesMemo(everything))))
    justified: Read = []
    for line in damaged.split("\n"):
        for row in read(line):
            # accepted by us means accepted by the library, with the same number under the same key
            assert same([row], oracle(line + "\n")), line
            justified.append(row)
    assert same(rows(found), justified)


def damage(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + chance.randint(1, 5) :]
        elif kind == 1:
            text = text[:at] + chance.choice(' {}",=\\#\n\x000_xeE+-.٣') + text[at:]
        elif kind == 2:
            text = text[:at]
        else:
            text = text[:at] + text[at:][::-1][:3] + text[at + 3 :]
    return text


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    memo = only("vllm:num_requests_running")
    assert scan(data, memo).values == scan(data, memo).values or any(map(math.isnan, scan(data, memo).values))


@pytest.mark.parametrize(
    "line",
    [
        'm{a="b"} 1_000', 'm{a="b"} 0x10', 'm{a="b"}', 'm{a="b" 1', 'm{a="b} 1', "m 1 2 3", "m one", "m", "{} 1",
        "m 1 x",
        'm{a="b",a="c"} 1', "m{a=b} 1", 'm{a.b="c"} 1', "m ٣", "m{,} 1", '9m{a="b"} 1',
    ],
)  # fmt: skip
def test_a_line_that_is_not_exposition_costs_that_line_only(line: str) -> None:
    page = scan(f"first 1\n{line}\nlast 2\n", SeriesMemo(everything))
    assert [v for _, _, v in rows(page)] == [1.0, 2.0]
    assert page.bad_count == 1
    assert page.bad[0].number == 2


def test_a_bad_line_marks_its_family_so_that_a_sum_is_not_silently_short() -> None:
    page = scan('waiting{engine="0"} 4\nwaiting{engine="1"} 7O\n', only("waiting"))
    assert page.damaged == {"waiting"}


def test_exemplars_and_timestamps_after_a_value_are_not_the_value() -> None:
    text = 'h_bucket{le="0.1"} 7 # {trace_id="a b # c"} 0.05 1700000000.1\ng 3 1700000000000\n'
    assert [value for _, _, value in read(text)] == [7.0, 3.0]


def test_lines_with_exemplars_or_timestamps_do_not_fill_the_memory() -> None:
    memo = SeriesMemo(everything)
    for i in range(50):
        scan(f'h_bucket{{le="0.1"}} {i} # {{trace_id="{i}"}} 0.05\ng {i} {1700000000 + i}\n', memo)
    assert len(memo.heads) == 0
    assert len(memo.keys) == 2


def test_labels_may_hold_braces_commas_quotes_and_newlines() -> None:
    text = 'm{a="}, {b=\\"x\\"",c="line\\nnext",d="back\\\\slash"} 5\n'
    assert read(text) == [("m", {"a": '}, {b="x"', "c": "line\nnext", "d": "back\\slash"}, 5.0)]


def test_a_truncated_last_value_is_not_believed_unless_the_length_is_known_to_be_whole() -> None:
    assert read("a 12\nb 1", complete=False) == [("a", {}, 12.0)]
    assert scan("a 12\nb 1", SeriesMemo(everything), complete=False).truncated
    assert read("a 12\nb 1", complete=True) == [("a", {}, 12.0), ("b", {}, 1.0)]


def test_a_label_order_or_spelling_that_differs_is_the_same_series() -> None:
    memo = SeriesMemo(lambda name: Slot(name.replace(":", "_"), ""))
    first = scan('a:b{x="1",y="2"} 3\n', memo).series[0]
    second = scan('a_b{y="2",x="1"} 3\n', memo).series[0]
    assert first is second


def test_windows_line_ends_and_tabs_are_read() -> None:
    assert read("a 1\r\nb\t2\r\n") == [("a", {}, 1.0), ("b", {}, 2.0)]


def test_type_and_help_are_kept_for_wanted_families_only() -> None:
    text = "# HELP a counts of blocks\n# TYPE a gauge\n# HELP b other\n# TYPE b counter\na 1\n"
    memo = only("a")
    for _ in range(2):
        page = scan(text, memo)
        assert page.types == {"a": "gauge"}
        assert page.helps == {"a": "counts of blocks"}


def test_a_changed_last_word_of_a_help_is_seen_though_its_line_is_remembered() -> None:
    memo = only("a")
    scan("# HELP a hits in terms of blocks\na 1\n", memo)
    assert scan("# HELP a hits in terms of tokens\na 1\n", memo).helps["a"].endswith("tokens")


@pytest.mark.parametrize(
    "text", ["<html><body>no</body></html>", '{"a": 1}', "[]", "plain words here", "# a comment\n"]
)
def test_what_is_no_metrics_page_is_not_taken_for_an_empty_one(text: str) -> None:
    assert not scan(text, SeriesMemo(everything)).is_exposition


def test_the_memory_is_bounded() -> None:
    memo = SeriesMemo(everything, limit=100)
    for i in range(1000):
        scan(f'm{{id="{i}"}} 1\n', memo)
    assert len(memo.heads) <= 100


def test_le_is_compared_by_value() -> None:
    page = scan('h_bucket{le="1"} 1\nh_bucket{le="1.0"} 1\nh_bucket{le="+Inf"} 2\n', SeriesMemo(everything))
    assert [s.le for s in page.series] == [1.0, 1.0, math.inf]
