"""Writes the log files of a partition without a broker: segments, indexes, and the small files beside them.

    writer = PartitionWriter(directory, LogConfig(segment_bytes=1 << 28))
    writer.append(data, headers)          # whole entries of any format, as `decode.scan_headers` finds them
    writer.close()
    write_partition_files(directory, writer.log_end_offset, epochs=writer.epochs, producers={}, topic_id=topic_id)

The files equal those of a broker that wrote the same entries and was stopped: indexes follow Kafka's rule, have no
unused space, and everything is on disk. The writes are not atomic. `directory_commit.DataDirectoryCommit` publishes the
files atomically.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_protocol.records.header import MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.checkpoints import EpochEntry, LeaderEpochCheckpoint, partition_metadata
from minibroker_storage.config import LogConfig
from minibroker_storage.files import fsync_directory, pwritev_all, write_atomically
from minibroker_storage.index_writer import BufferedIndexWriter
from minibroker_storage.layout import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from minibroker_storage.portability import os
from minibroker_storage.producer_snapshot import ProducerStateEntry, encode_snapshot
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn

_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_USUAL_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

Buffer = bytes | bytearray | memoryview


class LogOrderError(ValueError):
    """Entries whose offsets do not ascend, or are below the end of the log."""


class WrittenSegment(NamedTuple):
    """A complete segment.

    `path` and `size` (in bytes) are those of the log file. `entries` is the number of entries. `max_timestamp` is
    in milliseconds. `last_offset` and `max_timestamp` are -1 for an empty segment.
    """

    base_offset: int
    path: str
    size: int
    entries: int
    last_offset: int
    max_timestamp: int
    aborted: tuple[AbortedTxn, ...]

    @property
    def stem(self) -> str:
        """The path of the segment's files without the suffix."""
        return self.path.removesuffix(LOG_SUFFIX)


