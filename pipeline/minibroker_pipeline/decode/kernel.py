"""The loops over bytes, compiled by numba. Importing this module imports numba, which takes about half a second.

Machine code is cached in a folder, so that only the first process compiles. The folder is `NUMBA_CACHE_DIR` if it is
set, or else the folder of this file, or else the user's cache folder. Signatures are declared instead of inferred, so
one version of each loop serves both read-only and writable bytes. The import raises `ImportError` if numba is missing
or has no writable folder.

All integers are int64 here, because numba converts a mixture of signed and unsigned integers to floating point.
"""

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

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
    WRAPPER_V1,
)

BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
_OUT: Final = types.Array(types.uint8, 1, "C")
_I32: Final = types.Array(types.int32, 1, "C")
_I64: Final = types.Array(types.int64, 1, "C")
_TABLE: Final = types.Array(types.int64, 2, "C")

_LONG: Final = types.int64
_PAIR: Final = types.UniTuple(types.int64, 2)
_BAD: Final = -1
_MIN_RECORD: Final = 7
_NULL: Final = -1


def compiled(*signatures: Any) -> Callable[[Any], Any]:
    """Return a decorator that applies `njit` and caches the machine code in a folder.

    Raises:
        ImportError: numba has no folder for the machine code.
    """

    def compile_it(function: Any) -> Any:
        try:
            return numba.njit(list(signatures), cache=True, nogil=True)(function)
        except (RuntimeError, OSError) as error:  # numba finds no cache folder, or cannot write to the folder.
            raise ImportError(f"numba has no folder to keep machine code in: {error}") from None

    return compile_it


def _memcpy(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    del typing_context, target_at, source_at, size

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(
            builder, builder.gep(to.data, [arguments[1]]), builder.gep(origin.data, [arguments[3]]), arguments[4], 1
        )
        return context.get_dummy_value()

    return types.void(target, _LONG, source, _LONG, _LONG), generate


copy: Final[Any] = intrinsic(_memcpy)
"""`copy(target, target_at, source, source_at, size)` copies between arrays of bytes with memcpy.

numba's own slice assignment takes several times as long for 100 bytes.
"""


@compiled(_LONG(BYTES, _LONG))
def _read_int32(data, at):
    value = (
        np.int64(data[at]) << 24 | np.int64(data[at + 1]) << 16 | np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
    )
    return value - ((value & 0x80000000) << 1)


@compiled(_LONG(BYTES, _LONG))
def _read_int64(data, at):
    return _read_int32(data, at) << 32 | (_read_int32(data, at + 4) & 0xFFFFFFFF)


@compiled(_PAIR(BYTES, _LONG, _LONG, _LONG))
def _read_raw_varint(data, at, end, size):
    """Read a varint of at most `size` bytes.

    Returns:
        The raw value and the position after it. The position is `_BAD` if there is no valid value.
    """
    raw = np.int64(0)
    shift = np.int64(0)
    for position in range(at, min(end, at + size)):
        byte = np.int64(data[position])
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position + 1
        shift += 7
    return raw, np.int64(_BAD)


@compiled(_PAIR(BYTES, _LONG, _LONG))
def _read_varint(data, at, end):
    """Return an int32 and the position after it, or `_BAD` as the position."""
    if at < end and data[at] < 0x80:
        raw = np.int64(data[at])
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw, after = _read_raw_varint(data, at, end, 5)
    raw &= 0xFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), after


@compiled(_PAIR(BYTES, _LONG, _LONG))
def _read_varlong(data, at, end):
    """Return an int64 and the position after it, or `_BAD` as the position."""
    if at < end and data[at] < 0x80:
        raw = np.int64(data[at])
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw, after = _read_raw_varint(data, at, end, 10)
    return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), after


