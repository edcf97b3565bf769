"""Blocks: pieces of bytes that hold records and nothing else, each with what their batch's header says.

The body of a v2 batch is one, decompressed; so is a whole message of v0 or v1, or the message set out of a wrapper. A
table of them is an int64 array with a line for each and the columns below. An engine fills the last three.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode.headers import as_bytes, chosen
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import MAGIC_V2, RECORD_BATCH_OVERHEAD, TIMESTAMP_TYPE_FLAG, CompressionCodec
from minibroker_protocol.records.legacy import LegacyRecordBatch

START: Final = 0
"""First byte in the buffer that the table belongs to; of a plain message, of its entry."""
END: Final = 1
KIND: Final = 2
COUNT: Final = 3
"""Records by the header; -1 for a wrapper."""
BASE_OFFSET: Final = 4
"""Of a wrapper, at first the wrapper's own, which is its last; the engine puts the first record's here."""
BASE_TIMESTAMP: Final = 5
FIXED_TIMESTAMP: Final = 6
"""1 where all records have MAX_TIMESTAMP: the broker's time, or in v0 none."""
MAX_TIMESTAMP: Final = 7
ENTRY: Final = 8
"""Line in the array of headers."""
ROWS: Final = 9
IS_BAD: Final = 10
WIDTH: Final = 11

V2: Final = 0
PLAIN_V0: Final = 1
PLAIN_V1: Final = 2
WRAPPER_V0: Final = 3
WRAPPER_V1: Final = 4

_SMALLEST_ENTRIES: Final = (7, 26, 34, 26, 34)
"""Bytes that a record takes at least, by kind."""


def blocks_of(headers: NDArray[Any], lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """The table for the entries in these lines of `headers`, as they lie in the data that the headers are of.

    A compressed entry's START and END are for the caller to set, once it has been decompressed.
    """
    entries = chosen(headers, lines)
    table = np.zeros((len(lines), WIDTH), np.int64)
    magic = entries["magic"]
    is_v2 = magic == 2  # noqa: PLR2004 - the format
    table[:, START] = entries["position"] + np.where(is_v2, RECORD_BATCH_OVERHEAD, 0)
    table[:, END] = entries["position"] + entries["size"]
    kinds = np.where(entries["codec"] != 0, WRAPPER_V0, PLAIN_V0) + magic
    table[:, KIND] = np.where(is_v2, V2, kinds)
    table[:, COUNT] = entries["record_count"]
    table[:, BASE_OFFSET] = entries["base_offset"]
    table[:, BASE_TIMESTAMP] = entries["base_timestamp"]
    table[:, FIXED_TIMESTAMP] = (entries["attributes"] & TIMESTAMP_TYPE_FLAG != 0) | (magic == 0)
    table[:, MAX_TIMESTAMP] = entries["max_timestamp"]
    table[:, ENTRY] = lines
    return table


def most_rows(table: NDArray[np.int64]) -> int:
    """The most records that the blocks can hold, whatever their headers claim."""
    fitting = (table[:, END] - table[:, START]) // np.array(_SMALLEST_ENTRIES)[table[:, KIND]]
    claimed = np.where(table[:, COUNT] < 0, fitting, table[:, COUNT])
    return int(np.minimum(fitting, claimed).sum())


class RecordTable(NamedTuple):
    """The records of some blocks, one entry of each array per record. Positions and sizes are bytes of `data`.

    A size is -1 for null. `header_count` is 0 where a record has no headers, and `headers_at` says nothing there.
    """

    data: NDArray[np.uint8]
    rows: int
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    key_at: NDArray[np.int32]
    key_size: NDArray[np.int32]
    value_at: NDArray[np.int32]
    value_size: NDArray[np.int32]
    headers_at: NDArray[np.int32]
    header_count: NDArray[np.int32]


class RecordEngine(Protocol):
    """The interface that finds and gathers records: `numba_engine` and `numpy_engine` implement it."""

    #: How many times `chunk_bytes` it wants at once.
    chunks_at_once: int

    def chase(
        self, data: NDArray[np.uint8], position: int, until: int, count: int, positions: NDArray[np.int64]
    ) -> tuple[int, int]:
        """As `headers.chase_entries`."""
        ...

    def wrong_crcs(self, view: memoryview, headers: NDArray[Any]) -> list[int]:
        """As `headers.wrong_crcs`."""
        ...

    def walk(self, data: NDArray[np.uint8], blocks: NDArray[np.int64], first: int, limit: int) -> RecordTable:
        """The records of the blocks (see `blocks`) whose offsets are in [first, limit).

        Fills the blocks' ROWS and, where bytes are not records, IS_BAD; such a block has no rows.
        """
        ...

    def binary(
        self, data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32], rows: int
    ) -> pa.BinaryArray:
        """The values at these positions, as an array of their own."""
        ...

    def headers(self, table: RecordTable) -> tuple[pa.Buffer, pa.Buffer, pa.BinaryArray, pa.BinaryArray]:
        """Of the column of headers: validity, list offsets, all keys and all values."""
        ...


