"""Blocks: ranges of bytes that contain only records, with the values of their batch header.

A block is the decompressed body of a v2 batch, a whole v0 or v1 message, or the message set from a wrapper. A table of
blocks is an int64 array with a row per block and the columns below.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.headers import as_bytes, select_headers
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.compression import decompress
from minibroker_protocol.records.header import MAGIC_V2, RECORD_BATCH_OVERHEAD, TIMESTAMP_TYPE_FLAG, CompressionCodec
from minibroker_protocol.records.legacy import LegacyRecordBatch

START: Final = 0
"""The first byte in the table's buffer. For a plain message, this is the first byte of its entry."""
END: Final = 1
KIND: Final = 2
COUNT: Final = 3
"""The number of records in the header, or -1 for a wrapper."""
BASE_OFFSET: Final = 4
"""The base offset. A wrapper starts with its own offset, which is that of its last record, until the engine replaces it
with the offset of the first record.
"""
BASE_TIMESTAMP: Final = 5
FIXED_TIMESTAMP: Final = 6
"""1 if all records have MAX_TIMESTAMP: the broker's time, or no timestamp in v0."""
MAX_TIMESTAMP: Final = 7
ENTRY: Final = 8
"""The index of the entry in the array of headers."""
ROWS: Final = 9
IS_BAD: Final = 10
WIDTH: Final = 11

V2: Final = 0
PLAIN_V0: Final = 1
PLAIN_V1: Final = 2
WRAPPER_V0: Final = 3
WRAPPER_V1: Final = 4

_MIN_RECORD_BYTES_BY_KIND: Final = (7, 26, 34, 26, 34)
"""The minimum size of a record in bytes, by kind."""


def blocks_of(headers: NDArray[Any], lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block table for the entries at these lines of `headers`.

    Positions refer to the data from which the headers were read. For a compressed entry, the caller must set START
    and END after decompression.
    """
    entries = select_headers(headers, lines)
    table = np.zeros((len(lines), WIDTH), np.int64)
    magic = entries["magic"]
    is_v2 = magic == MAGIC_V2
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


def max_rows(table: NDArray[np.int64]) -> int:
    """Return the maximum number of records in the blocks, regardless of the counts in their headers."""
    max_counts = (table[:, END] - table[:, START]) // np.array(_MIN_RECORD_BYTES_BY_KIND)[table[:, KIND]]
    counts = np.where(table[:, COUNT] < 0, max_counts, table[:, COUNT])
    return int(np.minimum(max_counts, counts).sum())


class RecordTable(NamedTuple):
    """The records of some blocks, with one element per record in each array.

    Positions and sizes are in bytes of `data`. The size of a null is -1. If `header_count` is 0, `headers_at` is
    meaningless.
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


_CODECS: Final = tuple(CompressionCodec)


def decompress_entry(entry: memoryview, header: Any, max_size: int) -> bytes:
    """Return the decompressed contents of the entry that has this header (an element of `HEADER_DTYPE`).

    The contents are the records, or the message set of a wrapper.

    Raises:
        DecodeError: the contents are malformed or too large, or the codec is unknown.
    """
    if header["magic"] != MAGIC_V2:
        return LegacyRecordBatch(entry, max_decompressed_size=max_size).records_data()
    codec_id = int(header["codec"])
    if codec_id >= len(_CODECS):
        raise DecodeError(f"attributes: unknown compression codec {codec_id}")
    if header["record_count"] == 0:
        return b""  # The payload of a batch without records is ignored.
    return decompress(_CODECS[codec_id], entry[RECORD_BATCH_OVERHEAD:], max_size=max_size)


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
    """Yield groups of records: the bytes that contain them, and a table of the blocks in these bytes.

    No table is empty. Without compressed entries, there is one group, within the data itself. Otherwise a group has
    about `group_bytes` of decompressed and copied entries.

    Args:
        view: the data from which the headers were read.
        headers: the headers from `read_headers`.
        lines: the entries, as indexes into `headers`.
        refuse: called with the header of an entry that cannot be decompressed, and with the reason.
        group_bytes: the approximate size of a group.
        max_size: the maximum decompressed size of an entry.
        gives_rest: whether to yield the current group before an entry is refused.
    """
    blocks = blocks_of(headers, lines)
    if not len(lines):
        return
    if not headers["codec"][lines].any():
        start, end = int(blocks[0, START]), int(blocks[-1, END])
        blocks[:, START : END + 1] -= start
        yield as_bytes(view[start:end]), blocks
        return
    parts: list[bytes | memoryview] = []
    size = first = 0
    is_readable = np.ones(len(lines), np.bool_)

    def group(end_line: int) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        chosen = blocks[first:end_line][is_readable[first:end_line]]
        return [(as_bytes(b"".join(parts)), np.ascontiguousarray(chosen))] if len(chosen) else []

    for index, (line, (start, end)) in enumerate(zip(lines.tolist(), blocks[:, START : END + 1].tolist(), strict=True)):
        header = headers[line]
        part: bytes | memoryview = view[start:end]
        if header["codec"]:
            try:
                part = decompress_entry(view[int(header["position"]) : end], header, max_size)
            except DecodeError as error:
                if gives_rest:
                    yield from group(index)
                refuse(header, str(error))
                is_readable[index] = False
                continue
        if size and size + len(part) > group_bytes:
            yield from group(index)
            parts, size, first = [], 0, index
        parts.append(part)
        blocks[index, START] = size
        size += len(part)
        blocks[index, END] = size
    yield from group(len(lines))
