"""Reads a segment's three indexes, and checks two of them against the log like Kafka's DumpLogSegments.

A broker writes a batch to the log before its index entries. An index is therefore read before the log, so that even
in an active segment each entry's batch is found.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from struct import Struct
from typing import Any, Final

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import (
    LOG_OVERHEAD,
    MIN_MESSAGE_LENGTH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    read_entry_header,
)
from minibroker_storage.dump.events import (
    AbortedTxnFound,
    Event,
    IndexedOffsetNotFound,
    IndexEmpty,
    IndexSane,
    OffsetEntryFound,
    OffsetMismatch,
    Problem,
    TimeEntryFound,
    TimestampMismatch,
    TimestampOutOfOrder,
)
from minibroker_storage.dump.files import DumpFile, DumpOptions
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.files import FileHandle, FilePool
from minibroker_storage.index_file import IndexFile
from minibroker_storage.layout import INDEX_SUFFIX, LOG_SUFFIX
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.portability import os
from minibroker_storage.time_index import TimeIndex
from minibroker_storage.transaction_index import ENTRY, decode_all

_READ_BYTES: Final = 1 << 16
_MAX_OPEN_FILES: Final = 4


class IndexedLog:
    """The log file of an index, for random reads.

    `size` is updated when a read needs more of a growing file.

    Raises:
        OSError: the log file does not exist.
    """

    def __init__(self, file: DumpFile) -> None:
        self._fd = os.open(file.sibling(LOG_SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def header(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`.

        Raises:
            DecodeError: there is no complete batch.
        """
        data = os.pread(self._fd, RECORD_BATCH_OVERHEAD, position) if position >= 0 else b""
        if len(data) < LOG_OVERHEAD + MIN_MESSAGE_LENGTH:
            raise DecodeError(f"position {position}, but the log has {self.size} bytes")
        try:
            header = read_entry_header(data)
        except DecodeError as error:
            raise DecodeError(f"position {position}, where no batch begins: {error}") from None
        if header.batch_length < MIN_MESSAGE_LENGTH or not self._has_bytes(position + header.size_in_bytes):
            raise DecodeError(f"position {position}, where no batch begins")
        return header

    def find(self, position: int, offset: int) -> tuple[int, BatchHeader] | None:
        """Return the position and header of the first batch from `position` on that reaches `offset`.

        Returns None if there is no such batch or a batch before it cannot be read.
        """
        try:
            while self._has_bytes(position + 1):
                header = self.header(position)
                if header.last_offset >= offset:
                    return position, header
                position += header.size_in_bytes
        except DecodeError:
            pass
        return None

    def _has_bytes(self, end: int) -> bool:
        """Return whether the log has at least `end` bytes now."""
        if end > self.size:
            self.size = os.fstat(self._fd).st_size
        return end <= self.size

    def max_timestamp(self, position: int, header: BatchHeader) -> int:
        """Return the largest timestamp of the records in the batch at `position`.

        Raises:
            DecodeError: the records cannot be decoded.
        """
        data = os.pread(self._fd, header.size_in_bytes, position)
        return max((record.timestamp for batch in iter_batches(data) for record in batch), default=NO_TIMESTAMP)


def offset_index_events(file: DumpFile, options: DumpOptions) -> Iterator[Event]:
    """Yield an `OffsetEntryFound` for each entry, and an `OffsetMismatch` for each entry that contradicts the log."""
    with open(file.path, "rb", buffering=0) as index:
        size = os.fstat(index.fileno()).st_size
        entries = _read_entries(index.read, OffsetIndex.ENTRY, size)
        first = next(entries, None)
        with closing(IndexedLog(file)) as log:
            if first is None:
                yield IndexEmpty(file)
            elif options.index_sanity_check:
                yield _check_sanity(file, OffsetIndex, log.size)
                return
            else:
                for slot, entry in enumerate(chain([first], entries)):
                    yield from _check_offset(file, slot, entry, log, options)
            yield from _check_partial_entry(file, OffsetIndex.ENTRY, size)


def _check_offset(
    file: DumpFile, slot: int, entry: tuple[int, ...], log: IndexedLog, options: DumpOptions
) -> list[Event]:
    relative, position = entry
    offset = relative + (file.base_offset or 0)
    events: list[Event] = [] if options.verify_index_only else [OffsetEntryFound(offset, position)]
    try:
        last_offset = log.header(position).last_offset
    except DecodeError as error:
        reason = f"the entry of offset {offset} points to {error}"
        return [Problem(file, slot * OffsetIndex.ENTRY.size, reason), *events]
    return events if last_offset == offset else [OffsetMismatch(file, offset, last_offset), *events]