_CODECS = tuple(CompressionCodec)


def inflate(entry: memoryview, header: Any, max_size: int) -> bytes:
    """The contents of one compressed entry (a line of `HEADER_DTYPE`): records, or a wrapper's message set.

    `DecodeError` for what is malformed, too large, or of a codec that does not exist.
    """
    if header["magic"] != MAGIC_V2:
        return LegacyRecordBatch(entry, max_decompressed_size=max_size).records_data()
    codec_id = int(header["codec"])
    if codec_id >= len(_CODECS):
        raise DecodeError(f"attributes: unknown compression codec {codec_id}")
    if header["record_count"] == 0:
        return b""  # the payload of a batch without records is not read
    return decompress(_CODECS[codec_id], entry[RECORD_BATCH_OVERHEAD:], max_size=max_size)


class _Inflated(threading.local):
    """The decompressed bytes of entries, until their records are read. Kept, since fresh memory costs time."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)

    def put(self, at: int, part: bytes | memoryview, group_bytes: int) -> None:
        """Put bytes at a position, behind those of the group that are there."""
        end = at + len(part)
        if not at and len(self.buffer) < max(end, group_bytes):  # later parts fit into a group
            self.buffer = np.empty(max(end, group_bytes), np.uint8)
        self.buffer[at:end] = np.frombuffer(part, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return the bytes of a group."""
        data = self.buffer[:size]
        data.flags.writeable = False
        return data


_inflated: Final = _Inflated()


def record_groups(
    view: memoryview,
    headers: NDArray[Any],
    lines: NDArray[np.int64],
    refuse: Callable[[Any, str], None],
    *,
    group_bytes: int,
    max_size: int,
    gives_rest: bool = False,
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield the bytes of entries' records, and the tables of the blocks in them. None of the tables is empty.

    Without compressed entries all are one group, in the data themselves. Otherwise a group has about `group_bytes`, in
    a buffer that lasts until the next one: decompressed, or copied beside those.

    Args:
        view: the data that the headers are of.
        headers: as of `read_headers`.
        lines: the entries, as lines of `headers`.
        refuse: called with the header of an entry that cannot be decompressed, and why.
        group_bytes: see above.
        max_size: the most bytes that an entry may decompress to.
        gives_rest: whether a group ends before an entry that is refused.
    """
    blocks = blocks_of(headers, lines)
    if not len(lines):
        return
    if not headers["codec"][lines].any():
        start, end = int(blocks[0, START]), int(blocks[-1, END])
        blocks[:, START : END + 1] -= start
        yield as_bytes(view[start:end]), blocks
        return
    size = first = 0
    kept = np.ones(len(lines), np.bool_)

    def group(behind: int) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        chosen = blocks[first:behind][kept[first:behind]]
        return [(_inflated.take(size), np.ascontiguousarray(chosen))] if len(chosen) else []

    for index, (line, (start, end)) in enumerate(zip(lines.tolist(), blocks[:, START : END + 1].tolist(), strict=True)):
        header = headers[line]
        part: bytes | memoryview = view[start:end]
        if header["codec"]:
            try:
                part = inflate(view[int(header["position"]) : end], header, max_size)
            except DecodeError as error:
                if gives_rest:
                    yield from group(index)
                refuse(header, str(error))
                kept[index] = False
                continue
        if size and size + len(part) > group_bytes:
            yield from group(index)
            size, first = 0, index
        _inflated.put(size, part, group_bytes)
        blocks[index, START] = size
        size += len(part)
        blocks[index, END] = size
    yield from group(len(lines))
