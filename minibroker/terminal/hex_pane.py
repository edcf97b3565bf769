"""Bytes in hex and as text, with one range marked."""

from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

_WIDTH: Final = 16
_COLUMNS: Final = 6 + 2 + 3 * _WIDTH + 1 + _WIDTH
_MARK: Final = Style(reverse=True)
_DIM: Final = Style(dim=True)
_PLAIN: Final = Style()
_PRINTABLE: Final = range(0x20, 0x7F)


class HexPane(ScrollView):
    """A pane of any length: it draws the lines that are in sight.

    Attributes:
        data: the bytes.
        marked: the range of bytes that is marked.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.can_focus = True
        self.data = b""
        self.marked = range(0)

    def show(self, data: bytes, marked: range) -> None:
        """Show bytes with a range marked, and scroll to it."""
        self.data = data
        self.marked = marked
        self.virtual_size = Size(_COLUMNS, -(-len(data) // _WIDTH))
        line = marked.start // _WIDTH
        if not self.scroll_offset.y <= line < self.scroll_offset.y + max(1, self.size.height):
            self.scroll_to(y=max(0, line - 2), animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        start = (y + self.scroll_offset.y) * _WIDTH
        part = self.data[start : start + _WIDTH]
        if not part:
            return Strip.blank(self.size.width)
        styles = [_MARK if start + index in self.marked else _PLAIN for index in range(len(part))]
        segments = [Segment(f"{start:06x}  ", _DIM)]
        for byte, style in zip(part, styles, strict=True):
            segments += [Segment(f"{byte:02x}", style), Segment(" ")]
        segments.append(Segment("   " * (_WIDTH - len(part)) + " "))
        for byte, style in zip(part, styles, strict=True):
            segments.append(Segment(chr(byte) if byte in _PRINTABLE else "·", style))
        return Strip(segments).crop(self.scroll_offset.x, self.scroll_offset.x + self.size.width)
