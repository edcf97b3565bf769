"""Reads a log file in any format from its first byte to its last."""

import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from minibroker_protocol.errors import CorruptRecordError, DecodeError, UnsupportedMagicError
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.header import (
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    NO_OFFSET,
)
from minibroker_protocol.records.kafka07 import iter_messages
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_storage.dump.events import (
    BatchFound,
    Event,
    LogBegins,
    Message07Found,
    OffsetGap,
    Problem,
    Record07Found,
    RecordFound,
    TrailingBytes,
)
from minibroker_storage.dump.files import STANDARD_INPUT, DumpFile, DumpOptions, FileKind

_READ_BYTES: Final = 1 << 20
_SIZE_07: Final = 4
_MIN_MESSAGE_07: Final = 5
_SIZE_FIELDS: Final = {False: (LENGTH_AT, LOG_OVERHEAD, MIN_MESSAGE_LENGTH), True: (0, _SIZE_07, _MIN_MESSAGE_07)}
"""Start and end of the size field in an entry, and its smallest valid value: since Kafka 0.8, and in 0.7."""


class Entry(NamedTuple):
    """The bytes of a complete log entry, whose length is given by its size field, and its position in the file."""

    position: int
    data: memoryview


class Tail(NamedTuple):
    """Bytes at the end of a log that are not a complete entry. `reason` is None if the entry is merely truncated."""

    position: int
    size: int
    reason: str | None


class LogFile:
    """A log that is read once from start to end: either a pipe, or a file up to its size when reading begins.

    If that end falls inside an entry because a broker is writing the file, the file is read up to its current size.
    Iteration yields each `Entry`, followed by a `Tail` if the log ends inside an entry or with other bytes.

    Args:
        read: a function that reads up to a number of bytes.
        size_now: a function that returns the current file size, or None for a pipe.
        options: the options of the dump.
        is_07: whether the entries are in the format of Kafka 0.7.
    """

    def __init__(
        self,
        read: Callable[[int], bytes | None],
        size_now: Callable[[], int] | None,
        options: DumpOptions,
        *,
        is_07: bool,
    ) -> None:
        self._read = read
        self._size_now = size_now
        self._size = size_now() if size_now else 0
        self._is_limited = options.max_bytes is not None
        #: Remaining bytes to read, or None if unknown.
        self._left = self._size if size_now else None
        if options.max_bytes is not None:
            self._left = options.max_bytes if self._left is None else min(options.max_bytes, self._left)
        self._window = b""
        self._refill(_READ_BYTES)
        self.is_07 = is_07 or options.is_07 or looks_like_07(self._window)

    def __iter__(self) -> Iterator[Entry | Tail]:
        size_at, size_end, min_length = _SIZE_FIELDS[self.is_07]
        start = at = 0
        while True:
            window = self._window
            view = memoryview(window)
            need = size_end
            while len(window) - at >= size_end:
                length = int.from_bytes(window[at + size_at : at + size_end], "big", signed=True)
                if length < min_length:
                    reason = f"size: {length}, less than the smallest message takes"
                    yield Tail(start + at, self._count_rest(at), reason)
                    return
                need = size_end + length
                if need > len(window) - at:
                    break
                yield Entry(start + at, view[at : at + need])
                at += need
                need = size_end
            remaining = len(window) - at
            if self._is_known_to_lack(need - remaining) or not self._refill(max(need - remaining, _READ_BYTES), at):
                remaining = self._count_rest(at)
                if remaining:
                    yield Tail(start + at, remaining, None)
                return
            start += at
            at = 0

    def _is_known_to_lack(self, count: int) -> bool:
        """Return whether the log is known to have fewer than `count` more bytes."""
        if self._left is not None and count > self._left and self._size_now and not self._is_limited:
            size = self._size_now()
            self._left += max(size - self._size, 0)
            self._size = max(size, self._size)
        return self._left is not None and count > self._left

    def _refill(self, count: int, at: int = 0) -> bool:
        """Drop the bytes before `at` from the window, read `count` more bytes, and return whether any were read."""
        chunks = [self._window[at:]]
        missing = count if self._left is None else min(count, self._left)
        while missing:
            chunk = self._read(missing)
            if not chunk:
                self._left = 0
                break
            missing -= len(chunk)
            if self._left is not None:
                self._left -= len(chunk)
            chunks.append(chunk)
        self._window = b"".join(chunks)
        return len(chunks) > 1

    def _count_rest(self, at: int) -> int:
        """Return the number of bytes from position `at` in the window to the end of the log."""
        remaining = len(self._window) - at
        if self._size_now:
            return remaining + (self._left or 0)
        while self._refill(_READ_BYTES, len(self._window)):
            remaining += len(self._window)
        return remaining


