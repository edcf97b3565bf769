"""The rows of fields that a tree has: see `minibroker_protocol.fields`."""

from typing import Final

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
)
from minibroker_storage.explain.page import Page, preview

_BLOBS: Final = frozenset({BYTES, COMPRESSED, TEXT, UNKNOWN})
_NO_LIMIT: Final = 1 << 62


def cursor_over(data: memoryview) -> Cursor:
    """A cursor over all of `data`, which makes as many nodes as there are fields."""
    return Cursor(data, 0, len(data), Budget(_NO_LIMIT))


class Rows:
    """Writes rows for the fields in `data`.

    `origin` is the position of the first byte. Within decompressed bytes, which have no position in the file, `mark`
    is a plus sign.
    """

    def __init__(self, page: Page, data: memoryview, origin: int, mark: str = "") -> None:
        self._page = page
        self._data = data
        self._origin = origin
        self._mark = mark

    def where(self, position: int) -> str:
        """A position, as its row will show it."""
        return f"{self._mark}{self._origin + position}"

    def write(self, node: Node) -> None:
        """A row for each leaf of the tree, then a line for each fault. `DecodeError` for a leaf that is an error."""
        faults: list[str] = []
        for leaf in node.leaves():
            if leaf.type == ERROR:
                self._tell(faults)
                raise DecodeError(leaf.value)
            if leaf.fault:
                faults.append(leaf.fault)
            if leaf.start < leaf.end:
                self._row(leaf)
        self._tell(faults)

    def _tell(self, faults: list[str]) -> None:
        for fault in faults:
            self._page.fault(fault)

    def _row(self, leaf: Node) -> None:
        raw = bytes(self._data[leaf.start : leaf.end])
        meaning = leaf.note
        value = preview(raw) if leaf.type in _BLOBS else str(leaf.value)
        if leaf.type in {VARINT, VARLONG}:
            zig_zag = f"zig-zag {2 * leaf.value if leaf.value >= 0 else -2 * leaf.value - 1}"
            meaning = f"{zig_zag}; {meaning}" if meaning else zig_zag
        name = (leaf.about.rpartition(".")[2] or leaf.name.strip("()")).replace("_", " ")
        self._page.row(self.where(leaf.start), raw, name, value, meaning)
