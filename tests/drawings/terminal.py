"""A terminal with the output of a program."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.drawings.svg import Drawing

_LINE: Final = 17
_CHARACTER: Final = 6.7
_EDGE: Final = 14
_BAR: Final = 26


class Line(NamedTuple):
    """A line of text. `kind` is a class of the style sheet, such as "warm" or "title"."""

    text: str
    kind: str = ""


def terminal(title: str, lines: Sequence[Line], *, columns: int) -> Drawing:
    """Draw a window with a title. `columns` is the number of characters in its longest line."""
    drawing = Drawing(columns * _CHARACTER + 2 * _EDGE, title)
    drawing.box(0.5, 0.5, drawing.width - 1, _BAR + len(lines) * _LINE + _EDGE)
    drawing.text(_EDGE, 19, title, "title")
    for number, line in enumerate(lines, 1):
        drawing.text(_EDGE, _BAR + number * _LINE, line.text, f"output {line.kind}".strip())
    return drawing
