"""Computes the sizes of records in each message format from the positions of their fields, without their values."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode.assemble import varint_sizes
from minibroker_pipeline.decode.blocks import END, ENTRY, IS_BAD, KIND, PLAIN_V0, PLAIN_V1, ROWS, START, V2
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.jobs.reports import Sums
from minibroker_pipeline.jobs.segment_walk import Entries, WalkedRecords
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    TimestampType,
)
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

_Ints = NDArray[np.int64]

ENTRY_OVERHEADS: Final = (LOG_OVERHEAD + MIN_MESSAGE_LENGTH, LOG_OVERHEAD + MIN_MESSAGE_LENGTH_V1)
"""The bytes that v0 and v1 add to the key and value of each record: 26 and 34."""
BATCH_BYTES: Final = 16384
"""The producers' default of `batch.size`: single messages of v0 and v1 are joined into batches of this size."""


class Group(NamedTuple):
    """Records with the same message format and codec id."""

    magic: int
    codec: int


@dataclass(slots=True)
class Counts(Sums):
    """The counts of a group. Every count is a sum, so the counts of parts can be added."""

    #: `batches` is the number of v2 batches, wrappers and single messages. Transaction markers are counted separately,
    #: in `control_batches`.
    batches: int = 0
    control_batches: int = 0
    #: The number of records, without transaction markers.
    records: int = 0
    #: The size of all entries in the log file in bytes, including transaction markers.
    stored_bytes: int = 0
    #: The uncompressed size of the entries in bytes.
    plain_bytes: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    #: The size of the names and values of all record headers in bytes.
    header_bytes: int = 0
    #: The uncompressed size of the records in each message format, in bytes.
    plain_v0: int = 0
    plain_v1: int = 0
    plain_v2: int = 0
    #: The sizes of sampled batches, rebuilt in each message format: `plain` is before compression with the group's
    #: codec, `stored` is after it.
    sampled_plain_v0: int = 0
    sampled_stored_v0: int = 0
    sampled_plain_v1: int = 0
    sampled_stored_v1: int = 0
    sampled_plain_v2: int = 0
    sampled_stored_v2: int = 0
    #: The number of unreadable entries. Only their stored bytes are included in the sizes.
    unreadable: int = 0

    @property
    def payload_bytes(self) -> int:
        """The bytes written by users: keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes


def count_entries(entries: Entries) -> dict[Group, Counts]:
    """Count entries by their headers alone."""
    headers = entries.headers
    counts_by_group: dict[Group, Counts] = {}
    for group, lines in _lines_by_group(headers).items():
        control = int(np.count_nonzero(headers["attributes"][lines] & CONTROL_FLAG))
        stored = int(headers["size"][lines].sum(dtype=np.int64))
        counts_by_group[group] = Counts(batches=len(lines) - control, control_batches=control, stored_bytes=stored)
    return counts_by_group


def _lines_by_group(headers: NDArray[Any]) -> dict[Group, _Ints]:
    kinds = headers["magic"].astype(np.int64) << 3 | headers["codec"]
    return {Group(kind >> 3, kind & 7): np.flatnonzero(kinds == kind) for kind in np.unique(kinds).tolist()}


def measure_records(entries: Entries, walked: WalkedRecords, engine: RecordEngine) -> dict[Group, Counts]:
    """Measure the records of entries by group."""
    return _Measures(entries, walked.blocks[walked.blocks[:, IS_BAD] == 0], walked, engine).count_groups()


class _Measures:
    def __init__(self, entries: Entries, blocks: _Ints, walked: WalkedRecords, engine: RecordEngine) -> None:
        table = walked.table
        rows = table.rows
        self._table = table
        self._blocks = blocks
        self._headers = entries.headers[blocks[:, ENTRY]]
        self._block_of = np.repeat(np.arange(len(blocks)), blocks[:, ROWS])
        self._keys = np.maximum(table.key_size[:rows], 0).astype(np.int64)
        self._values = np.maximum(table.value_size[:rows], 0).astype(np.int64)
        self._extras = _header_bytes(walked, engine) if table.header_count[:rows].any() else None
        self._is_control = self._headers["attributes"] & CONTROL_FLAG != 0

    def count_groups(self) -> dict[Group, Counts]:
        return {group: self._count_blocks(lines) for group, lines in _lines_by_group(self._headers).items()}

    def _count_blocks(self, lines: _Ints) -> Counts:
        """Return the sums over these blocks."""
        blocks = self._blocks[lines]
        counts = Counts()
        kind = int(blocks[0, KIND])
        counts.plain_bytes = int((blocks[:, END] - blocks[:, START]).sum())
        counts.plain_bytes += RECORD_BATCH_OVERHEAD * len(lines) if kind == V2 else 0
        data = lines[~self._is_control[lines]]
        selection: Any = slice(None) if len(data) == len(self._blocks) else np.isin(self._block_of, data)
        keys, values = self._keys[selection], self._values[selection]
        counts.records = len(keys)
        counts.key_bytes, counts.value_bytes = int(keys.sum()), int(values.sum())
        if self._extras is not None:
            counts.header_bytes = int(self._extras[selection].sum())
        contents = counts.key_bytes + counts.value_bytes
        counts.plain_v0, counts.plain_v1 = (contents + overhead * counts.records for overhead in ENTRY_OVERHEADS)
        if kind == V2:
            counts.plain_v2 = counts.plain_bytes
        else:
            counts.plain_v2 = self._estimate_v2_size(selection, keys, values, is_single=kind in {PLAIN_V0, PLAIN_V1})
        return counts

    def _estimate_v2_size(self, selection: Any, keys: _Ints, values: _Ints, *, is_single: bool) -> int:
        """Return the size of v0 and v1 messages as v2 batches.

        Each wrapper becomes a batch, and single messages are joined into batches of `BATCH_BYTES`.
        """
        table, rows = self._table, self._table.rows
        offsets, timestamps = table.offsets[:rows][selection], table.timestamps[:rows][selection]
        contents = keys + values
        bytes_before = np.cumsum(contents + _MIN_RECORD_BYTES) - contents
        batch = bytes_before // BATCH_BYTES if is_single else self._block_of[selection]
        is_first = np.diff(batch, prepend=-1) != 0
        first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        body = 1 + varint_sizes(timestamps - timestamps[first]) + varint_sizes(offsets - offsets[first])
        body += varint_sizes(table.key_size[:rows][selection]) + varint_sizes(table.value_size[:rows][selection])
        body += 1 + contents  # The header count takes one byte, because v0 and v1 messages have no headers.
        return int((body + varint_sizes(body)).sum()) + RECORD_BATCH_OVERHEAD * int(np.count_nonzero(is_first))


_MIN_RECORD_BYTES: Final = 7


def _header_bytes(walked: WalkedRecords, engine: RecordEngine) -> _Ints:
    """Return the total size of each record's header names and values, in bytes."""
    rows = walked.table.rows
    _, lists, keys, values = engine.headers(walked.table)
    bounds = np.frombuffer(lists, np.int32)[: rows + 1]
    total = np.zeros(rows, np.int64)
    for array in (keys, values):
        ends = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1].astype(np.int64)
        total += ends[bounds[1:]] - ends[bounds[:-1]]
    return total


