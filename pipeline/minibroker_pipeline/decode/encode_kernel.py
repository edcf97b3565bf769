"""The loops that write batches and messages, compiled by numba. See `kernel`, whose rules hold here too."""

from typing import Final

import numpy as np
from numba import types

from minibroker_pipeline.decode.encoder_arrays import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    BATCH_BYTES,
    END_ROW,
    FIRST_ROW,
    GROUP,
    GROUP_END,
    LATEST,
    LEADER_EPOCH,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
)
from minibroker_pipeline.decode.kernel import BYTES, compiled, copy, crc_of
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD, TIMESTAMP_TYPE_FLAG

_READ_I32: Final = types.Array(types.int32, 1, "C", readonly=True)
_READ_I64: Final = types.Array(types.int64, 1, "C", readonly=True)
_OUT: Final = types.Array(types.uint8, 1, "C")
_OUT_I32: Final = types.Array(types.int32, 1, "C")
_TABLE: Final = types.Array(types.int64, 2, "C")
_LONG: Final = types.int64

_OVERHEAD_V0: Final = 26
_OVERHEAD_V1: Final = 34
_CODEC_MASK: Final = 0x07
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


@compiled(_LONG(_READ_I32, _READ_I32, _LONG, _LONG))
def _message_size(key_size, value_size, magic, row):
    """Bytes of one message of v0 or v1."""
    overhead = _OVERHEAD_V1 if magic == 1 else _OVERHEAD_V0
    return overhead + max(np.int64(key_size[row]), np.int64(0)) + max(np.int64(value_size[row]), np.int64(0))


@compiled(_LONG(_READ_I64, _READ_I64, _READ_I32, _READ_I32, _READ_I32, _LONG, _TABLE, _TABLE))
def plan(offsets, timestamps, key_size, value_size, headers_size, magic, groups, batches):
    """Divide the groups' rows into batches, or into what shares a wrapper. Returns their number."""
    count = np.int64(0)
    row = np.int64(0)
    position = np.int64(0)
    for group in range(groups.shape[0]):
        end = groups[group, GROUP_END]
        limit = groups[group, BATCH_BYTES]
        while row < end:
            first = row
            size = np.int64(0)
            latest = timestamps[first]
            while row < end:
                if magic == 2:
                    body = _body_size(offsets, timestamps, key_size, value_size, headers_size, first, row)
                    body += _size_of(body)
                else:
                    body = _message_size(key_size, value_size, magic, row)
                if row > first and (size + body > limit or offsets[row] - offsets[first] > _INT32_MAX):
                    break
                size += body
                latest = max(latest, timestamps[row])
                row += 1
            if magic == 2:
                size += RECORD_BATCH_OVERHEAD
            batches[count, FIRST_ROW] = first
            batches[count, END_ROW] = row
            batches[count, POSITION] = position
            batches[count, SIZE] = size
            batches[count, LATEST] = latest
            batches[count, GROUP] = group
            position += size
            count += 1
    return count


_BINARY: Final = (BYTES, _READ_I32, _READ_I32)
"""Bytes, and where each value begins and how large it is."""


@compiled(_LONG(_READ_I64, _READ_I64, _TABLE, _TABLE, _LONG, _LONG, _OUT))
def _put_header(offsets, timestamps, groups, batches, batch, sequence, out):
    """Write the header of a v2 batch, its checksum left 0; the position of its first record."""
    first = batches[batch, FIRST_ROW]
    end = batches[batch, END_ROW]
    group = batches[batch, GROUP]
    at = batches[batch, POSITION]
    at = _put_fixed(out, at, offsets[first], 8)
    at = _put_fixed(out, at, batches[batch, SIZE] - 12, 4)
    at = _put_fixed(out, at, groups[group, LEADER_EPOCH], 4)
    at = _put_fixed(out, at, 2, 1)
    at = _put_fixed(out, at, 0, 4)
    at = _put_fixed(out, at, groups[group, ATTRIBUTES], 2)
    at = _put_fixed(out, at, offsets[end - 1] - offsets[first], 4)
    at = _put_fixed(out, at, timestamps[first], 8)
    at = _put_fixed(out, at, batches[batch, LATEST], 8)
    at = _put_fixed(out, at, groups[group, PRODUCER_ID], 8)
    at = _put_fixed(out, at, groups[group, PRODUCER_EPOCH], 2)
    at = _put_fixed(out, at, sequence, 4)
    return _put_fixed(out, at, end - first, 4)


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
        _TABLE,
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
    groups,
    batches,
    out,
):
    """Write all v2 batches, uncompressed, their checksums left 0."""
    first_of_group = np.int64(0)
    last_group = np.int64(0)
    for batch in range(batches.shape[0]):
        first = batches[batch, FIRST_ROW]
        end = batches[batch, END_ROW]
        group = batches[batch, GROUP]
        if group != last_group:
            first_of_group = first
            last_group = group
        sequence = groups[group, BASE_SEQUENCE]
        if sequence >= 0:
            sequence = (sequence + first - first_of_group) & _INT32_MAX
        at = _put_header(offsets, timestamps, groups, batches, batch, sequence, out)
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


@compiled(_LONG(_OUT, _LONG, BYTES, _LONG, _LONG))
def _put_sized(out, at, data, start, size):
    """Write a length of four bytes, negative for null, and the bytes; the position after them."""
    at = _put_fixed(out, at, size, 4)
    if size > 0:
        copy(out, at, data, start, size)
        at += size
    return at


@compiled(types.void(_READ_I64, _READ_I64, *_BINARY, *_BINARY, _LONG, _TABLE, _TABLE, _TABLE, _OUT))
def write_messages(
    offsets,
    timestamps,
    keys,
    key_at,
    key_size,
    values,
    value_at,
    value_size,
    magic,
    groups,
    batches,
    tables,
    out,
):
    """Write all messages of v0 or v1. Those for wrappers of v1 count their offsets from the wrapper's first one."""
    for batch in range(batches.shape[0]):
        first = batches[batch, FIRST_ROW]
        attributes = groups[batches[batch, GROUP], ATTRIBUTES]
        base = offsets[first] if magic == 1 and attributes & _CODEC_MASK else np.int64(0)
        at = batches[batch, POSITION]
        for row in range(first, batches[batch, END_ROW]):
            size = _message_size(key_size, value_size, magic, row)
            start = at
            at = _put_fixed(out, at, offsets[row] - base, 8)
            at = _put_fixed(out, at, size - 12, 4)
            at = _put_fixed(out, at + 4, magic, 1)
            if magic == 1:
                at = _put_fixed(out, at, attributes & TIMESTAMP_TYPE_FLAG, 1)
                at = _put_fixed(out, at, timestamps[row], 8)
            else:
                at = _put_fixed(out, at, 0, 1)
            at = _put_sized(out, at, keys, np.int64(key_at[row]), np.int64(key_size[row]))
            at = _put_sized(out, at, values, np.int64(value_at[row]), np.int64(value_size[row]))
            _put_fixed(out, start + 12, crc_of(out, start + 16, at, tables, 0), 4)
