"""One segment of a log: the batches from its base offset on, with its two sparse indexes."""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from minibroker_protocol.records import HEADER, RECORD_BATCH_OVERHEAD, BatchHeader, RecordBatch
from minibroker_protocol.records.header import LOG_OVERHEAD, make_header
from minibroker_storage.config import LogConfig
from minibroker_storage.files import FileHandle, FilePool, pwrite_all, pwritev_all
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import NO_TIMESTAMP, TimeIndex

SCAN_BYTES: Final = 1 << 20
_WINDOW_BYTES: Final = 1 << 13
_MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms); `leader_epoch` is its batch's."""

    timestamp: int
    offset: int
    leader_epoch: int


class BatchPosition(NamedTuple):
    """A batch's header, and where the batch starts in its segment's file."""

    header: BatchHeader
    position: int


class _Mark(NamedTuple):
    """What staging changes, as it was at the last commit."""

    offset_entries: int
    time_entries: int
    bytes_since_last_index_entry: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_timestamp: int | None


class LogSegment:
    """A `.log` file with its `.index` and `.timeindex` (Kafka's `LogSegment`).

    Bytes of the log: record batches, one after the other, with ascending offsets. Batches are staged in memory and written by
    `commit`. Crash rule: after an unclean stop the last segment is scanned, its first batch that is cut or damaged ends it, and
    its indexes are made anew; closed segments are not looked at.
    """

    __slots__ = (
        "_config",
        "_mark",
        "_staged",
        "base_offset",
        "bytes_since_last_index_entry",
        "file",
        "first_timestamp",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "size",
        "staged_size",
        "time_index",
    )

    def __init__(self, directory: str, base_offset: int, config: LogConfig, files: FilePool) -> None:
        flags = os.O_RDWR | os.O_CREAT
        stem = f"{directory}/{file_name(base_offset, '')}"
        self._config = config
        self.base_offset = base_offset
        self.file: FileHandle = files.handle(stem + LOG_SUFFIX, flags)
        self.offset_index = OffsetIndex(files.handle(stem + INDEX_SUFFIX, flags), base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(files.handle(stem + TIME_INDEX_SUFFIX, flags), base_offset, config.segment_index_bytes)
        self.size = 0
        self.staged_size = 0
        self.bytes_since_last_index_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp: int | None = None
        self._staged: list[memoryview] = []
        self._mark: _Mark | None = None

    @property
    def last_modified_ms(self) -> int:
        """When the file was last written, in ms since the epoch."""
        return os.fstat(self.file.fd()).st_mtime_ns // 1_000_000

    def should_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Does a batch need a new segment? (Kafka's `LogSegment.shouldRoll`)."""
        filled = self.size + self.staged_size
        if not filled:
            return False
        config = self._config
        reference = now_ms if self.first_timestamp is None else timestamp
        return (
            filled + size > config.segment_bytes
            or (self.first_timestamp is not None and reference - self.first_timestamp > config.segment_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or last_offset - self.base_offset > _MAX_RELATIVE_OFFSET
        )

    def stage(self, batch: memoryview, last_offset: int, max_timestamp: int) -> int:
        """Remember a batch for `commit`; returns the position that it will have."""
        if self._mark is None:
            self._mark = _Mark(
                self.offset_index.entries,
                self.time_index.entries,
                self.bytes_since_last_index_entry,
                self.max_timestamp,
                self.offset_of_max_timestamp,
                self.first_timestamp,
            )
        position = self.size + self.staged_size
        size = len(batch)
        self._staged.append(batch)
        self.staged_size += size
        self.note(position, size, last_offset, max_timestamp)
        return position

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Stage the index entries that a batch brings (Kafka's `LogSegment.append`)."""
        if self.first_timestamp is None and max_timestamp >= 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_last_index_entry > self._config.index_interval_bytes:
            self.offset_index.stage(last_offset, position)
            self.time_index.maybe_stage(self.max_timestamp, self.offset_of_max_timestamp)
            self.bytes_since_last_index_entry = 0
        self.bytes_since_last_index_entry += size

    def commit(self) -> None:
        """Write what is staged. OSError leaves it staged, for `rollback`."""
        staged = self._staged
        fd = self.file.fd()
        if len(staged) == 1:
            pwrite_all(fd, staged[0], self.size)
        else:
            pwritev_all(fd, staged, self.size)
        self.offset_index.commit()
        self.time_index.commit()
        self.size += self.staged_size
        self.staged_size = 0
        staged.clear()
        self._mark = None

    def rollback(self) -> None:
        """Forget what is staged, and cut off what a failed `commit` has written of it."""
        self._staged.clear()
        self.staged_size = 0
        mark, self._mark = self._mark, None
        if mark is not None:
            self.offset_index.rollback(mark.offset_entries)
            self.time_index.rollback(mark.time_entries)
            self.bytes_since_last_index_entry = mark.bytes_since_last_index_entry
            self.max_timestamp = mark.max_timestamp
            self.offset_of_max_timestamp = mark.offset_of_max_timestamp
            self.first_timestamp = mark.first_timestamp
        os.ftruncate(self.file.fd(), self.size)

    def batches(self, position: int, stop: int | None = None) -> Iterator[BatchPosition]:
        """The headers of the batches from `position` on; ends where a whole header or batch no longer follows."""
        stop = self.size if stop is None else stop
        fd = self.file.fd()
        window, start = b"", position
        while position + RECORD_BATCH_OVERHEAD <= stop:
            at = position - start
            if at + RECORD_BATCH_OVERHEAD > len(window):
                fd = self.file.fd()
                window, start, at = os.pread(fd, _WINDOW_BYTES, position), position, 0
                if len(window) < RECORD_BATCH_OVERHEAD:
                    return
            header = make_header(HEADER.unpack_from(window, at))
            if position + header.size_in_bytes > stop:
                return
            yield BatchPosition(header, position)
            position += header.size_in_bytes

    def position_of(self, offset: int) -> int:
        """Where the batch that holds `offset`, or the first one behind it, starts; the segment's size when there is none."""
        for header, position in self.batches(self.offset_index.lookup(offset).position):
            if header.last_offset >= offset:
                return position
        return self.size

    def batch_size_at(self, position: int) -> int:
        """The size of the batch that starts at `position`."""
        length = os.pread(self.file.fd(), LOG_OVERHEAD, position)[8:]
        return LOG_OVERHEAD + int.from_bytes(length, "big", signed=True)

    def read_batch(self, found: BatchPosition) -> RecordBatch:
        """One whole batch."""
        return RecordBatch(memoryview(os.pread(self.file.fd(), found.header.size_in_bytes, found.position)))

    def find_by_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        """The first record at or behind `from_offset` with at least this timestamp."""
        hint = max(self.time_index.lookup(timestamp).offset, from_offset)
        for found in self.batches(self.offset_index.lookup(hint).position):
            header = found.header
            if header.max_timestamp < timestamp or header.last_offset < from_offset:
                continue
            for record in self.read_batch(found):
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
        return None

    def seal(self) -> None:
        """The segment takes no more batches: give the time index its last entry, trim both indexes."""
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.trim()
        self.time_index.trim()

    def truncate_to(self, offset: int) -> None:
        """Drop the batches from the one that holds `offset` on."""
        self.size = self.position_of(offset)
        os.ftruncate(self.file.fd(), self.size)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.restore()

    def restore(self) -> None:
        """Learn from the indexes and the batches behind them what the segment would know had it never been closed."""
        entry = self.time_index.last_entry
        self.max_timestamp, self.offset_of_max_timestamp = entry.timestamp, entry.offset
        last = self.offset_index.last_position if self.offset_index.entries else 0
        self.bytes_since_last_index_entry = self.size - last
        for header, _ in self.batches(last):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset
        self.first_timestamp = next((h.max_timestamp for h, _ in self.batches(0) if h.max_timestamp >= 0), None)

    def close(self) -> None:
        """Close the files."""
        for handle in (self.file, self.offset_index.file, self.time_index.file):
            handle.close()

    def delete(self) -> None:
        """Remove the files; a reader that has them pinned reads on."""
        for handle in (self.file, self.offset_index.file, self.time_index.file):
            handle.delete()
