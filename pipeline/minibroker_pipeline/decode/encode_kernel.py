"""The loops that write v2 batches, compiled by numba. See `kernel`, whose rules hold here too."""

from typing import Final

import numpy as np
from numba import types

from minibroker_pipeline.decode.kernel import BYTES, compiled, copy

_READ_I32: Final = types.Array(types.int32, 1, "C", readonly=True)
_READ_I64: Final = types.Array(types.int64, 1, "C", readonly=True)
_OUT: Final = types.Array(types.uint8, 1, "C")
_OUT_I32: Final = types.Array(types.int32, 1, "C")
_TABLE: Final = types.Array(types.int64, 2, "C")
_LONG: Final = types.int64

FIRST_ROW: Final = 0
END_ROW: Final = 1
POSITION: Final = 2
"""Of the batch in the output."""
SIZE: Final = 3
"""Of the whole batch."""
MAX_TIMESTAMP: Final = 4
WIDTH: Final = 5

_OVERHEAD: Final = 61
_INT32_MAX: Final = 2**31 - 1


@compiled(_LONG(_LONG))
def _size_of(value):
    """Bytes of a zig-zag integer."""
    raw = (value << 1) ^ (value >> 63)
    size = np.int64(1)
    rest = (raw >> 7) & 0x01FFFFFFFFFFFFFF
    while rest:
        rest >>= 7
        size += 1
    return size


@compiled(_LONG(_OUT, _LONG, _LONG))
def _put(out, at, value):
    """Write a zig-zag integer; the position after it."""
    raw = (value << 1) ^ (value >> 63)
    rest = (raw >> 7) & 0x01FFFFFFFFFFFFFF
    while rest:
        out[at] = np.uint8(raw & 0x7F | 0x80)
        at += 1
        raw = rest
        rest = raw >> 7
    out[at] = np.uint8(raw)
    return at + 1


@compiled(_LONG(_OUT, _LONG, _LONG, _LONG))
def _put_fixed(out, at, value, size):
    """Write a big-endian integer; the position after it."""
    for index in range(size):
        out[at + index] = np.uint8(value >> (8 * (size - 1 - index)) & 0xFF)
    return at + size


@compiled(_LONG(_OUT, _LONG, BYTES, _LONG, _LONG))
def _put_bytes(out, at, data, start, size):
    """Write a length, negative for null, and the bytes; the position after them."""
    at = _put(out, at, size)
    if size > 0:
        copy(out, at, data, start, size)
        at += size
    return at


@compiled(_LONG(_READ_I32, _READ_I32, _READ_I32, _READ_I32, _OUT_I32))
def measure_headers(first, count, key_size, value_size, sizes):
    """The bytes of each row's headers with their count, into `sizes`. Returns the largest."""
    largest = np.int64(0)
    for row in range(first.size):
        size = _size_of(np.int64(count[row]))
        for header in range(first[row], first[row] + count[row]):
            size += _size_of(np.int64(key_size[header])) + np.int64(key_size[header])
            size += _size_of(np.int64(value_size[header])) + max(np.int64(value_size[header]), np.int64(0))
        sizes[row] = size
        largest = max(largest, size)
    return largest


@compiled(_LONG(_READ_I64, _READ_I64, _READ_I32, _READ_I32, _READ_I32, _LONG, _LONG))
def _body_size(offsets, timestamps, key_size, value_size, headers_size, first, row):
    """Bytes of one record behind its length, in a batch that begins with row `first`."""
    key, value = np.int64(key_size[row]), np.int64(value_size[row])
    return (
        1
        + _size_of(timestamps[row] - timestamps[first])
        + _size_of(offsets[row] - offsets[first])
        + _size_of(key)
        + max(key, np.int64(0))
        + _size_of(value)
        + max(value, np.int64(0))
        + np.int64(headers_size[row])
    )


@compiled(_LONG(_READ_I64, _READ_I64, _READ_I32, _READ_I32, _READ_I32, _LONG, _TABLE))
def plan(offsets, timestamps, key_size, value_size, headers_size, batch_bytes, batches):
    """Divide the rows into batches. Returns their number."""
    count = np.int64(0)
    rows = offsets.size
    row = np.int64(0)
    position = np.int64(0)
    while row < rows:
        first = row
        size = np.int64(0)
        latest = timestamps[first]
        while row < rows:
            body = _body_size(offsets, timestamps, key_size, value_size, headers_size, first, row)
            body += _size_of(body)
            if row > first and (size + body > batch_bytes or offsets[row] - offsets[first] > _INT32_MAX):
                break
            size += body
            latest = max(latest, timestamps[row])
            row += 1
        batches[count, FIRST_ROW] = first
        batches[count, END_ROW] = row
        batches[count, POSITION] = position
        batches[count, SIZE] = _OVERHEAD + size
        batches[count, MAX_TIMESTAMP] = latest
        position += _OVERHEAD + size
        count += 1
    return count


_BINARY: Final = (BYTES, _READ_I32, _READ_I32)
"""Bytes, and where each value begins and how large it is."""


@compiled(
    types.void(
        _READ_I64,
        _READ_I64,
        *_BINARY,
        *_BINARY,
        *(_READ_I32, _READ_I32, _READ_I32),
        *_BINARY,
        *_BINARY,
        _TABLE,
        _LONG,
        _OUT,
    )
)
def write(
    offsets,
    timestamps,
    keys,
    key_at,
    key_size,
    values,
    value_at,
    value_size,
    headers_size,
    headers_first,
    headers_count,
    header_keys,
    header_key_at,
    header_key_size,
    header_values,
    header_value_at,
    header_value_size,
    batches,
    leader_epoch,
    out,
):
    """Write all batches, uncompressed, their checksums left 0."""
    for batch in range(batches.shape[0]):
        first = batches[batch, FIRST_ROW]
        end = batches[batch, END_ROW]
        at = batches[batch, POSITION]
        at = _put_fixed(out, at, offsets[first], 8)
        at = _put_fixed(out, at, batches[batch, SIZE] - 12, 4)
        at = _put_fixed(out, at, leader_epoch, 4)
        at = _put_fixed(out, at, 2, 1)
        at = _put_fixed(out, at, 0, 4)
        at = _put_fixed(out, at, 0, 2)
        at = _put_fixed(out, at, offsets[end - 1] - offsets[first], 4)
        at = _put_fixed(out, at, timestamps[first], 8)
        at = _put_fixed(out, at, batches[batch, MAX_TIMESTAMP], 8)
        at = _put_fixed(out, at, -1, 8)
        at = _put_fixed(out, at, -1, 2)
        at = _put_fixed(out, at, -1, 4)
        at = _put_fixed(out, at, end - first, 4)
        for row in range(first, end):
            body = _body_size(offsets, timestamps, key_size, value_size, headers_size, first, row)
            at = _put(out, at, body)
            out[at] = 0
            at = _put(out, at + 1, timestamps[row] - timestamps[first])
            at = _put(out, at, offsets[row] - offsets[first])
            at = _put_bytes(out, at, keys, np.int64(key_at[row]), np.int64(key_size[row]))
            at = _put_bytes(out, at, values, np.int64(value_at[row]), np.int64(value_size[row]))
            at = _put(out, at, np.int64(headers_count[row]))
            for header in range(headers_first[row], headers_first[row] + headers_count[row]):
                at = _put_bytes(
                    out, at, header_keys, np.int64(header_key_at[header]), np.int64(header_key_size[header])
                )
                at = _put_bytes(
                    out, at, header_values, np.int64(header_value_at[header]), np.int64(header_value_size[header])
                )
