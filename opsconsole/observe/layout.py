"""Pages of one replica, read one after another: what stays the same between two scrapes is compared and not parsed.

A page is constant text (comments and series keys) with values between. Once read in full, its constant text is a
`Layout`; a page that fits it gives its values by comparison alone, and what was worked out for a layout holds for every
page of it. It must not read a line by rules of its own: what does not fit is read by `exposition.scan`. The trap:
a value may be anything up to the end of its line, so what is no plain number sends the whole page back to the scanner.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from opsconsole.observe.exposition import Page, Series, SeriesMemo, as_text, is_unwanted, scan

LINES_MOST = 20_000  # some hundred engines on one page; what is larger is not kept twice
TRIES = 3  # pages in a row that do not fit: then this replica's pages are taken to have no layout


class Layout:
    """The constant text of a page. Compared by identity: replicas whose pages fit the same text share one."""

    __slots__ = ("__weakref__", "chunks", "end", "helps", "lines", "series", "types")

    def __init__(self, chunks: tuple[tuple[str, int, bool], ...], end: str, page: Page) -> None:
        self.chunks = chunks  # text up to a value, its length, whether the value is wanted
        self.end = end
        self.series: list[Series] = page.series
        self.types, self.helps, self.lines = page.types, page.helps, page.lines

    def read(self, text: str) -> Page | None:
        """The page, if all of it but the values is this layout's text and every wanted value a plain number."""
        tails: list[str] = []
        starts, find, keep = text.startswith, text.find, tails.append
        at = 0
        for chunk, size, wanted in self.chunks:
            if not starts(chunk, at):
                return None
            begin = at + size
            at = find("\n", begin)
            if wanted:
                keep(text[begin:at])
        if at < 0 or text[at:] != self.end:
            return None
        joined = "".join(tails)
        if "_" in joined or not joined.isascii():
            return None  # numbers to Python, and to nobody else
        try:
            values = list(map(float, tails))
        except ValueError:
            return None
        return Page(self.series, values, self.types, self.helps, self.lines, layout=self)


class Layouts:
    """The layouts in use among the pages of many replicas."""

    def __init__(self, memo: SeriesMemo) -> None:
        self.memo = memo
        self.newest: Layout | None = None  # the first guess for a replica not seen before
        self._known: WeakValueDictionary[tuple[tuple[str, int, bool], ...], Layout] = WeakValueDictionary()

    def learn(self, text: str, page: Page) -> Layout | None:
        """The layout of a page that was just scanned; None where a line of it is not simply a key and a value."""
        whole = text.endswith("\n") and not (page.bad_count or page.truncated)
        if not whole or page.lines > LINES_MOST or len(set(page.series)) != len(page.series):
            return None
        chunks: list[tuple[str, int, bool]] = []
        constant: list[str] = []
        for line in text[:-1].split("\n"):
            head = line.rpartition(" ")[0]
            entry = None if line[:1] == "#" else self.memo.heads.get(head)
            if entry is None:
                if line.strip() and line[:1] != "#":
                    return None
                constant.append(line)
                continue
            chunk = "\n".join([*constant, head]) + " "
            chunks.append((chunk, len(chunk), not is_unwanted(entry)))
            constant = [""]  # the next chunk begins with the end of this line
        end = "\n".join([*constant, ""]) if chunks else text
        key = tuple(chunks)
        known = self._known.get(key)
        if known is None or known.end != end:
            known = self._known[key] = Layout(key, end, page)
        self.newest = known
        return known


class PageReader:
    """The pages of one replica, in their order."""

    __slots__ = ("_layout", "_layouts", "_misses")

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._layout: Layout | None = None
        self._misses = 0

    def read(self, data: bytes, *, complete: bool = True) -> Page:
        """As `exposition.scan` reads it, only sooner where the layout is known."""
        text = as_text(data)
        guess = self._layout or self._layouts.newest
        page = guess.read(text) if guess is not None else None
        if page is not None:
            self._layout, self._misses = guess, 0
            return page
        page = scan(text, self._layouts.memo, complete=complete)
        self._misses += 1
        if self._misses <= TRIES:
            self._layout = page.layout = self._layouts.learn(text, page)
        return page
