"""Bytes with their fields, with a row per field and a column per message."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from minibroker_protocol.fields.tree import BYTES, COUNT, LENGTH, PRESENCE, SIZE, TAG, TAGGED_FIELDS, TEXT, Node
from tests.drawings.svg import Drawing

_ROW: Final = 16
_GAP: Final = 18
_WIDTH: Final = 412
_NAMES: Final = 172
"""The horizontal position of field names."""
_INDENT: Final = 5
_LETTER: Final = 6.9
_MOST_BYTES: Final = 8
_FRAME: Final = {LENGTH, COUNT, PRESENCE, SIZE, TAG}


class Column(NamedTuple):
    """A message: its title, its bytes, and the tree of its fields."""

    title: str
    data: bytes
    root: Node


class Row(NamedTuple):
    """A field, and the path that identifies the same field in other messages."""

    path: tuple[str, ...]
    node: Node


def byte_columns(title: str, *columns: Column, is_aligned: bool) -> Drawing:
    """Draw messages side by side.

    If they are aligned, equal fields are in the same row and all fields in the same order.
    """
    rows = [list(_rows(column.root)) for column in columns]
    order = _merged([[row.path for row in column_rows] for column_rows in rows]) if is_aligned else []
    drawing = Drawing(len(columns) * (_WIDTH + _GAP) - _GAP, title)
    for index, (column, own) in enumerate(zip(columns, rows, strict=True)):
        x = index * (_WIDTH + _GAP)
        drawing.text(x, 14, f"{column.title}: {len(column.data)} bytes", "title")
        for line, row in enumerate(own):
            y = 26 + (order.index(row.path) if is_aligned else line) * _ROW
            _draw(drawing, x, y, row.node, column.data, len(row.path) - 1)
    return drawing


def _rows(node: Node, path: tuple[str, ...] = ()) -> Iterator[Row]:
    for child in node.children or ():
        at = (*path, child.name)
        yield Row(at, child)
        if _is_part(child):
            yield from _rows(child, at)


def _is_part(node: Node) -> bool:
    """Return whether a field has a row for each of its children."""
    return bool(node.children) and (node.type != TAGGED_FIELDS or node.end - node.start > 1)


def _merged(columns: Sequence[list[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Return an order of rows that keeps the order of each column."""
    merged: list[tuple[str, ...]] = []
    for own in columns:
        together: list[tuple[str, ...]] = []
        for _, a, b, c, d in SequenceMatcher(None, merged, own, autojunk=False).get_opcodes():
            together += merged[a:b] + [path for path in own[c:d] if path not in merged]
        merged = together
    return merged


def _draw(drawing: Drawing, x: float, y: float, node: Node, data: bytes, depth: int) -> None:
    base = y + 12
    names = x + _NAMES + depth * _INDENT
    if _is_part(node):
        drawing.text(names, base, node.name, "title")
        return
    raw = data[node.start : node.end]
    drawing.box(x, y + 1, _NAMES - 8, _ROW - 2, _kind(node))
    drawing.text(x + 26, base, str(node.start), "bytes soft end")
    shown = raw[:_MOST_BYTES].hex(" ", -2)
    drawing.text(x + 34, base, shown if len(raw) <= _MOST_BYTES else f"{shown[:-2]}…", "bytes")
    name = "tagged fields" if node.type == TAGGED_FIELDS else node.name
    drawing.text(names, base, name)
    space = int((x + _WIDTH - names) / _LETTER) - len(name) - 1
    drawing.text(x + _WIDTH, base, _value(node, raw, space), "soft end")


def _kind(node: Node) -> str:
    if node.name in _FRAME or node.type == TAGGED_FIELDS:
        return "frame"
    return "content" if node.type in (TEXT, BYTES) else "number"


def _value(node: Node, raw: bytes, space: int) -> str:
    """Return the value of a field as text, with at most as many characters as fit."""
    if node.type == TAGGED_FIELDS:
        return "none"
    if node.type in (TEXT, BYTES):
        return repr(raw.decode(errors="replace"))[:space]
    value = str(node.value) if isinstance(node.value, int) else ""
    noted = f"{value}  {node.note}"
    return noted if node.note and len(noted) <= space else value
