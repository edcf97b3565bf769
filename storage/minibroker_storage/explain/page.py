"""`Page`, to which explanations are written, and `Rows`, which reads fields and writes a row for each."""

import textwrap
from struct import Struct
from typing import Final, TextIO

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.tree import (
    BYTES,
    COMPRESSED,
    ERROR,
    TEXT,
    UNKNOWN,
    VARINT,
    VARLONG,
    Budget,
    Cursor,
    Node,
    Note,
)

WIDTH: Final = 100
_SHOWN_BYTES: Final = 8
_HEX_WIDTH: Final = 3 * _SHOWN_BYTES - 1
_POSITION_WIDTH: Final = 10
_NAME_WIDTH: Final = 22
_VALUE_COLUMN: Final = _POSITION_WIDTH + 2 + _HEX_WIDTH + 2 + _NAME_WIDTH + 2
_PREVIEW: Final = 60
_SHOWN_CHARACTERS: Final = 2000


class Page:
    """A page of lines of at most 100 columns: position, bytes in hexadecimal, name, value and meaning."""

    def __init__(self, out: TextIO) -> None:
        self._write = out.write
        #: Whether everything explained so far is valid.
        self.sound = True

    def write_heading(self, text: str, *, level: int = 0) -> None:
        """Write a heading, indented by its level."""
        self._write_lines(text, "  " * level)

    def write_gap(self) -> None:
        """Write an empty line."""
        self._write("\n")

    def write_table_head(self) -> None:
        """Write the names of the columns."""
        self._write(f"{'byte':>{_POSITION_WIDTH}}  {'bytes':{_HEX_WIDTH}}  {'field':{_NAME_WIDTH}}  value (meaning)\n")

    def write_fault(self, text: str) -> None:
        """Write a line about a fault, and clear `sound`."""
        self.sound = False
        self._write_lines(f"!! {text}", "")

    def write_row(self, position: str, raw: bytes, name: str, value: str, meaning: str = "") -> None:
        """Write the row of one field."""
        hex_bytes = raw.hex(" ") if len(raw) <= _SHOWN_BYTES else raw[: _SHOWN_BYTES - 1].hex(" ") + " .."
        text = _shorten(f"{value} ({meaning})" if meaning else value)
        width = WIDTH - _VALUE_COLUMN
        first, *more_lines = [text] if len(text) <= width else textwrap.wrap(text, width)
        line = f"{position:>{_POSITION_WIDTH}}  {hex_bytes:{_HEX_WIDTH}}  {_shorten(name):{_NAME_WIDTH}}  {first}"
        self._write(line.rstrip() + "\n")
        for wrapped_line in more_lines:
            self._write(f"{'':{_VALUE_COLUMN}}{wrapped_line}\n")

    def _write_lines(self, text: str, indent: str) -> None:
        text = _shorten(text)
        if len(indent + text) <= WIDTH:
            self._write(f"{indent}{text}\n")
            return
        for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  "):
            self._write(line + "\n")


def _shorten(text: str) -> str:
    """Shorten a long text, because `textwrap` takes quadratic time for a long word."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def format_preview(data: bytes) -> str:
    """Return the size of `data` and the beginning of its text, or "not text"."""
    count = f"{len(data)} byte" + ("" if len(data) == 1 else "s")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{count}, not text"
    return f"{count}, {text!r}" if len(text) <= _PREVIEW else f"{count}, {text[:_PREVIEW]!r}..."


_BLOBS: Final = frozenset({BYTES, COMPRESSED, TEXT, UNKNOWN})
_NO_LIMIT: Final = 1 << 62


def create_cursor(data: memoryview) -> Cursor:
    """Return a cursor over all of `data`, with no limit on the number of nodes it creates."""
    return Cursor(data, 0, len(data), Budget(_NO_LIMIT))


class Rows:
    """Writes rows for the fields in `data`.

    `write` takes fields that were read before. `read_number` and `read_blob` read the next field themselves, and raise
    `DecodeError` past the end.

    Args:
        page: the page to write to.
        data: the bytes that contain the fields.
        origin: the position of the first byte in the file.
        mark: a plus sign for decompressed bytes, which have no position in the file.
    """

    def __init__(self, page: Page, data: bytes | memoryview, origin: int = 0, mark: str = "") -> None:
        self.page = page
        #: The position in `data` of the next field to read.
        self.at = 0
        self._data = data
        self._origin = origin
        self._mark = mark

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self.at

    def position_text(self, position: int) -> str:
        """Return a position as its row shows it."""
        return f"{self._mark}{self._origin + position}"

    def read_number(self, name: str, layout: Struct, meaning: Note = "") -> int:
        """Read an integer of fixed size, and write its row."""
        (value,) = layout.unpack(self._read_field(name, layout.size))
        note = meaning if isinstance(meaning, str) else meaning(value)
        self._write_row(self.at - layout.size, self.at, name, value, note)
        return int(value)

    def read_blob(self, name: str, size: int, meaning: str = "") -> None:
        """Read text, or bytes of unknown meaning, and write a row unless the field is empty."""
        raw = self._read_field(name, size)
        if size:
            self._write_row(self.at - size, self.at, name, format_preview(raw), meaning)

    def _read_field(self, name: str, size: int) -> bytes:
        if size < 0 or size > self.left:
            raise DecodeError(f"{name}: {size} bytes at {self.position_text(self.at)}, where {self.left} are left")
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def write(self, node: Node) -> None:
        """Write a row for each leaf of the tree, then a line for each fault.

        Raises:
            DecodeError: a leaf is an error.
        """
        faults: list[str] = []
        try:
            for leaf in node.leaves():
                if leaf.type == ERROR:
                    raise DecodeError(leaf.value)
                if leaf.fault:
                    faults.append(leaf.fault)
                if leaf.start < leaf.end:
                    self._write_leaf(leaf)
        finally:
            for fault in faults:
                self.page.write_fault(fault)

    def _write_leaf(self, leaf: Node) -> None:
        meaning = leaf.note
        value = format_preview(bytes(self._data[leaf.start : leaf.end])) if leaf.type in _BLOBS else leaf.value
        if leaf.type in {VARINT, VARLONG}:
            zig_zag = f"zig-zag {2 * leaf.value if leaf.value >= 0 else -2 * leaf.value - 1}"
            meaning = f"{zig_zag}; {meaning}" if meaning else zig_zag
        name = (leaf.about.rpartition(".")[2] or leaf.name.strip("()")).replace("_", " ")
        self._write_row(leaf.start, leaf.end, name, value, meaning)

    def _write_row(self, start: int, end: int, name: str, value: object, meaning: str) -> None:
        self.page.write_row(self.position_text(start), bytes(self._data[start:end]), name, str(value), meaning)
