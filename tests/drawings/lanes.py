"""Steps between parties from top to bottom, with the state after each step on the right."""

from collections.abc import Sequence
from typing import Final

from tests.drawings.svg import Drawing

_STEP: Final = 27
_TOP: Final = 44


class Lanes:
    """A lane per party and one for the state. `width` is the width of a party's lane in pixels."""

    def __init__(
        self, title: str, parties: Sequence[str], state: str, *, width: int = 250, state_width: int = 330
    ) -> None:
        self._drawing = Drawing(len(parties) * width + state_width, title)
        self._places = {name: width * (index + 0.5) for index, name in enumerate(parties)}
        self._width = width
        self._state_at = len(parties) * width
        self._y = _TOP + 18
        for name, x in self._places.items():
            self._drawing.box(x - 90, 6, 180, 28, "box")
            self._drawing.text(x, 25, name, "title middle")
        self._drawing.text(self._state_at, 25, state, "title")

    def step(self, sender: str, receiver: str, words: str, state: str = "", *, refused: bool = False) -> None:
        """Draw an arrow with a text above it, and the state after its arrival."""
        start, end = self._places[sender], self._places[receiver]
        middle = end + (start - end) / 2 / (abs(start - end) / self._width)  # The gap before the receiver.
        self._drawing.text(middle, self._y - 6, words, "warm middle" if refused else "middle")
        self._drawing.line((start, self._y), (end, self._y), kind="arrow")
        self._drawing.text(self._state_at, self._y, state, "soft")
        self._y += _STEP

    def between(self, words: str) -> None:
        """Write a text between two steps, where no lane crosses it."""
        self._drawing.text(self._state_at, self._y, words)
        self._y += _STEP

    def drawing(self) -> Drawing:
        """Return the drawing, with the lanes down to the last step."""
        for x in self._places.values():
            self._drawing.line((x, 34), (x, self._y - _STEP / 2), kind="life")
        return self._drawing
