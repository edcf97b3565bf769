"""A segment's index files as arrays, whole: planning needs many entries at once, of files that may be far away.

See `minibroker_storage.offset_index`, `time_index` and `transaction_index` for what the entries mean.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.transaction_index import AbortedTxn, decode_all

_Ints = NDArray[np.int64]
OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
TXN_ENTRY_BYTES: Final = 34


class OffsetEntries(NamedTuple):
    """Of some batches of a segment, ascending: the last offset, and the byte that the batch begins at."""

    offsets: _Ints
    positions: _Ints


class TimeEntries(NamedTuple):
    """Times (ms) and offsets, ascending: all records with a larger timestamp lie behind the offset."""

    timestamps: _Ints
    offsets: _Ints


def offset_entries(data: bytes, base_offset: int) -> OffsetEntries:
    """The entries of an `.index` file, as far as they ascend: a file that is still written to ends with zeros."""
    entries = np.frombuffer(data, OFFSET_ENTRY, count=len(data) // OFFSET_ENTRY.itemsize)
    count = _ascending(entries["position"])
    relative = entries["offset"][:count].astype(np.int64)
    count = _ascending(relative)
    return OffsetEntries(relative[:count] + base_offset, entries["position"][:count].astype(np.int64))


def time_entries(data: bytes, base_offset: int) -> TimeEntries:
    """The entries of a `.timeindex` file, likewise."""
    entries = np.frombuffer(data, TIME_ENTRY, count=len(data) // TIME_ENTRY.itemsize)
    count = _ascending(entries["timestamp"])
    return TimeEntries(
        entries["timestamp"][:count].astype(np.int64), entries["offset"][:count].astype(np.int64) + base_offset
    )


def _ascending(values: NDArray[np.signedinteger]) -> int:
    """The number of entries, from the first on, that ascend."""
    stops = np.flatnonzero(values[1:] <= values[:-1])
    return int(stops[0]) + 1 if len(stops) else len(values)


def aborted_transactions(data: bytes, path: str) -> list[AbortedTxn]:
    """The entries of a `.txnindex` file. A last entry that is cut short is still being written. `CorruptIndexError`."""
    try:
        return decode_all(data[: len(data) - len(data) % TXN_ENTRY_BYTES])
    except CorruptIndexError as error:
        raise CorruptIndexError(f"{path}: {error}") from None
