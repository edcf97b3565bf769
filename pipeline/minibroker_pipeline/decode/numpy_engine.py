"""The NumPy engine, which decodes all batches of a chunk side by side, each in a lane. It runs where numba cannot.

numba has no wheels for Alpine's musl, for Macs with Intel processors, or for a new Python release. It also needs a
writable folder for machine code, which containers often lack. This engine takes 2 to 9 times as long as the compiled
kernel.

Step i reads record i of every batch that has one, field by field, with operations on arrays that have one element per
lane. A step therefore costs about the same for one lane as for a hundred. When only a few long batches remain, the
positions of their records are found first (`record_starts`), and each record becomes a lane. No byte outside a block
is read, whatever the bytes contain: a lane with invalid bytes continues at a valid position, and its rows are dropped
at the end.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import (
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    FIXED_TIMESTAMP,
    IS_BAD,
    KIND,
    MAX_TIMESTAMP,
    PLAIN_V0,
    PLAIN_V1,
    ROWS,
    START,
    V2,
    WRAPPER_V0,
    WRAPPER_V1,
    RecordTable,
)
from minibroker_pipeline.decode.headers import find_entries, find_wrong_crcs
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import (
    CODEC_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
)
from minibroker_protocol.records.varint import decode_varint

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

_ATTRIBUTES_AT: Final = 17
_TIMESTAMP_AT: Final = 18
_KEY_AT: Final = 18
"""The position of the key's length in v0. In v1, it follows eight bytes of timestamp."""
_TIMESTAMP_SIZE: Final = 8
_LENGTH_SIZE: Final = 4


class _Columns:
    """The arrays of a `RecordTable` before rows are removed."""

    def __init__(self, capacity: int) -> None:
        self.offsets = np.zeros(capacity, np.int64)
        self.timestamps = np.zeros(capacity, np.int64)
        self.numbers = np.zeros((6, capacity), np.int32)
        self.key_at, self.key_size, self.value_at, self.value_size, self.headers_at, self.header_count = self.numbers
        self.record_end = np.zeros(capacity, np.int32)


class Messages(NamedTuple):
    """Single messages: their start, end, block and index within the block, and the number of messages in each block."""

    at: _Ints
    end: _Ints
    block: _Ints
    place: _Ints
    counts: _Ints


def _read_integers(data: _Bytes, at: _Ints, size: int) -> _Ints:
    """Return the big-endian signed integers of `size` bytes at these positions."""
    integers: _Ints = data[at[:, None] + np.arange(size)].view(f">i{size}")[:, 0].astype(np.int64)
    return integers