@contextmanager
def open_log(file: DumpFile, options: DumpOptions) -> Generator[LogFile]:
    """Open the log in `file`, or standard input for `-`.

    Raises:
        OSError: the file cannot be opened.
    """
    is_07 = file.kind is FileKind.LOG_07
    if file.path == STANDARD_INPUT:
        yield LogFile(sys.stdin.buffer.read, None, options, is_07=is_07)
        return
    with open(file.path, "rb", buffering=0) as opened:
        is_regular = stat.S_ISREG(os.fstat(opened.fileno()).st_mode)
        size_now = (lambda: os.fstat(opened.fileno()).st_size) if is_regular else None
        yield LogFile(opened.read, size_now, options, is_07=is_07)


def looks_like_07(data: bytes) -> bool:
    """Return whether a log that begins with `data` has the format of Kafka 0.7.

    The checksum of the first message is tested. Checksums of 0.7 and of later formats cover different bytes, so a
    matching checksum identifies the format reliably. The result is False if the first message is incomplete.
    """
    try:
        newer = next(iter_batches(data), None)
        if newer is not None and crc_is_valid(newer):
            return False
    except DecodeError:
        pass
    try:
        older = next(iter_messages(data, deep=False), None)
    except DecodeError:
        return False
    return older is not None and older.is_valid


def crc_is_valid(batch: Batch) -> bool:
    """Return whether the batch's checksum is correct."""
    try:
        batch.check_crc()
    except CorruptRecordError:
        return False
    return True


def log_events(file: DumpFile, options: DumpOptions) -> Iterator[Event]:
    """Yield a `BatchFound` for each entry and, with deep iteration, a `RecordFound` for each of its records.

    For Kafka 0.7, the corresponding events are yielded. An unreadable batch yields a `Problem`, and reading
    continues with the next one.
    """
    with open_log(file, options) as log:
        if file.base_offset is not None:
            yield LogBegins(file.base_offset)
        read = _message_07_events if log.is_07 else _batch_events
        last_offset = NO_OFFSET
        for entry in log:
            if isinstance(entry, Tail):
                if entry.reason and options.max_bytes is None:
                    yield Problem(file, entry.position, entry.reason)
                if options.max_bytes is None:
                    yield TrailingBytes(file, entry.size)
                return
            try:
                for event in read(file, entry, options):
                    if isinstance(event, RecordFound):
                        offset = event.record.offset
                        if last_offset != offset - 1 and last_offset != NO_OFFSET:
                            yield OffsetGap(file, last_offset, offset)
                        last_offset = offset
                    yield event
            except DecodeError as error:
                yield Problem(file, entry.position, str(error))


def _batch_events(_file: DumpFile, entry: Entry, options: DumpOptions) -> Iterator[Event]:
    if entry.data[MAGIC_AT] > MAGIC_V2:
        raise UnsupportedMagicError(f"magic: {entry.data[MAGIC_AT]}, which no message format has")
    for batch in iter_batches(entry.data):
        header = batch.header
        is_valid = crc_is_valid(batch)
        yield BatchFound(entry.position, header, is_valid)
        if not options.deep_iteration:
            continue
        if header.magic == MAGIC_V2:
            for record in batch:
                yield RecordFound(record, header, None, None)
        elif isinstance(batch, LegacyRecordBatch) and batch.is_compressed:
            data = batch.records_data()
            for message, record in zip(iter_batches(data), batch.read(data), strict=True):
                yield RecordFound(record, header, message.header.crc, crc_is_valid(message))
        else:
            for record in batch:
                yield RecordFound(record, header, header.crc, is_valid)


def _message_07_events(file: DumpFile, entry: Entry, options: DumpOptions) -> Iterator[Event]:
    base_position = entry.position + (file.base_offset or 0)
    for message in iter_messages(entry.data, base_position=base_position, deep=False):
        yield Message07Found(message, entry.position, len(entry.data), message.is_valid)
    if options.deep_iteration:
        for message in iter_messages(entry.data, base_position=base_position):
            yield Record07Found(message, message.is_valid)