class PartitionWriter:
    """Writes segments of a partition into an existing local directory that has no files of the same names.

    A new segment begins when the previous one is full (`segment_bytes`), when an offset is too far from the segment's
    base offset, and at `roll`. The files of a segment are created with its first entry, or at `close` if it has none.
    An entry larger than `segment_bytes` gets a segment of its own.

    Args:
        directory: the existing directory.
        settings: the topic's configuration. `segment_ms` is ignored.
        base_offset: the base offset of the first segment.
    """

    def __init__(self, directory: str, settings: LogConfig | None = None, *, base_offset: int = 0) -> None:
        self._directory = directory
        self._settings = settings or LogConfig()
        self._epochs = LeaderEpochCheckpoint("")
        self._open: _OpenSegment | None = None
        #: The base offset of the next segment, or None to use the next entry's offset.
        self._next_base: int | None = base_offset
        self._segments: list[WrittenSegment] = []
        self._is_closed = False
        #: The offset after the last entry, or the base offset of a segment that begins later.
        self.log_end_offset = base_offset
        #: Modification time of the current segment's files in nanoseconds, or None for the current time. `roll` resets
        #: it.
        self.modified_ns: int | None = None

    def append(self, data: Buffer, headers: NDArray[Any]) -> None:
        """Append the entries of `data` that have these `headers` (`HEADER_DTYPE`): all or some, in offset order.

        The bytes are written unchanged, because their offsets are final. No checksum is verified.

        Raises:
            LogOrderError: the offsets do not ascend, or are below the end of the log. Nothing was written.
            OSError: a file cannot be written.
        """
        if not len(headers):
            return
        self._check_order(headers)
        view = memoryview(data)
        self._track_epochs(headers)
        ends = np.cumsum(headers["size"], dtype=np.int64)
        first = 0
        while first < len(headers):
            segment, count = self._find_room(headers, ends, first)
            segment_headers = headers[first : first + count]
            last_offset = int(segment_headers["last_offset"][-1])
            segment.append(view, segment_headers)
            self.log_end_offset = last_offset + 1
            first += count

    def _check_order(self, headers: NDArray[Any]) -> None:
        last_offsets = headers["last_offset"]
        # The comparison also works for v0 and v1 wrappers, whose `base_offset` is the offset of the last record.
        wrong = np.flatnonzero(headers["base_offset"][1:] <= last_offsets[:-1])
        first = int(headers["base_offset"][0])
        if len(wrong):
            line = int(wrong[0])
            raise LogOrderError(f"offset {headers['base_offset'][line + 1]} behind offset {last_offsets[line]}")
        if first < self.log_end_offset:
            raise LogOrderError(f"offset {first} in a log that ends before offset {self.log_end_offset}")

    def _find_room(self, headers: NDArray[Any], ends: NDArray[np.int64], first: int) -> tuple["_OpenSegment", int]:
        """Return the segment for the entries from `first` on, and the number of entries that fit, at least one.

        If the current segment is full, a new one begins.
        """
        if self._open is not None:
            count = self._count_fitting(self._open.base_offset, self._open.end, headers, ends, first)
            if count > 0 and not self._open.is_full:
                return self._open, count
            self.roll()
        base = self._next_base
        if base is None or int(headers["last_offset"][first]) - base > INT32_MAX:
            is_v2 = headers["magic"][first] == MAGIC_V2
            base = int(headers["base_offset"][first]) if is_v2 else self.log_end_offset
        self._open = _OpenSegment(self._directory, base, self._settings)
        # An entry larger than a segment gets a segment of its own, because existing data is never refused for its
        # size.
        return self._open, max(self._count_fitting(base, 0, headers, ends, first), 1)

    def _count_fitting(self, base: int, size: int, headers: NDArray[Any], ends: NDArray[np.int64], first: int) -> int:
        """Return the number of entries from `first` on that fit into a segment of this base offset and size."""
        bytes_before = int(ends[first - 1]) if first else 0
        by_size = int(np.searchsorted(ends, bytes_before + self._settings.segment_bytes - size, "right"))
        by_offset = int(np.searchsorted(headers["last_offset"], base + INT32_MAX, "right"))
        return min(by_size, by_offset, len(headers)) - first

    def _track_epochs(self, headers: NDArray[Any]) -> None:
        epochs = headers["leader_epoch"]
        latest = self._epochs.latest_epoch
        # Most chunks keep the previous epoch, so one NumPy operation replaces the loop.
        if int(epochs.max()) <= latest:
            return
        for line in np.flatnonzero(np.diff(np.maximum.accumulate(epochs), prepend=latest) > 0).tolist():
            if epochs[line] > self._epochs.latest_epoch:
                self._epochs.assign(int(epochs[line]), int(headers["base_offset"][line]))

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions, whose markers are in the current segment, to the segment's transaction index."""
        aborted = list(transactions)
        if aborted and self._open is None:
            raise LogOrderError(f"{aborted[0]}: no entry is written yet")
        if self._open is not None:
            self._open.aborted += aborted

    def roll(self, base_offset: int | None = None) -> None:
        """End the current segment. The next entry begins a new one, at `base_offset` or else at the entry's own offset.

        An empty segment is dropped, unless it is the last one.

        Raises:
            LogOrderError: the base offset is within the log.
            OSError: a file cannot be written.
        """
        if base_offset is not None and base_offset < self.log_end_offset:
            raise LogOrderError(f"a segment at offset {base_offset} in a log that ends before {self.log_end_offset}")
        if self._open is not None:
            self._segments.append(self._open.finish(self.modified_ns))
            self._open = None
        self.modified_ns = None
        self._next_base = base_offset
        if base_offset is not None:
            self.log_end_offset = base_offset

    def close(self) -> tuple[WrittenSegment, ...]:
        """Complete the last segment, sync all files, and return the segments.

        A second call only returns the segments again.

        Raises:
            OSError: a file cannot be written.
        """
        if self._is_closed:
            return tuple(self._segments)
        if self._open is None and (self._next_base is not None or not self._segments):
            base = self.log_end_offset if self._next_base is None else self._next_base
            self._open = _OpenSegment(self._directory, base, self._settings)
        self.roll()
        # All files are synced together, since the first fsync writes out much of what the others need.
        for segment in self._segments:
            for suffix in SEGMENT_SUFFIXES if segment.aborted else _USUAL_SUFFIXES:
                fsync_file(segment.stem + suffix)
        fsync_directory(self._directory)
        self._is_closed = True
        return tuple(self._segments)

    def adopt(self, segment: WrittenSegment, offset_shift: int = 0) -> None:
        """Move a complete segment of another writer on this file system to the end of the log.

        The segment's offsets are raised by `offset_shift`. The caller has already raised the offsets in the entries
        (see `sink.writer.stamp_batches`). `epochs` does not include the segment's leader epochs; the other
        writer has them.

        Raises:
            LogOrderError: the segment begins before the end of the log.
            OSError: a file cannot be moved.
        """
        base_offset = segment.base_offset + offset_shift
        if base_offset < self.log_end_offset:
            raise LogOrderError(f"offset {base_offset} in a log that ends before offset {self.log_end_offset}")
        self.roll()
        stem = f"{self._directory}/{file_name(base_offset, '')}"
        for suffix in SEGMENT_SUFFIXES if segment.aborted else _USUAL_SUFFIXES:
            os.rename(segment.stem + suffix, stem + suffix)
        last_offset = segment.last_offset + offset_shift if segment.entries else -1
        self._segments.append(
            segment._replace(base_offset=base_offset, path=stem + LOG_SUFFIX, last_offset=last_offset)
        )
        self.log_end_offset = max(base_offset, last_offset + 1)

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the appended entries."""
        return self._epochs.entries


class _OpenSegment(BufferedIndexWriter):
    """The segment that is being written."""

    def __init__(self, directory: str, base_offset: int, settings: LogConfig) -> None:
        super().__init__(
            base_offset,
            index_interval_bytes=settings.index_interval_bytes,
            segment_index_bytes=settings.segment_index_bytes,
        )
        self._stem = f"{directory}/{file_name(base_offset, '')}"
        self.aborted: list[AbortedTxn] = []
        self._entries = 0
        self._last_offset = -1
        os.close(os.open(self._stem + LOG_SUFFIX, _CREATE_FLAGS, 0o644))

    def append(self, view: memoryview, headers: NDArray[Any]) -> None:
        """Write these entries, and add their index entries."""
        sizes = headers["size"].astype(np.int64)
        positions = headers["position"]
        breaks = np.flatnonzero(positions[1:] != positions[:-1] + sizes[:-1]) + 1
        starts = positions[np.concatenate(([0], breaks))].tolist()
        lasts = np.concatenate((breaks - 1, [len(headers) - 1]))
        stops = (positions[lasts] + sizes[lasts]).tolist()
        # Open the file for each write, because a job can write to thousands of partitions at the same time.
        fd = os.open(self._stem + LOG_SUFFIX, os.O_WRONLY | os.O_CLOEXEC)
        try:
            pwritev_all(fd, [view[start:stop] for start, stop in zip(starts, stops, strict=True)], self.end)
        finally:
            os.close(fd)
        self._add_batches(headers, sizes)
        self._entries += len(headers)
        self._last_offset = int(headers["last_offset"][-1])

    def _add_batches(self, headers: NDArray[Any], sizes: NDArray[np.int64]) -> None:
        """Like `add_batch`, for many entries at once. Entries without an index entry take no time."""
        last_offsets = headers["last_offset"]
        latest = np.maximum.accumulate(np.maximum(headers["max_timestamp"], self.max_timestamp))
        is_later = np.diff(latest, prepend=self.max_timestamp) > 0
        latest_line = np.maximum.accumulate(np.where(is_later, np.arange(len(headers)), -1))
        stops = self.end + np.cumsum(sizes)
        starts, end = (stops - sizes).tolist(), int(stops[-1])
        line = 0
        while line < len(starts):
            # If no entry up to this line has a later timestamp, this value is arbitrary, and `add_batch` ignores it.
            brought_by = int(last_offsets[latest_line[line]])
            self.add_batch(int(sizes[line]), int(last_offsets[line]), int(latest[line]), brought_by)
            line = bisect_right(starts, self.index_due_after, line + 1)
            self.skip_batches((starts[line] if line < len(starts) else end) - self.end)
        if latest[-1] > self.max_timestamp:
            self.max_timestamp = int(latest[-1])
            self.offset_of_max_timestamp = int(last_offsets[latest_line[-1]])

    def finish(self, modified_ns: int | None) -> WrittenSegment:
        """Complete the files. `PartitionWriter.close` syncs them to disk later."""
        self.close_indexes()
        aborted = sorted(self.aborted, key=lambda transaction: transaction.last_offset)
        if modified_ns is not None:
            os.utime(self._stem + LOG_SUFFIX, ns=(modified_ns, modified_ns))
        self._write(INDEX_SUFFIX, self.offset_entries, modified_ns)
        self._write(TIME_INDEX_SUFFIX, self.time_entries, modified_ns)
        if aborted:
            self._write(TXN_INDEX_SUFFIX, b"".join(map(encode_aborted_txn, aborted)), modified_ns)
        return WrittenSegment(
            self.base_offset,
            self._stem + LOG_SUFFIX,
            self.end,
            self._entries,
            self._last_offset,
            self.max_timestamp,
            tuple(aborted),
        )

    def _write(self, suffix: str, data: bytes | bytearray, modified_ns: int | None) -> None:
        fd = os.open(self._stem + suffix, _CREATE_FLAGS, 0o644)
        try:
            pwritev_all(fd, [data], 0)
            if modified_ns is not None:
                os.utime(fd, ns=(modified_ns, modified_ns))
        finally:
            os.close(fd)


def fsync_file(path: str) -> None:
    """Sync a file to disk.

    Raises:
        OSError: the file cannot be synced.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_partition_files(
    directory: str,
    log_end_offset: int,
    *,
    epochs: Sequence[EpochEntry],
    producers: Mapping[int, ProducerStateEntry] | None,
    topic_id: bytes | None = None,
) -> None:
    """Write the files beside the segments, and sync them to disk.

    The files are the leader epochs, a snapshot of the producers at the end of the log, and the topic's id. If
    `producers` is None, no snapshot is written: they are then found in an earlier one and in the log after it. Without
    a `topic_id` (16 bytes), `partition.metadata` is not written. A broker then assigns the partition to the topic
    with the same name.

    Raises:
        OSError: a file cannot be written.
    """
    lines = b"".join(b"%d %d\n" % entry for entry in epochs)
    files = {LEADER_EPOCH_CHECKPOINT: b"0\n%d\n%b" % (len(epochs), lines)}
    # Without a snapshot, Kafka reads a whole log of v2 batches after a clean stop, only to find no producers.
    if producers is not None:
        files[file_name(log_end_offset, SNAPSHOT_SUFFIX)] = encode_snapshot(dict(producers))
    if topic_id is not None:
        files[PARTITION_METADATA] = partition_metadata(topic_id)
    for name, data in files.items():
        write_atomically(f"{directory}/{name}", data)
    for name in files:
        fsync_file(f"{directory}/{name}")
    fsync_directory(directory)
