"""One v2 batch, record after record: for `lanes`, when there are too few batches to read side by side."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.varint import decode_varint, decode_varlong


class FoundRecords(NamedTuple):
    """Where the fields of some records are. `numbers` has the six lines of `table.RecordTable`'s int32 arrays."""

    offset_deltas: NDArray[np.int64]
    timestamp_deltas: NDArray[np.int64]
    numbers: NDArray[np.int32]
    record_ends: NDArray[np.int32]


def walk_alone(data: memoryview, at: int, count: int) -> FoundRecords | None:
    """The `count` records that fill `data` from `at` on, headers not looked into. None when the bytes are no such."""
    deltas: list[tuple[int, int]] = []
    numbers: list[tuple[int, ...]] = []
    try:
        for _ in range(count):
            length, at = decode_varint(data, at)
            end = at + length
            if length < 0 or end > len(data):
                return None
            timestamp_delta, at = decode_varlong(data, at + 1)
            offset_delta, at = decode_varint(data, at)
            key_size, at = decode_varint(data, at)
            key_at, at = at, at + max(key_size, 0)
            value_size, at = decode_varint(data, at)
            value_at, at = at, at + max(value_size, 0)
            header_count, at = decode_varint(data, at)
            if header_count < 0 or 2 * header_count > end - at or (not header_count and at != end):
                return None
            deltas.append((offset_delta, timestamp_delta))
            numbers.append((key_at, max(key_size, -1), value_at, max(value_size, -1), at, header_count, end))
            at = end
    except DecodeError:
        return None
    if at != len(data):
        return None
    all_deltas = np.array(deltas, np.int64).reshape(-1, 2)
    all_numbers = np.array(numbers, np.int32).reshape(-1, 7).T
    return FoundRecords(all_deltas[:, 0], all_deltas[:, 1], all_numbers[:6], all_numbers[6])
