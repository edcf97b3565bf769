"""The files that a cleaning writes, and the log files that it reads."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records import NO_TIMESTAMP, BatchHeader
from minibroker_protocol.records.header import make_header
from minibroker_storage.cleaner.batch_filter import KeptEntry
from minibroker_storage.cleaner.plan import CleaningAbortedError, SegmentToClean
from minibroker_storage.entries import scan
from minibroker_storage.files import pwritev_all
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.time_index import TimeIndex
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn

PACE_BYTES: Final = 1024 * 1024
WRITE_BYTES: Final = 1024 * 1024
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def open_source(directory_fd: int, segment: SegmentToClean) -> int:
    """Open the log file that the plan means. `CleaningAbortedError` when it is gone, or another one is there."""
    name = file_name(segment.base_offset, LOG_SUFFIX)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
    except FileNotFoundError:
        raise CleaningAbortedError(f"{name}: gone since the cleaning was planned") from None
    status = os.fstat(fd)
    if (status.st_ino, status.st_size) != (segment.inode, segment.size):
        os.close(fd)
        raise CleaningAbortedError(f"{name}: another file since the cleaning was planned")
    return fd


def read_entries(fd: int, size: int, pace: Callable[[int], None]) -> Iterator[tuple[bytes, BatchHeader]]:
    """Bytes and header of each entry of a log file of any format; `pace` is told of every megabyte or so.

    A cleaning writes new checksums, which must not hide that the old ones were wrong: so all are checked.
    `CorruptRecordError` where no whole entry with a right checksum stands, `OSError`.
    """
    position = paced = 0
    for entry, fields in scan(fd, size):
        yield bytes(entry), make_header(fields)
        position += len(entry)
        if position - paced >= PACE_BYTES:
            pace(position - paced)
            paced = position
    pace(position - paced)
    if position < size:
        raise CorruptRecordError(f"byte {position} of {size}: no entry with a right checksum")


class CleanedSegment:
    """A segment under construction: `<base>.log.cleaned` and the indexes that belong to it.

    Crash rule: `.cleaned` files count for nothing; recovery removes them. `close` removes what `finish` did not
    complete.
    """

    def __init__(
        self,
        directory_fd: int,
        base_offset: int,
        *,
        index_interval_bytes: int,
        segment_index_bytes: int,
        pace: Callable[[int], None],
    ) -> None:
        self.base_offset = base_offset
        self._pace = pace
        self._directory_fd = directory_fd
        self._index_interval_bytes = index_interval_bytes
        self._max_offset_entries = segment_index_bytes // OffsetIndex.ENTRY.size
        self._max_time_entries = segment_index_bytes // TimeIndex.ENTRY.size
        #: Bytes of the entries, those that wait included.
        self.size = 0
        self._written = 0
        self._waiting: list[bytes | bytearray] = []
        self._bytes_since_index_entry = 0
        self._offset_index = bytearray()
        self._time_index = bytearray()
        self._last_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self._fd = os.open(self._name(LOG_SUFFIX), _NEW, 0o644, dir_fd=directory_fd)
        self._complete = False

    def _name(self, suffix: str) -> str:
        return file_name(self.base_offset, suffix + CLEANED_SUFFIX)

    def append(self, entry: KeptEntry) -> None:
        """Take an entry; written when many have come together. Index entries by the rule of `LogSegment.note`.

        A full index takes no more entries, which makes it only sparser. `OSError`.
        """
        data, last_offset, max_timestamp = entry
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            if len(self._offset_index) < self._max_offset_entries * OffsetIndex.ENTRY.size:
                self._offset_index += OffsetIndex.ENTRY.pack(last_offset - self.base_offset, self.size)
            self._add_time_index_entry(self._max_time_entries - 1)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += len(data)
        self._waiting.append(data)
        self.size += len(data)
        if self.size - self._written >= WRITE_BYTES:
            self._write()

    def _add_time_index_entry(self, limit: int) -> None:
        if self._max_timestamp > self._last_timestamp and len(self._time_index) < limit * TimeIndex.ENTRY.size:
            self._time_index += TimeIndex.ENTRY.pack(
                self._max_timestamp, self._offset_of_max_timestamp - self.base_offset
            )
            self._last_timestamp = self._max_timestamp

    def _write(self) -> None:
        if self._waiting:
            self._pace(self.size - self._written)
            pwritev_all(self._fd, self._waiting, self._written)
            self._waiting.clear()
            self._written = self.size

    def finish(self, transactions: Sequence[AbortedTxn], modified_ns: int) -> None:
        """Write what is left, all on disk on return, with the modification time of the newest source. `OSError`."""
        self._write()
        self._add_time_index_entry(self._max_time_entries)
        os.utime(self._fd, ns=(modified_ns, modified_ns))
        os.fsync(self._fd)
        self._write_index(INDEX_SUFFIX, self._offset_index, modified_ns)
        self._write_index(TIME_INDEX_SUFFIX, self._time_index, modified_ns)
        if transactions:
            self._write_index(TXN_INDEX_SUFFIX, b"".join(map(encode_aborted_txn, transactions)), modified_ns)
        self._complete = True

    def _write_index(self, suffix: str, data: bytes | bytearray, modified_ns: int) -> None:
        fd = os.open(self._name(suffix), _NEW, 0o644, dir_fd=self._directory_fd)
        try:
            pwritev_all(fd, [data], 0)
            os.utime(fd, ns=(modified_ns, modified_ns))
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Close the log file. Whatever `finish` has not completed is removed."""
        os.close(self._fd)
        if not self._complete:
            for suffix in SEGMENT_SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._name(suffix), dir_fd=self._directory_fd)