def time_index_events(file: DumpFile, options: DumpOptions) -> Iterator[Event]:
    """Yield a `TimeEntryFound` for each entry, and events for entries that contradict the log."""
    handle = FilePool(_MAX_OPEN_FILES).handle(file.sibling(INDEX_SUFFIX), os.O_RDONLY)
    with open(file.path, "rb", buffering=0) as index, closing(IndexedLog(file)) as log, closing(handle):
        if options.index_sanity_check:
            yield _check_sanity(file, TimeIndex, log.size)
            return
        size = os.fstat(index.fileno()).st_size
        lookup = _make_offset_lookup(file, handle)
        previous = NO_TIMESTAMP
        for timestamp, relative in _read_entries(index.read, TimeIndex.ENTRY, size):
            offset = relative + (file.base_offset or 0)
            yield from _check_time(file, TimeEntryFound(timestamp, offset), previous, log, lookup(offset))
            if not options.verify_index_only:
                yield TimeEntryFound(timestamp, offset)
            previous = timestamp
        yield from _check_partial_entry(file, TimeIndex.ENTRY, size)


def _check_time(file: DumpFile, entry: TimeEntryFound, previous: int, log: IndexedLog, position: int) -> list[Event]:
    timestamp, offset = entry
    batch = log.find(position, offset)
    if batch is None:
        return [IndexedOffsetNotFound(file, offset, -1)]
    start, header = batch
    if header.last_offset != offset:
        return [IndexedOffsetNotFound(file, offset, header.last_offset)]
    try:
        max_timestamp = log.max_timestamp(start, header)
    except DecodeError as error:
        reason = f"the batch of offset {offset}, at byte {start} of the log, cannot be read: {error}"
        return [Problem(file, None, reason)]
    events: list[Event] = []
    if max_timestamp != timestamp:
        events.append(TimestampMismatch(file, timestamp, max_timestamp))
    if previous >= timestamp:
        events.append(TimestampOutOfOrder(file, timestamp, previous))
    return events


def _make_offset_lookup(file: DumpFile, handle: FileHandle) -> Callable[[int], int]:
    """Return a function that looks up an offset in the offset index and returns a position at or before its batch.

    If the index is unreadable, the position is the start of the log.
    """
    try:
        index = OffsetIndex(handle, file.base_offset or 0, 0)
        index.load()
    except (CorruptIndexError, OSError):
        return lambda _: 0
    return lambda offset: index.lookup(offset).position


def _check_sanity(file: DumpFile, kind: type[IndexFile[Any]], log_size: int) -> Event:
    """Check an index as a starting broker does, and return the result."""
    with closing(FilePool(_MAX_OPEN_FILES).handle(file.path, os.O_RDONLY)) as handle:
        index = kind(handle, file.base_offset or 0, 0)
        try:
            index.load()
            index.sanity_check(log_size, None)
        except CorruptIndexError as error:
            return Problem(file, None, str(error).removeprefix(f"{file.path}: "))
    return IndexSane(file)


def _check_partial_entry(file: DumpFile, layout: Struct, size: int) -> list[Event]:
    extra = size % layout.size
    return [Problem(file, size - extra, f"{extra} of an entry's {layout.size} bytes")] if extra else []


def _read_entries(read: Callable[[int], bytes | None], layout: Struct, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the entries of an index file of `size` bytes, up to the zeros of a preallocated file."""
    is_first = True
    buffered = b""
    while chunk := read(_READ_BYTES):
        buffered += chunk
        complete_bytes = len(buffered) - len(buffered) % layout.size
        for entry in layout.iter_unpack(buffered[:complete_bytes]):
            relative = entry[0] if layout is OffsetIndex.ENTRY else entry[1]
            if not relative and (not is_first or (size > layout.size and not any(entry))):
                return
            yield entry
            is_first = False
        buffered = buffered[complete_bytes:]


def txn_index_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return an `AbortedTxnFound` for each entry."""
    events: list[Event] = []
    position = 0
    try:
        with open(file.path, "rb") as index:
            while data := index.read(ENTRY.size):
                events += [AbortedTxnFound(transaction) for transaction in decode_all(data)]
                position += len(data)
    except CorruptIndexError as error:
        events.append(Problem(file, position, str(error)))
    return events
