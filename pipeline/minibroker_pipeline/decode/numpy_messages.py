"""Messages of formats v0 and v1 for `numpy_engine`: plain ones and those out of wrappers, all read at once."""

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.blocks import (
    BASE_OFFSET,
    END,
    FIXED_TIMESTAMP,
    IS_BAD,
    KIND,
    MAX_TIMESTAMP,
    PLAIN_V0,
    PLAIN_V1,
    START,
    WRAPPER_V0,
    WRAPPER_V1,
)
from minibroker_protocol.records.header import (
    CODEC_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
)

_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

_ATTRIBUTES_AT: Final = 17
_TIMESTAMP_AT: Final = 18
_KEY_AT: Final = 18
"""Of the key's length, in v0; a v1 message has eight bytes of timestamp before it."""
_TIMESTAMP_SIZE: Final = 8
_LENGTH_SIZE: Final = 4


class Messages(NamedTuple):
    """Single messages: where they begin and end, their block, their place in it, and how many each block has."""

    at: _Ints
    end: _Ints
    block: _Ints
    place: _Ints
    counts: _Ints


class _Columns(Protocol):
    offsets: _Ints
    timestamps: _Ints
    key_at: NDArray[np.int32]
    key_size: NDArray[np.int32]
    value_at: NDArray[np.int32]
    value_size: NDArray[np.int32]


def _integers(data: _Bytes, at: _Ints, size: int) -> _Ints:
    """Big-endian signed integers of `size` bytes."""
    found: _Ints = data[at[:, None] + np.arange(size)].view(f">i{size}")[:, 0].astype(np.int64)
    return found


def _inner_bounds(view: memoryview, start: int, end: int, magic: int) -> tuple[list[int], list[int]]:
    """Where the messages of a wrapper's set begin and end. Empty when the set is no good, or has none.

    A last one that is cut short does not count.
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
    """All messages of the blocks that are not v2. Sets IS_BAD of wrappers without any."""
    kinds = blocks[:, KIND]
    counts = np.where((kinds == PLAIN_V0) | (kinds == PLAIN_V1), 1, 0)
    plain = np.flatnonzero(counts)
    at, end, block = [blocks[plain, START]], [blocks[plain, END]], [plain]
    place = [np.zeros(len(plain), np.int64)]
    view = data.data
    for wrapper in np.flatnonzero((kinds == WRAPPER_V0) | (kinds == WRAPPER_V1)).tolist():
        magic = int(kinds[wrapper] == WRAPPER_V1)
        starts, ends = _inner_bounds(view, int(blocks[wrapper, START]), int(blocks[wrapper, END]), magic)
        blocks[wrapper, IS_BAD] |= not starts
        counts[wrapper] = len(starts)
        at.append(np.array(starts, np.int64))
        end.append(np.array(ends, np.int64))
        block.append(np.full(len(starts), wrapper))
        place.append(np.arange(len(starts)))
    return Messages(np.concatenate(at), np.concatenate(end), np.concatenate(block), np.concatenate(place), counts)


def read_messages(data: _Bytes, blocks: _Ints, messages: Messages, first_rows: _Ints, columns: _Columns) -> None:
    """Fill in the messages' rows. Sets IS_BAD, and the first offset of each wrapper as its BASE_OFFSET."""
    at, end, block = messages.at, messages.end, messages.block
    rows = first_rows[block] + messages.place
    kinds = blocks[block, KIND]
    bad = np.zeros(len(at), np.bool_)

    columns.timestamps[rows] = blocks[block, MAX_TIMESTAMP]
    inner = np.flatnonzero((kinds == WRAPPER_V0) | (kinds == WRAPPER_V1))
    has_time = np.flatnonzero((kinds == WRAPPER_V1) & (blocks[block, FIXED_TIMESTAMP] == 0))
    columns.timestamps[rows[has_time]] = _integers(data, at[has_time] + _TIMESTAMP_AT, _TIMESTAMP_SIZE)

    offsets = blocks[block, BASE_OFFSET]
    if len(inner):
        offsets[inner], bad[inner] = _absolute_offsets(data, blocks, messages, inner)
        bad[inner] |= data[at[inner] + _ATTRIBUTES_AT] & CODEC_MASK != 0
        firsts = inner[messages.place[inner] == 0]
        blocks[block[firsts], BASE_OFFSET] = offsets[firsts]
    columns.offsets[rows] = offsets

    is_v1 = (kinds == PLAIN_V1) | (kinds == WRAPPER_V1)
    key_length_at = at + _KEY_AT + np.where(is_v1, _TIMESTAMP_SIZE, 0)
    length = _integers(data, key_length_at, _LENGTH_SIZE)
    key_at = key_length_at + _LENGTH_SIZE
    too_long = length > end - key_at - _LENGTH_SIZE
    length[too_long] = 0
    columns.key_at[rows], columns.key_size[rows] = key_at, np.maximum(length, -1)
    value_length_at = key_at + np.maximum(length, 0)
    length = _integers(data, value_length_at, _LENGTH_SIZE)
    value_at = value_length_at + _LENGTH_SIZE
    too_long |= length > end - value_at
    columns.value_at[rows], columns.value_size[rows] = value_at, np.maximum(length, -1)
    blocks[block[bad | too_long], IS_BAD] = 1


def _absolute_offsets(data: _Bytes, blocks: _Ints, messages: Messages, inner: _Ints) -> tuple[_Ints, NDArray[np.bool_]]:
    """The offsets of these messages out of wrappers, and which cannot be (see `minibroker_protocol.records.legacy`)."""
    block = messages.block[inner]
    relative = _integers(data, messages.at[inner], _TIMESTAMP_SIZE)
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
