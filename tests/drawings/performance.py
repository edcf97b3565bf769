"""The figures of the performance page as bars: minibroker compared with Kafka and kfake."""

import math
import re
from typing import Final, NamedTuple

from tests.documented import ROOT
from tests.drawings.svg import Drawing

_PAGE: Final = "docs/performance.md"
_WIDTH: Final = 1_000
_ONE_AT: Final = 560
_DOUBLING: Final = 66
"""The pixels between 1x and 2x."""
_ROW, _BAR, _TOP = 46, 14, 64
_PEERS: Final = (("Apache Kafka 3.9.1", "box"), ("kfake", "done"))
_MARKS: Final = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)


class Row(NamedTuple):
    """A figure, and minibroker's lead over each peer as a factor, or None if the peer has no figure."""

    label: str
    ahead: tuple[float | None, ...]


def rows() -> list[Row]:
    """Return the rows of the page's first table.

    The table has the label, the unit, the figures of minibroker, Kafka and kfake, and whether more or less is better.
    """
    figures: list[Row] = []
    for line in (ROOT / _PAGE).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or cells[5] not in {"less", "more"}:
            continue
        ours, *others = [float(cell.replace(",", "")) if re.match(r"[\d.,]+$", cell) else None for cell in cells[2:5]]
        assert ours is not None, line
        sign = 1 if cells[5] == "more" else -1
        ahead = tuple(None if other is None else (ours / other) ** sign for other in others)
        figures.append(Row(f"{cells[0]}, {cells[1]}", ahead))
    return figures


def _at(factor: float) -> float:
    return _ONE_AT + _DOUBLING * math.log2(factor)


def beside_others() -> Drawing:
    """Draw the bars. To the right of 1x, minibroker is better."""
    shown = rows()
    drawing = Drawing(_WIDTH, "minibroker beside Apache Kafka and kfake")
    x = 10.0
    for name, kind in _PEERS:
        drawing.box(x, 8, 14, 14, kind)
        drawing.text(x + 20, 20, f"minibroker beside {name}")
        x += 300
    bottom = _TOP + _ROW * len(shown)
    for mark in _MARKS:
        drawing.line((_at(mark), _TOP - 14), (_at(mark), bottom), kind="" if mark == 1 else "life")
        drawing.text(_at(mark), _TOP - 20, f"{mark:g}x", "soft middle")
    for number, row in enumerate(shown):
        y = _TOP + _ROW * number
        drawing.text(10, y + 20, row.label)
        for place, (factor, (_, kind)) in enumerate(zip(row.ahead, _PEERS, strict=True)):
            if factor is None:
                continue
            top = y + place * (_BAR + 4)
            start, end = sorted((_ONE_AT, _at(factor)))
            drawing.box(start, top, max(end - start, 1), _BAR, kind)
            drawing.text(max(end, _ONE_AT) + 6, top + 11, f"{factor:.2g}x")
    return drawing