def _inner_bounds(view: memoryview, start: int, end: int, magic: int) -> tuple[list[int], list[int]]:
    """Return the starts and ends of the messages in a wrapper's message set. An incomplete last message is ignored.

    Both lists are empty if the set is invalid or empty.
    """
    smallest = MIN_MESSAGE_LENGTH_V1 if magic else MIN_MESSAGE_LENGTH
    starts: list[int] = []
    ends: list[int] = []
    at = start
    while at <= end - LOG_OVERHEAD:
        size = int.from_bytes(view[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True)
        if size < MIN_MESSAGE_LENGTH:
            return [], []
        if size > end - LOG_OVERHEAD - at:
            break
        if view[at + MAGIC_AT] != magic or size < smallest:
            return [], []
        starts.append(at)
        at += LOG_OVERHEAD + size
        ends.append(at)
    return starts, ends


def expand_messages(data: _Bytes, blocks: _Ints) -> Messages:
    """Return all messages of the blocks that are not v2 batches, and set IS_BAD for wrappers without messages."""
    kinds = blocks[:, KIND]
    counts = np.where((kinds == PLAIN_V0) | (kinds == PLAIN_V1), 1, 0)
    plain = np.flatnonzero(counts)
    at, end, block = [blocks[plain, START]], [blocks[plain, END]], [plain]
    index = [np.zeros(len(plain), np.int64)]
    view = data.data
    for wrapper in np.flatnonzero((kinds == WRAPPER_V0) | (kinds == WRAPPER_V1)).tolist():
        magic = int(kinds[wrapper] == WRAPPER_V1)
        starts, ends = _inner_bounds(view, int(blocks[wrapper, START]), int(blocks[wrapper, END]), magic)
        blocks[wrapper, IS_BAD] |= not starts
        counts[wrapper] = len(starts)
        at.append(np.array(starts, np.int64))
        end.append(np.array(ends, np.int64))
        block.append(np.full(len(starts), wrapper))
        index.append(np.arange(len(starts)))
    return Messages(np.concatenate(at), np.concatenate(end), np.concatenate(block), np.concatenate(index), counts)


def read_messages(data: _Bytes, blocks: _Ints, messages: Messages, first_rows: _Ints, columns: _Columns) -> None:
    """Fill the rows of the messages, set IS_BAD, and set BASE_OFFSET for each wrapper to the first offset in it."""
    at, end, block = messages.at, messages.end, messages.block
    rows = first_rows[block] + messages.place
    kinds = blocks[block, KIND]
    bad = np.zeros(len(at), np.bool_)

    columns.timestamps[rows] = blocks[block, MAX_TIMESTAMP]
    inner = np.flatnonzero((kinds == WRAPPER_V0) | (kinds == WRAPPER_V1))
    has_time = np.flatnonzero((kinds == WRAPPER_V1) & (blocks[block, FIXED_TIMESTAMP] == 0))
    columns.timestamps[rows[has_time]] = _read_integers(data, at[has_time] + _TIMESTAMP_AT, _TIMESTAMP_SIZE)

    offsets = blocks[block, BASE_OFFSET]
    if len(inner):
        offsets[inner], bad[inner] = _absolute_offsets(data, blocks, messages, inner)
        bad[inner] |= data[at[inner] + _ATTRIBUTES_AT] & CODEC_MASK != 0
        firsts = inner[messages.place[inner] == 0]
        blocks[block[firsts], BASE_OFFSET] = offsets[firsts]
    columns.offsets[rows] = offsets

    is_v1 = (kinds == PLAIN_V1) | (kinds == WRAPPER_V1)
    key_length_at = at + _KEY_AT + np.where(is_v1, _TIMESTAMP_SIZE, 0)
    length = _read_integers(data, key_length_at, _LENGTH_SIZE)
    key_at = key_length_at + _LENGTH_SIZE
    too_long = length > end - key_at - _LENGTH_SIZE
    length[too_long] = 0
    columns.key_at[rows], columns.key_size[rows] = key_at, np.maximum(length, -1)
    value_length_at = key_at + np.maximum(length, 0)
    length = _read_integers(data, value_length_at, _LENGTH_SIZE)
    value_at = value_length_at + _LENGTH_SIZE
    too_long |= length > end - value_at
    columns.value_at[rows], columns.value_size[rows] = value_at, np.maximum(length, -1)
    blocks[block[bad | too_long], IS_BAD] = 1


def _absolute_offsets(data: _Bytes, blocks: _Ints, messages: Messages, inner: _Ints) -> tuple[_Ints, NDArray[np.bool_]]:
    """Return the offsets of messages from wrappers, and a mask of the invalid offsets.

    See `minibroker_protocol.records.legacy` for the rules.
    """
    block = messages.block[inner]
    relative = _read_integers(data, messages.at[inner], _TIMESTAMP_SIZE)
    is_last = messages.place[inner] == messages.counts[block] - 1
    last = np.zeros(len(blocks), np.int64)
    last[block[is_last]] = relative[is_last]
    wrapper = blocks[block, BASE_OFFSET]
    counts_from_0 = (blocks[block, KIND] == WRAPPER_V1) & (wrapper != 0)
    base = np.where(counts_from_0, wrapper - last[block], 0)
    offsets = relative + base
    is_same = (base != 0) & (relative == last[block])
    bad = ~is_same & ((base < 0) | ((relative >= 0) & (offsets < 0)))
    bad |= counts_from_0 & (wrapper < last[block])
    return np.where(is_same, wrapper, offsets), bad


_CONTINUES: Final = 0x80
_SEVEN_BITS: Final = 0x7F


def record_starts(data: bytes, count: int) -> list[int] | None:
    """Return the positions of the `count` records that fill `data`, or None if their lengths do not match."""
    starts: list[int] = []
    append = starts.append
    at = 0
    try:
        for _ in range(count):
            append(at)
            raw = data[at]
            at += 1
            if raw >= _CONTINUES:
                second_byte = data[at]
                if second_byte < _CONTINUES:
                    raw = raw & _SEVEN_BITS | second_byte << 7
                    at += 1
                else:
                    length, at = decode_varint(data, at - 1)
                    raw = length << 1 if length >= 0 else 1
            if raw & 1:
                return None  # The length is negative.
            at += raw >> 1
    except (DecodeError, IndexError):
        return None
    return starts if at == len(data) else None


_MIN_LANES: Final = 160
_MIN_RECORD_SIZE: Final = 7
_MIN_HEADER_SIZE: Final = 2
_VARINT: Final = 5
_VARLONG: Final = 10
_UINT32: Final = 0xFFFFFFFF
_INT64_MAX: Final = 2**63 - 1


class Lanes:
    """The state of all lanes: the position of each lane's next byte, the end of its block, and whether the lane is bad.

    A lane is bad if the bytes of its block are not records.
    """

    def __init__(self, data: _Bytes, at: _Ints, end: _Ints) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.bad = np.zeros(len(at), np.bool_)
        self._last = max(len(data) - 1, 0)

    def keep(self, count: int) -> None:
        """Continue with only the first `count` lanes. `bad` still has an element for every lane."""
        self.at = self.at[:count]
        self.end = self.end[:count]

    def byte(self) -> _Ints:
        """Return the byte at each lane's position. A lane that is at the end of its block becomes bad."""
        self.bad[: len(self.at)] |= self.at >= self.end
        return self.data[np.minimum(self.at, self._last)].astype(np.int64)

    def _read_raw(self, most_bytes: int) -> _Ints:
        byte = self.byte()
        self.at = self.at + 1
        if not (byte >= _CONTINUES).any():
            return byte
        raw = byte & _SEVEN_BITS
        open_lanes = np.flatnonzero(byte >= _CONTINUES)
        for shift in range(7, 7 * most_bytes, 7):
            at = self.at[open_lanes]
            self.bad[open_lanes] |= at >= self.end[open_lanes]
            byte = self.data[np.minimum(at, self._last)].astype(np.int64)
            raw[open_lanes] |= (byte & _SEVEN_BITS) << shift
            self.at[open_lanes] += 1
            open_lanes = open_lanes[byte >= _CONTINUES]
            if not len(open_lanes):
                return raw
        self.bad[open_lanes] = True
        return raw

    def read_varint(self) -> _Ints:
        """Read an int32 from each lane."""
        raw = self._read_raw(_VARINT) & _UINT32
        return (raw >> 1) ^ -(raw & 1)

    def read_varlong(self) -> _Ints:
        """Read an int64 from each lane."""
        raw = self._read_raw(_VARLONG)
        return ((raw >> 1) & _INT64_MAX) ^ -(raw & 1)


def _walk_v2(data: _Bytes, blocks: _Ints, lines: _Ints, first_rows: _Ints, columns: _Columns) -> None:
    """Fill the rows of the v2 batches at these lines of the table, the longest batch first, and set IS_BAD."""
    counts = blocks[lines, COUNT]
    lanes = Lanes(data, blocks[lines, START], blocks[lines, END])
    base_offsets, base_timestamps = blocks[lines, BASE_OFFSET], blocks[lines, BASE_TIMESTAMP]
    ascending = counts[::-1]
    ends = lanes.at.copy()
    for step in range(int(counts[0]) if len(counts) else 0):
        active = len(counts) - int(np.searchsorted(ascending, step, side="right"))
        if active < _MIN_LANES:
            _read_remaining(data, blocks, lines[:active], lanes, first_rows[:active], step, columns)
            ends[:active] = lanes.end[:active]
            break
        lanes.keep(active)
        _read_records(lanes, base_offsets[:active], base_timestamps[:active], first_rows[:active] + step, columns)
        ends[:active] = lanes.at
    lanes.bad |= (ends != blocks[lines, END]) & (counts > 0)
    blocks[lines[lanes.bad], IS_BAD] = 1


def _read_records(lanes: Lanes, base_offsets: _Ints, base_timestamps: _Ints, rows: _Ints, columns: _Columns) -> None:
    """Read one record from each lane, except its headers."""
    length = lanes.read_varint()
    record_end = lanes.at + length
    bad = (length < 0) | (record_end > lanes.end)
    lanes.bad[: len(bad)] |= bad
    record_end = np.where(bad, lanes.at, record_end)
    lanes.at = lanes.at + 1
    columns.timestamps[rows] = base_timestamps + lanes.read_varlong()
    columns.offsets[rows] = base_offsets + lanes.read_varint()
    for at, size in ((columns.key_at, columns.key_size), (columns.value_at, columns.value_size)):
        length = lanes.read_varint()
        at[rows] = lanes.at
        size[rows] = np.maximum(length, -1)
        lanes.at = lanes.at + np.maximum(length, 0)
    count = lanes.read_varint()
    remaining = record_end - lanes.at
    columns.header_count[rows] = count
    columns.headers_at[rows] = lanes.at
    columns.record_end[rows] = record_end
    bad = (count < 0) | (remaining < 0) | (count * _MIN_HEADER_SIZE > remaining) | ((count == 0) & (remaining != 0))
    lanes.bad[: len(bad)] |= bad
    lanes.at = record_end


def _read_remaining(
    data: _Bytes, blocks: _Ints, lines: _Ints, lanes: Lanes, first_rows: _Ints, step: int, columns: _Columns
) -> None:
    """Read the remaining records of a few batches, starting at record `step`.

    Batches are read one at a time, each with its records in parallel lanes.
    """
    for lane, (line, first_row) in enumerate(zip(lines.tolist(), first_rows.tolist(), strict=True)):
        if lanes.bad[lane]:
            continue
        start, end, count = int(lanes.at[lane]), int(blocks[line, END]), int(blocks[line, COUNT])
        starts = record_starts(data[start:end].tobytes(), count - step)
        if starts is None:
            lanes.bad[lane] = True
            continue
        at = np.array(starts, np.int64) + start
        records = Lanes(data, at, np.full(len(at), end))
        rows = np.arange(first_row + step, first_row + count)
        _read_records(records, blocks[line, BASE_OFFSET], blocks[line, BASE_TIMESTAMP], rows, columns)
        lanes.bad[lane] = records.bad.any()


def find_headers(data: _Bytes, at: _Ints, count: _Ints, end: _Ints) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the positions and sizes of the keys and values of all headers, and a mask of the bad records.

    Each record has `count` headers, at least one, between `at` and `end`.
    """
    order = np.argsort(-count, kind="stable")
    counts = count[order]
    first_headers = (np.cumsum(count) - count)[order]
    lanes = Lanes(data, at[order], end[order])
    fields = np.zeros((4, int(count.sum())), np.int32)
    ends = lanes.at.copy()
    ascending = counts[::-1]
    for step in range(int(counts[0]) if len(counts) else 0):
        active = len(counts) - int(np.searchsorted(ascending, step, side="right"))
        lanes.keep(active)
        rows = first_headers[:active] + step
        for line, min_size in ((0, 0), (2, -1)):
            length = lanes.read_varint()
            lanes.bad[:active] |= (length < 0) & (min_size == 0)
            fields[line, rows] = lanes.at
            fields[line + 1, rows] = np.maximum(length, min_size)
            lanes.at = lanes.at + np.maximum(length, 0)
        ends[:active] = lanes.at
    bad = np.zeros(len(at), np.bool_)
    bad[order] = lanes.bad | (ends != end[order])
    return fields, bad


class RecordEngine:
    """Finds and gathers records with NumPy. `numba_engine` overrides all methods.

    Attributes:
        chunk_factor: the preferred amount of data per call, as a multiple of `chunk_bytes`.
        chase: see `headers.find_entries`.
    """

    chunk_factor = 8
    chase = staticmethod(find_entries)

    def find_wrong_crcs(self, view: memoryview, headers: NDArray[Any]) -> list[int]:
        """See `headers.find_wrong_crcs`."""
        return find_wrong_crcs(view, headers)

    def walk(self, data: _Bytes, blocks: _Ints, first: int, limit: int) -> RecordTable:
        """Return the records of the blocks with offsets in [first, limit).

        Set ROWS for each block, and IS_BAD for each block that does not contain valid records. A bad block has no rows.
        """
        is_v2 = blocks[:, KIND] == V2
        counts = np.where(is_v2, blocks[:, COUNT], 0)
        impossible = (counts < 0) | (counts * _MIN_RECORD_SIZE > blocks[:, END] - blocks[:, START])
        blocks[impossible, IS_BAD] = 1
        counts[impossible] = 0
        messages = None
        if not is_v2.all():
            messages = expand_messages(data, blocks)
            counts += messages.counts
        first_rows = np.cumsum(counts) - counts
        columns = _Columns(int(counts.sum()))
        lines = np.flatnonzero(is_v2 & ~impossible)
        lines = lines[np.argsort(-counts[lines], kind="stable")]
        _walk_v2(data, blocks, lines, first_rows[lines], columns)
        block_of_row = np.repeat(np.arange(len(blocks)), counts)
        if messages is not None:
            read_messages(data, blocks, messages, first_rows, columns)
        is_fixed = blocks[:, FIXED_TIMESTAMP] != 0
        if is_fixed.any():
            fixed = is_fixed[block_of_row]
            columns.timestamps[fixed] = blocks[block_of_row[fixed], MAX_TIMESTAMP]
        with_headers = np.flatnonzero((columns.header_count > 0) & (blocks[block_of_row, IS_BAD] == 0))
        if len(with_headers):
            _, bad = find_headers(
                data,
                columns.headers_at[with_headers].astype(np.int64),
                columns.header_count[with_headers].astype(np.int64),
                columns.record_end[with_headers].astype(np.int64),
            )
            blocks[block_of_row[with_headers[bad]], IS_BAD] = 1
        selected = (columns.offsets >= first) & (columns.offsets < limit) & (blocks[block_of_row, IS_BAD] == 0)
        blocks[:, ROWS] = np.bincount(block_of_row[selected], minlength=len(blocks))
        if selected.all():
            return RecordTable(data, len(selected), columns.offsets, columns.timestamps, *columns.numbers)
        numbers = columns.numbers[:, selected]
        return RecordTable(data, numbers.shape[1], columns.offsets[selected], columns.timestamps[selected], *numbers)

    def binary(self, data: _Bytes, at: NDArray[np.int32], size: NDArray[np.int32], rows: int) -> pa.BinaryArray:
        """Return the values at these positions as an Arrow array that does not refer to `data`."""
        # The values are in ascending order, so `data` can be viewed as an Arrow array of alternating values and gaps.
        # Taking the values from this array copies them all in one step.
        starts, sizes = at[:rows], size[:rows]
        if not rows:
            return pa.array([], pa.binary())
        bounds = np.empty(2 * rows, np.int32)
        bounds[0::2] = starts
        bounds[1::2] = starts + np.maximum(sizes, 0)
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        nulls = sizes < 0
        values = pa.array(np.arange(0, 2 * rows, 2, dtype=np.int64), mask=nulls if nulls.any() else None)
        return both.take(values)

    def headers(self, table: RecordTable) -> tuple[pa.Buffer, pa.Buffer, pa.BinaryArray, pa.BinaryArray]:
        """Return the validity, the list offsets, all keys and all values of the headers column."""
        count = table.header_count[: table.rows]
        lines = np.flatnonzero(count > 0)
        end = np.full(len(lines), len(table.data))
        fields, _ = find_headers(
            table.data, table.headers_at[lines].astype(np.int64), count[lines].astype(np.int64), end
        )
        validity = pa.array(count > 0).buffers()[1]
        lists = np.zeros(table.rows + 1, np.int32)
        np.cumsum(count, out=lists[1:])
        keys = self.binary(table.data, fields[0], fields[1], fields.shape[1])
        values = self.binary(table.data, fields[2], fields[3], fields.shape[1])
        return validity, pa.py_buffer(lists), keys, values


ENGINE: Final = RecordEngine()
