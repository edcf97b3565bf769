"""The loops of a compaction (`jobs.compact`), compiled by numba. See `kernel`, whose rules hold here too."""

from typing import Final

import numpy as np
from numba import types

from minibroker_pipeline.decode.kernel import BYTES, compiled, copy
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD

_I32: Final = types.Array(types.int32, 1, "C")
_I64: Final = types.Array(types.int64, 1, "C")
_TABLE: Final = types.Array(types.int64, 2, "C")
_OUT: Final = types.Array(types.uint8, 1, "C")
_LONG: Final = types.int64
_PAIR: Final = types.UniTuple(types.int64, 2)
_STATE: Final = types.UniTuple(types.int64, 4)

_NOWHERE: Final = -1

# Columns of `rebuild`'s plan: what is known of a batch, then what comes out of it.
START: Final = 0
COUNT: Final = 1
FIRST_ROW: Final = 2
BASE_TIMESTAMP: Final = 3
FIXED_TIMESTAMP: Final = 4
"""1 where all records have MAX_TIMESTAMP."""
MAX_TIMESTAMP: Final = 5
HAS_HORIZON: Final = 6
HORIZON: Final = 7
OUT_START: Final = 8
"""Of the records in the output; room for the batch's header is before them."""
OUT_END: Final = 9
NEW_BASE_TIMESTAMP: Final = 10
NEW_MAX_TIMESTAMP: Final = 11
NEW_COUNT: Final = 12
WIDTH: Final = 13


@compiled(_LONG(_LONG, _LONG))
def _rotated(value, by):
    return value << by | ((value >> (64 - by)) & ((np.int64(1) << by) - 1))


@compiled(_STATE(_LONG, _LONG, _LONG, _LONG))
def _round(a, b, c, d):
    a += b
    b = _rotated(b, np.int64(13)) ^ a
    a = _rotated(a, np.int64(32))
    c += d
    d = _rotated(d, np.int64(16)) ^ c
    a += d
    d = _rotated(d, np.int64(21)) ^ a
    c += b
    b = _rotated(b, np.int64(17)) ^ c
    c = _rotated(c, np.int64(32))
    return a, b, c, d


@compiled(types.void(BYTES, _I32, _I32, _LONG, _LONG, _LONG, _I64, _I64))
def hash_keys(data, at, size, rows, secret, other_secret, high, low):
    """SipHash-1-3 of 128 bits of each key; nothing for a null one."""
    for row in range(rows):
        length = np.int64(size[row])
        if length < 0:
            continue
        position = np.int64(at[row])
        a = secret ^ 0x736F6D6570736575
        b = other_secret ^ 0x646F72616E646F6D ^ 0xEE
        c = secret ^ 0x6C7967656E657261
        d = other_secret ^ 0x7465646279746573
        for _ in range(length >> 3):
            word = np.int64(0)
            for index in range(8):
                word |= np.int64(data[position + index]) << (8 * index)
            d ^= word
            a, b, c, d = _round(a, b, c, d)
            a ^= word
            position += 8
        word = length << 56
        for index in range(length & 7):
            word |= np.int64(data[position + index]) << (8 * index)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        c ^= 0xEE
        for _ in range(3):
            a, b, c, d = _round(a, b, c, d)
        high[row] = a ^ b ^ c ^ d
        b ^= 0xDD
        for _ in range(3):
            a, b, c, d = _round(a, b, c, d)
        low[row] = a ^ b ^ c ^ d


@compiled(types.void(_I64, _I64, _I64, _LONG, _I64, _I64, _I64, _OUT))
def mark_newest(high, low, offsets, first_dirty, slot_high, slot_low, slot_offset, is_newest):
    """Mark the rows that no row of the same key from `first_dirty` on has a larger offset than.

    The slots are a power of two, more than there are rows; their offsets are -1.
    """
    mask = np.int64(slot_high.size) - 1
    for row in range(offsets.size):
        offset = offsets[row]
        if offset < first_dirty:
            continue
        slot = high[row] & mask
        while slot_offset[slot] != _NOWHERE and (slot_high[slot] != high[row] or slot_low[slot] != low[row]):
            slot = (slot + 1) & mask
        slot_high[slot] = high[row]
        slot_low[slot] = low[row]
        slot_offset[slot] = max(slot_offset[slot], offset)
    for row in range(offsets.size):
        slot = high[row] & mask
        while slot_offset[slot] != _NOWHERE and (slot_high[slot] != high[row] or slot_low[slot] != low[row]):
            slot = (slot + 1) & mask
        is_newest[row] = np.uint8(slot_offset[slot] <= offsets[row])


@compiled(_PAIR(BYTES, _LONG))
def _varint(data, at):
    """The value there, which a walk has found to be one, and the position after it."""
    raw = np.int64(0)
    shift = np.int64(0)
    while data[at] >= 0x80:
        raw |= (np.int64(data[at]) & 0x7F) << shift
        shift += 7
        at += 1
    raw |= np.int64(data[at]) << shift
    return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), at + 1


@compiled(_LONG(_LONG))
def _size_of(value):
    raw = (value << 1) ^ (value >> 63)
    size = np.int64(1)
    while raw & ~0x7F:
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@compiled(_LONG(_OUT, _LONG, _LONG))
def _put(out, at, value):
    raw = (value << 1) ^ (value >> 63)
    while raw & ~0x7F:
        out[at] = np.uint8(raw & 0x7F | 0x80)
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@compiled(_LONG(BYTES, _OUT, _TABLE, _OUT))
def rebuild(data, keep, plan, out):
    """Write the records of each batch that `keep` (one byte for each row of the walk) wants; returns the end.

    Timestamps are counted from the delete horizon, without one from the first record that stays.
    """
    at = np.int64(0)
    for batch in range(plan.shape[0]):
        at += RECORD_BATCH_OVERHEAD
        plan[batch, OUT_START] = at
        position = plan[batch, START]
        row = plan[batch, FIRST_ROW]
        base = plan[batch, HORIZON]
        has_base = plan[batch, HAS_HORIZON] != 0
        latest = np.int64(-1)
        count = np.int64(0)
        for _ in range(plan[batch, COUNT]):
            start = position
            length, body = _varint(data, position)
            position = body + length
            if keep[row]:
                delta, rest = _varint(data, body + 1)
                timestamp = plan[batch, MAX_TIMESTAMP]
                if not plan[batch, FIXED_TIMESTAMP]:
                    timestamp = plan[batch, BASE_TIMESTAMP] + delta
                if not has_base:
                    base = timestamp
                    has_base = True
                latest = max(latest, timestamp)
                count += 1
                new_delta = timestamp - base
                if new_delta == delta:
                    copy(out, at, data, start, position - start)
                    at += position - start
                else:
                    at = _put(out, at, position - rest + 1 + _size_of(new_delta))
                    out[at] = data[body]
                    at = _put(out, at + 1, new_delta)
                    copy(out, at, data, rest, position - rest)
                    at += position - rest
            row += 1
        plan[batch, OUT_END] = at
        plan[batch, NEW_BASE_TIMESTAMP] = base
        plan[batch, NEW_MAX_TIMESTAMP] = latest
        plan[batch, NEW_COUNT] = count
    return at
