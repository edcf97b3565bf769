"""The segment files that the cleaner reads and writes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.header import BatchHeader, make_header
from minibroker_storage.cleaner.batch_filter import RetainedEntry
from minibroker_storage.cleaner.plan import CleaningAbortedError, CleaningPlan, SegmentToClean
from minibroker_storage.entries import scan
from minibroker_storage.files import pwritev_all
from minibroker_storage.index_writer import BufferedIndexWriter
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from minibroker_storage.portability import os
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn

PROGRESS_BYTES: Final = 1024 * 1024
WRITE_BYTES: Final = 1024 * 1024
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def _open_source(directory_fd: int, segment: SegmentToClean) -> int:
    """Open a log file named by the plan.

    Raises:
        CleaningAbortedError: the file was removed or replaced.
    """
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


def read_entries(
    directory_fd: int, segment: SegmentToClean, on_progress: Callable[[int], None]
) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield the bytes and header of each entry in a segment's log, in any format.

    All checksums are verified because the cleaner writes new ones, which would hide corruption.

    Args:
        directory_fd: the partition's directory.
        segment: the segment to read.
        on_progress: called about once per megabyte with the number of bytes read.

    Raises:
        CleaningAbortedError: the file was removed or replaced after the plan was made.
        CorruptRecordError: an entry is incomplete or its checksum is wrong.
        OSError: the file cannot be read.
    """
    fd = _open_source(directory_fd, segment)
    position = reported = 0
    try:
        for entry, fields in scan(fd, segment.size):
            yield bytes(entry), make_header(fields)
            position += len(entry)
            if position - reported >= PROGRESS_BYTES:
                on_progress(position - reported)
                reported = position
    finally:
        os.close(fd)
    on_progress(position - reported)
    if position < segment.size:
        raise CorruptRecordError(f"byte {position} of {segment.size}: no entry with a right checksum")


class CleanedSegment(BufferedIndexWriter):
    """A segment under construction: `<base>.log.cleaned` and its indexes.

    Recovery ignores and removes `.cleaned` files after a crash. `close` removes them if `finish` did not complete.
    """

    def __init__(
        self, directory_fd: int, base_offset: int, plan: CleaningPlan, on_progress: Callable[[int], None]
    ) -> None:
        super().__init__(
            base_offset, index_interval_bytes=plan.index_interval_bytes, segment_index_bytes=plan.segment_index_bytes
        )
        self._on_progress = on_progress
        self._directory_fd = directory_fd
        self._written = 0
        self._unwritten: list[bytes | bytearray] = []
        self._fd = os.open(self._file_name(LOG_SUFFIX), _CREATE_FLAGS, 0o644, dir_fd=directory_fd)
        self._complete = False

    def _file_name(self, suffix: str) -> str:
        return file_name(self.base_offset, suffix + CLEANED_SUFFIX)

    def append(self, entry: RetainedEntry) -> None:
        """Add an entry. Entries are buffered and written in blocks of about a megabyte.

        Raises:
            OSError: buffered entries cannot be written.
        """
        data, last_offset, max_timestamp = entry
        self.add_batch(len(data), last_offset, max_timestamp, last_offset)
        self._unwritten.append(data)
        if self.end - self._written >= WRITE_BYTES:
            self._write_entries()

    def _write_entries(self) -> None:
        if self._unwritten:
            self._on_progress(self.end - self._written)
            pwritev_all(self._fd, self._unwritten, self._written)
            self._unwritten.clear()
            self._written = self.end

    def finish(self, transactions: Sequence[AbortedTxn], modified_ns: int) -> None:
        """Write the remaining entries and the indexes, and sync all files.

        Args:
            transactions: the content of the transaction index.
            modified_ns: the modification time of the newest source segment, given to every file.

        Raises:
            OSError: a file cannot be written.
        """
        self._write_entries()
        self.close_indexes()
        os.utime(self._fd, ns=(modified_ns, modified_ns))
        os.fsync(self._fd)
        self._write_index(INDEX_SUFFIX, self.offset_entries, modified_ns)
        self._write_index(TIME_INDEX_SUFFIX, self.time_entries, modified_ns)
        if transactions:
            self._write_index(TXN_INDEX_SUFFIX, b"".join(map(encode_aborted_txn, transactions)), modified_ns)
        self._complete = True

    def _write_index(self, suffix: str, data: bytes | bytearray, modified_ns: int) -> None:
        fd = os.open(self._file_name(suffix), _CREATE_FLAGS, 0o644, dir_fd=self._directory_fd)
        try:
            pwritev_all(fd, [data], 0)
            os.utime(fd, ns=(modified_ns, modified_ns))
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Close the log file. Remove all files of the segment if `finish` did not complete."""
        os.close(self._fd)
        if not self._complete:
            for suffix in SEGMENT_SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._file_name(suffix), dir_fd=self._directory_fd)