@compiled(_PAIR(BYTES, _LONG, _LONG, _LONG, _I64))
def chase(data, position, until, count, positions):
    """Store the positions of whole entries in `positions`. See `headers.find_entries`.

    Returns:
        The number of elements of `positions` that are now set, and the position where the next entry would begin.
    """
    size = np.int64(data.size)
    capacity = np.int64(positions.size)
    while position < until and count < capacity and size - position > 16:
        length = _read_int32(data, position + 8)
        magic = np.int64(data[position + 16])
        if length > min(size - position - 12, 2147483635) or magic > 2:
            break
        if length < (49 if magic == 2 else 22 if magic == 1 else 14):
            break
        positions[count] = position
        count += 1
        position += 12 + length
    return np.int64(count), np.int64(position)


@compiled(_LONG(BYTES, _LONG, _LONG, _TABLE, _LONG))
def compute_crc(data, at, end, tables, first):
    """Return a reflected CRC, computed eight bytes at a time with the eight tables that begin at row `first`."""
    crc = np.int64(0xFFFFFFFF)
    while end - at >= 8:
        crc ^= (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        crc = (
            tables[first + 7, crc & 0xFF]
            ^ tables[first + 6, crc >> 8 & 0xFF]
            ^ tables[first + 5, crc >> 16 & 0xFF]
            ^ tables[first + 4, crc >> 24]
            ^ tables[first + 3, np.int64(data[at + 4])]
            ^ tables[first + 2, np.int64(data[at + 5])]
            ^ tables[first + 1, np.int64(data[at + 6])]
            ^ tables[first, np.int64(data[at + 7])]
        )
        at += 8
    while at < end:
        crc = crc >> 8 ^ tables[first, (crc ^ np.int64(data[at])) & 0xFF]
        at += 1
    return crc ^ 0xFFFFFFFF


@compiled(_LONG(BYTES, _TABLE, _TABLE, _OUT))
def check_crcs(data, fields, tables, is_wrong):
    """Mark the entries with a wrong checksum, and return their number.

    The rows of `fields` are position, size, stored checksum and magic.
    """
    count = np.int64(0)
    for entry in range(fields.shape[1]):
        start = fields[0, entry]
        end = start + fields[1, entry]
        is_v2 = fields[3, entry] == 2
        computed = (
            compute_crc(data, start + 21, end, tables, 8) if is_v2 else compute_crc(data, start + 16, end, tables, 0)
        )
        if computed != fields[2, entry]:
            is_wrong[entry] = 1
            count += 1
    return count


@compiled(_LONG(BYTES, _LONG, _LONG))
def _skip_headers(data, at, end):
    """Return the position after the headers whose count is at `at`, or `_BAD`."""
    count, at = _read_varint(data, at, end)
    if at < 0 or count < 0 or count > end - at:
        return np.int64(_BAD)
    for _ in range(count):
        length, at = _read_varint(data, at, end)
        if at < 0 or length < 0:
            return np.int64(_BAD)
        length, at = _read_varint(data, at + length, end)
        if at < 0:
            return np.int64(_BAD)
        if length > 0:
            at += length
    return at


_LONGS: Final = types.UniTuple(_I64, 2)
"""Offsets and timestamps."""
_FIELD_ARRAYS: Final = types.UniTuple(_I32, 6)
"""Positions and sizes of keys and of values, and positions and counts of headers."""


@compiled(_LONG(BYTES, _TABLE, _LONG, _LONG, _LONG, _LONG, _LONGS, _FIELD_ARRAYS))
def _walk_v2(data, blocks, block, first, limit, row, longs, fields):
    """Store the records of a v2 batch in the rows from `row` on. Return the row after the last record, or `_BAD`."""
    offsets, timestamps = longs
    key_at, key_size, value_at, value_size, headers_at, header_count = fields
    at = blocks[block, START]
    end = blocks[block, END]
    count = blocks[block, COUNT]
    base_offset = blocks[block, BASE_OFFSET]
    base_timestamp = blocks[block, BASE_TIMESTAMP]
    is_fixed = blocks[block, FIXED_TIMESTAMP]
    max_timestamp = blocks[block, MAX_TIMESTAMP]
    if count < 0 or count * _MIN_RECORD > end - at:
        return np.int64(_BAD)
    for _ in range(count):
        length, at = _read_varint(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return np.int64(_BAD)
        record_end = at + length
        delta, at = _read_varlong(data, at + 1, end)
        if at < 0:
            return np.int64(_BAD)
        timestamps[row] = max_timestamp if is_fixed else base_timestamp + delta
        delta, at = _read_varint(data, at, end)
        if at < 0:
            return np.int64(_BAD)
        offset = base_offset + delta
        offsets[row] = offset
        length, at = _read_varint(data, at, end)
        if at < 0:
            return np.int64(_BAD)
        key_at[row] = at
        key_size[row] = max(length, np.int64(_NULL))
        if length > 0:
            at += length
        length, at = _read_varint(data, at, end)
        if at < 0:
            return np.int64(_BAD)
        value_at[row] = at
        value_size[row] = max(length, np.int64(_NULL))
        if length > 0:
            at += length
        if at < end and data[at] == 0:
            at += 1
            header_count[row] = 0
        else:
            number, headers_start = _read_varint(data, at, end)
            at = _skip_headers(data, at, end)
            headers_at[row] = headers_start
            header_count[row] = number
        if at != record_end:
            return np.int64(_BAD)
        row += 1 if first <= offset < limit else 0
    if count and at != end:
        return np.int64(_BAD)
    return np.int64(row)


@compiled(_LONG(BYTES, _LONG, _LONG, _LONG, _FIELD_ARRAYS))
def _store_key_and_value(data, at, end, row, fields):
    """Store the key and the value of a v0 or v1 message whose key length is at `at`. Return 0, or `_BAD`."""
    key_at, key_size, value_at, value_size, _, header_count = fields
    header_count[row] = 0
    length = _read_int32(data, at)
    at += 4
    if length > end - at - 4:
        return np.int64(_BAD)
    key_at[row] = at
    key_size[row] = max(length, np.int64(_NULL))
    if length > 0:
        at += length
    length = _read_int32(data, at)
    at += 4
    if length > end - at:
        return np.int64(_BAD)
    value_at[row] = at
    value_size[row] = max(length, np.int64(_NULL))
    return np.int64(0)


@compiled(_LONG(BYTES, _TABLE, _LONG, _LONG, _LONG, _LONG, _LONGS, _FIELD_ARRAYS))
def _walk_wrapper(data, blocks, block, first, limit, row, longs, fields):
    """Store the records of a wrapper, and set the base offset of its block: the decompressed message set.

    Returns:
        The row after the last record, or `_BAD`.
    """
    offsets, timestamps = longs
    at = blocks[block, START]
    end = blocks[block, END]
    magic = np.int64(1) if blocks[block, KIND] == WRAPPER_V1 else np.int64(0)
    header_size = 30 if magic else 22
    count = np.int64(0)
    last_inner = np.int64(0)
    position = at
    while position <= end - 12:
        size = _read_int32(data, position + 8)
        if size < 14:
            return np.int64(_BAD)
        if size > end - 12 - position:
            break
        if data[position + 16] != magic or size < (22 if magic else 14):
            return np.int64(_BAD)
        last_inner = _read_int64(data, position)
        position += 12 + size
        count += 1
    if count == 0 or row + count > offsets.size:
        return np.int64(_BAD)
    wrapper_offset = blocks[block, BASE_OFFSET]
    base = np.int64(0)
    if magic and wrapper_offset:
        if wrapper_offset < last_inner:
            return np.int64(_BAD)
        base = wrapper_offset - last_inner
    is_fixed = blocks[block, FIXED_TIMESTAMP]
    for index in range(count):
        message_end = at + 12 + _read_int32(data, at + 8)
        if data[at + 17] & 7:
            return np.int64(_BAD)
        inner_offset = _read_int64(data, at)
        offset = inner_offset + base
        if base and inner_offset == last_inner:
            offset = wrapper_offset
        elif (base < 0) or (inner_offset >= 0 and offset < 0):
            return np.int64(_BAD)
        if index == 0:
            blocks[block, BASE_OFFSET] = offset
        offsets[row] = offset
        timestamps[row] = blocks[block, MAX_TIMESTAMP] if is_fixed else _read_int64(data, at + 18)
        if _store_key_and_value(data, at + header_size - 4, message_end, row, fields) < 0:
            return np.int64(_BAD)
        at = message_end
        row += 1 if first <= offset < limit else 0
    return np.int64(row)


@compiled(_LONG(BYTES, _TABLE, _LONG, _LONG, _LONGS, _FIELD_ARRAYS))
def walk(data, blocks, first, limit, longs, fields):
    """Store every block's records with offsets in [first, limit), and return the number of records.

    Set ROWS for each block, and IS_BAD for each block that does not contain valid records. A bad block has no rows.
    """
    row = np.int64(0)
    for block in range(blocks.shape[0]):
        kind = blocks[block, KIND]
        if kind == V2:
            after = _walk_v2(data, blocks, block, first, limit, row, longs, fields)
        elif kind == PLAIN_V0 or kind == PLAIN_V1:
            offset = blocks[block, BASE_OFFSET]
            longs[0][row] = offset
            longs[1][row] = blocks[block, MAX_TIMESTAMP]
            key_length_at = blocks[block, START] + (18 if kind == PLAIN_V0 else 26)
            after = _store_key_and_value(data, key_length_at, blocks[block, END], row, fields)
            if after == 0:
                after = row + (1 if first <= offset < limit else 0)
        else:
            after = _walk_wrapper(data, blocks, block, first, limit, row, longs, fields)
        if after < 0:
            blocks[block, IS_BAD] = 1
            blocks[block, ROWS] = 0
        else:
            blocks[block, ROWS] = after - row
            row = after
    return row


@compiled(_PAIR(_I32, _LONG))
def measure(sizes, rows):
    """Return the total size in bytes of the first `rows` values, and the number of nulls among them."""
    total = np.int64(0)
    nulls = np.int64(0)
    for row in range(rows):
        size = np.int64(sizes[row])
        total += max(size, np.int64(0))
        nulls += np.int64(size < 0)
    return total, nulls


@compiled(types.void(BYTES, _I32, _I32, _LONG, _OUT, _I32, _OUT))
def gather(data, at, sizes, rows, values, offsets, validity):
    """Concatenate values and store their offsets.

    `validity` must be empty if no value is null, and otherwise all zero.
    """
    position = np.int64(0)
    has_nulls = validity.size > 0
    offsets[0] = 0
    for row in range(rows):
        size = np.int64(sizes[row])
        if size > 0:
            copy(values, position, data, np.int64(at[row]), size)
            position += size
        offsets[row + 1] = position
        if has_nulls and size >= 0:
            validity[row >> 3] |= np.uint8(1 << (row & 7))


@compiled(types.void(BYTES, _I32, _I32, _LONG, _I32, _OUT, _I32, _I32, _I32, _I32))
def find_headers(data, headers_at, header_count, rows, lists, validity, key_at, key_size, value_at, value_size):
    """Store the positions and sizes of all header keys and values, and the offsets and validity of each row's list."""
    number = np.int64(0)
    end = np.int64(data.size)
    lists[0] = 0
    for row in range(rows):
        count = np.int64(header_count[row])
        if count > 0:
            validity[row >> 3] |= np.uint8(1 << (row & 7))
            at = np.int64(headers_at[row])
            for _ in range(count):
                length, at = _read_varint(data, at, end)
                key_at[number] = at
                key_size[number] = length
                length, at = _read_varint(data, at + length, end)
                value_at[number] = at
                value_size[number] = max(length, np.int64(_NULL))
                if length > 0:
                    at += length
                number += 1
        lists[row + 1] = number
