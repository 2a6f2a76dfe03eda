"""What a terminal shows: characters at places, kept from the bytes that a program writes, frame by frame.

It must not know which program. It understands what full-screen programs send (absolute and relative moves, erasing,
text of any width) and lets colours pass by. The trap: a read ends anywhere, also inside an escape sequence or inside a
character, so what is not complete waits for the next bytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

TOKEN = re.compile(
    rb"\x1b\[(?P<given>[0-9;:<=>?]*)[ -/]*(?P<final>[@-~])"  # a control sequence: a move, a colour, a mode
    rb"|\x1b[\]P_^X].*?(?:\x07|\x1b\\)"  # a string for the terminal: title, clipboard
    rb"|\x1b[ -/]+[0-~]|\x1b[0-Z\\^-~]"  # shorter ones: character sets, save and restore
    rb"|(?P<text>[^\x1b\x00-\x1f\x7f]+)"
    rb"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
    rb"|\x1b(?=[\x00-\x1f\x7f-\xff])",  # begins nothing
    re.DOTALL,
)
ASKS_FRAMES, HAS_FRAMES = b"\x1b[?2026$p", b"\x1b[?2026;2$y"  # whether frames may be marked; yes, and none is open


class Screen:
    """The cells of one terminal. `answer` is given what the terminal says by itself."""

    def __init__(self, width: int, height: int, answer: Callable[[bytes], None]) -> None:
        self.width, self.height = width, height
        self._answer = answer
        self._rows = [[" "] * width for _ in range(height)]
        self._x = self._y = 0
        self._rest = b""
        self.marks_frames = False

    def feed(self, data: bytes) -> Iterator[None]:
        """Take bytes; stops wherever a frame is complete, and at the end for a program that does not mark frames."""
        data = self._rest + data
        end = 0
        while found := TOKEN.match(data, end):
            if found.end() == len(data) and found["text"] is not None and _torn(found["text"]):
                break
            end = found.end()
            if found["final"] is not None:
                if found[0] == ASKS_FRAMES:
                    self._answer(HAS_FRAMES)
                elif found[0] == b"\x1b[?2026h":
                    self.marks_frames = True
                elif found[0] == b"\x1b[?2026l":
                    yield
                else:
                    self._control(found["given"], found["final"])
            elif found["text"] is not None:
                self._put(found["text"].decode("utf-8", "replace"))
            elif found["control"] is not None:
                self._plain_control(found["control"])
        self._rest = data[end:]
        if not self.marks_frames:
            yield

    def column(self, x: int) -> str:
        """One column from top to bottom."""
        return "".join(row[x] for row in self._rows)

    def text(self) -> str:
        """All of it, a line a row."""
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def _put(self, text: str) -> None:
        for char in text:
            cells = _cells(char)
            if cells == 0:
                continue
            if self._x + cells > self.width:
                self._x, self._y = 0, min(self.height - 1, self._y + 1)
            self._rows[self._y][self._x] = char
            if cells == 2:
                self._rows[self._y][self._x + 1] = ""
            self._x += cells

    def _plain_control(self, control: bytes) -> None:
        if control == b"\r":
            self._x = 0
        elif control == b"\n":
            self._y = min(self.height - 1, self._y + 1)
        elif control == b"\b":
            self._x = max(0, self._x - 1)

    def _control(self, given: bytes, final: bytes) -> None:
        if given[:1] in (b"?", b"<", b"=", b">"):
            return  # a mode
        numbers = [int(part) if part.isdigit() else 0 for part in given.split(b";")]
        first = numbers[0]
        if final in b"Hf":
            second = numbers[1] if len(numbers) > 1 else 1
            self._y = min(self.height, max(1, first)) - 1
            self._x = min(self.width, max(1, second)) - 1
        elif final in b"ABCD":
            by = max(1, first)
            self._y = min(self.height - 1, max(0, self._y + {b"A": -by, b"B": by}.get(final, 0)))
            self._x = min(self.width - 1, max(0, self._x + {b"C": by, b"D": -by}.get(final, 0)))
        elif final == b"G":
            self._x = min(self.width, max(1, first)) - 1
        elif final == b"J" and first in (2, 3):
            self._rows = [[" "] * self.width for _ in range(self.height)]
        elif final == b"K" and first == 0:
            self._rows[self._y][self._x :] = [" "] * (self.width - self._x)


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _torn(text: bytes) -> bool:
    """Whether the bytes end inside a character."""
    for back in range(1, min(4, len(text) + 1)):
        byte = text[-back]
        if byte & 0xC0 != 0x80:
            return back < (4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1)
    return False
