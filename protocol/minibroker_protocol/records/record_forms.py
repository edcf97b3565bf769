"""The check of a batch's only record by its form.

A producer that sends record by record mostly sends records of few sizes. The *form* of a record is every byte that says
where a field ends, each at its place. A record of a form that has passed is valid, whatever its key and its value are,
so one comparison takes the place of the walk over its fields.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from minibroker_protocol.records.record import walk_records
from minibroker_protocol.records.varint import CONTINUES, decode_varint

MOST_FORMS: Final = 256
"""So many are remembered, one for each size; when there are more, all are forgotten."""


_Form = tuple[Callable[[bytes | memoryview], tuple[Any, ...]], tuple[Any, ...], int]
"""Takes the bytes of the form out of a batch, what they are, and what `check_record` returns."""


class _Forms:
    """Those of records that have passed, by the size of their batch. A size gets its form when it comes twice in turn.

    Else sizes that differ each time would cost more than the walk.
    """

    __slots__ = ("by_size", "last_size")

    def __init__(self) -> None:
        self.by_size: dict[int, _Form] = {}
        self.last_size = -1


_forms: Final = _Forms()
_of_size: Final = _forms.by_size.get


def check_record(batch: bytes | memoryview, position: int) -> int:
    """`walk_records` for one record, with which `batch` ends; it begins at `position`, the same for all batches."""
    form = _of_size(len(batch))
    if form is not None:
        taken_from, content, delta = form
        if taken_from(batch) == content:
            return delta
    return _walk(batch, position)


def _walk(batch: bytes | memoryview, position: int) -> int:
    delta = walk_records(batch, position, 1)
    size = len(batch)
    if size == _forms.last_size and size not in _forms.by_size:
        form = _form_of(batch, position, delta)
        if form is not None:
            if len(_forms.by_size) >= MOST_FORMS:
                _forms.by_size.clear()
            _forms.by_size[size] = form
    _forms.last_size = size
    return delta


def _form_of(batch: bytes | memoryview, position: int, delta: int) -> _Form | None:
    """The form of a valid record; None with headers, which have lengths of their own."""
    _, at = decode_varint(batch, position)
    at += 1  # the attributes
    for _ in ("timestamp delta", "offset delta"):
        while batch[at] >= CONTINUES:
            at += 1
        at += 1
    key_size, key = decode_varint(batch, at)
    value_size_at = key + max(key_size, 0)
    value_size, value = decode_varint(batch, value_size_at)
    end = value + max(value_size, 0)
    if batch[end:] != b"\0":
        return None
    taken_from = Struct(
        f"{position}x{key - position}s{value_size_at - key}x{value - value_size_at}s{end - value}xs"
    ).unpack
    return taken_from, taken_from(batch), delta