def sample(entries: Entries, line: int, group: Group) -> Counts:
    """Rebuild a compressed entry in each format that supports its codec, and count the bytes of the results."""
    header = entries.headers[line]
    position = int(header["position"])
    data = entries.data[position : position + int(header["size"])]
    records = [
        NewRecord(record.key, record.value, max(record.timestamp, -1), record.headers)
        for batch in iter_batches(data)
        for record in batch
    ]
    counts = Counts()
    if not records:
        return counts
    codec = CompressionCodec(group.codec)
    bare = [record._replace(headers=()) for record in records]
    for magic, overhead in enumerate(ENTRY_OVERHEADS):
        try:
            stored = len(build_message_set(bare, magic=magic, base_offset=0, codec=codec))
        except EncodeError:
            continue  # Message formats before v2 do not support zstd, so they have no size to add.
        plain = sum(len(record.key or b"") + len(record.value or b"") + overhead for record in bare)
        setattr(counts, f"sampled_plain_v{magic}", plain)
        setattr(counts, f"sampled_stored_v{magic}", stored)
    counts.sampled_plain_v2, counts.sampled_stored_v2 = (
        len(build_batch(records, codec=one, timestamp_type=TimestampType.CREATE_TIME))
        for one in (CompressionCodec.NONE, codec)
    )
    return counts
