"""Plain prompt templates: text files and string values with `{name}`, `{{name}}` or `${name}` holes.

Names are all the evidence there is, so findings are warnings at most. The trap: prose may say `now()` or show JSON in
braces; only a hole that is one identifier counts.
"""

from __future__ import annotations

import re

from opsconsole.lint.frontends.inversion import inversions
from opsconsole.lint.frontends.ir import Literal, Message, Piece, Prompt, Spot
from opsconsole.lint.frontends.names import meaning
from opsconsole.lint.frontends.values import from_meaning, pieces
from opsconsole.lint.model import Finding
from opsconsole.lint.segments import estimate

HOLE = re.compile(
    r"\{\{\s*(?P<double>[A-Za-z_][\w.]*)\s*\}\}|\$\{(?P<dollar>[A-Za-z_][\w.]*)\}|(?<!\{)\{(?P<single>[A-Za-z_][\w.]*)(?:![rsa])?"
    r"(?::[^{}\n]*)?\}(?!\})|<<(?P<angle>[A-Za-z_]\w*)>>"
)


def text_pieces(text: str, spot_at: SpotAt) -> tuple[Piece, ...]:
    """Pieces of a template text; holes stand where their brace is."""
    made: list[Piece] = []
    last = 0
    for match in HOLE.finditer(text):
        if match.start() > last:
            made.append(Literal(estimate(text[last : match.start()]), match.start() - last))
        last = match.end()
        name = next(group for group in match.groups() if group)
        made += pieces(from_meaning(meaning(name)), spot_at(match.start()))
    if last < len(text):
        made.append(Literal(estimate(text[last:]), len(text) - last))
    return tuple(made)


class SpotAt:
    """Places of offsets of one text that starts somewhere in a file."""

    def __init__(self, file: str, text: str, offset: int = 0) -> None:
        self._file, self._text, self._offset = file, text, offset

    def __call__(self, at: int) -> Spot:
        where = self._offset + at
        line = self._text.count("\n", 0, where)
        return Spot(self._file, line + 1, where - (self._text.rfind("\n", 0, where) + 1) + 1)


def check(file: str, text: str, min_tokens: int) -> list[Finding]:
    """Findings of a plain template file."""
    spot_at = SpotAt(file, text)
    message = Message("template", text_pieces(text, spot_at), spot_at(0))
    return inversions(Prompt((message,), spot_at(0)), min_tokens)
