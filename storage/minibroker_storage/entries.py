"""Iterates over the entries of a log file, in any message format. The file may be damaged.

A look-up starts at an index entry and reads only headers. Recovery reads complete entries and verifies their checksums.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import (
    HEADER,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    compute_crc,
    read_entry_header,
)
from minibroker_storage.errors import CorruptBatchError, StorageError
from minibroker_storage.portability import os

WALK_WINDOW_BYTES: Final = 8192
"""Bytes read at a time by a search from an index entry: enough for an index interval and some small batches."""
SCAN_CHUNK_BYTES: Final = 4 * 1024 * 1024
MIN_ENTRY_BYTES: Final = LOG_OVERHEAD + MIN_MESSAGE_LENGTH
"""Size of the smallest entry, a v0 message without key and value."""

# A search needs only the base offset, length and last offset delta. Decoding the full header would take twice as long.
_WALK: Final = Struct(">qi11xi")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_MIN_LENGTHS: Final = (MIN_MESSAGE_LENGTH, MIN_MESSAGE_LENGTH_V1, RECORD_BATCH_OVERHEAD - LOG_OVERHEAD)

# Indexes into the tuple unpacked by HEADER. In a scan, named fields would take longer than the reading itself.
BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 1
LEADER_EPOCH: Final = 2
MAGIC: Final = 3
CRC: Final = 4
LAST_OFFSET_DELTA: Final = 6
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9


class EntryPosition(NamedTuple):
    """The position and size of an entry in its log file, in bytes.

    For a v0 or v1 entry, the base offset equals the last offset.
    """

    base_offset: int
    position: int
    size: int
    last_offset: int


def find_entry(fd: int, position: int, size: int, offset: int, path: str) -> EntryPosition | None:
    """Return the first entry from `position` on whose last offset is at or above `offset`, or None if no entry matches.

    The search compares last offsets because the header of a v0 or v1 wrapper contains no other offset. It usually
    takes one read. As in Kafka's `FileLogInputStream`, only lengths are checked, and an entry that extends past the
    end of the file is ignored.

    Args:
        fd: the log file.
        position: the start of an entry.
        size: the size of the file.
        offset: the offset to find.
        path: the file's path, for error messages.

    Raises:
        OSError: the file cannot be read.
        CorruptBatchError: an entry is shorter than its header.
        StorageError: there is no entry at the position.
    """
    unpack = _WALK.unpack_from
    while position < size:
        window = os.pread(fd, min(WALK_WINDOW_BYTES, size - position), position)
        at = 0
        last = len(window) - _WALK.size
        while at <= last:
            base_offset, length, delta = unpack(window, at)
            if length < MIN_MESSAGE_LENGTH:
                raise CorruptBatchError(f"{path}: a batch of {length} bytes at byte {position + at}")
            if base_offset + delta >= offset or delta < 0:
                # In a v0 or v1 entry, `delta` consists of bytes of the key or value, so only the base offset is valid.
                last_offset = base_offset + delta if window[at + MAGIC_AT] >= MAGIC_V2 else base_offset
                if last_offset >= offset:
                    is_whole = length + LOG_OVERHEAD <= size - position - at
                    entry = EntryPosition(base_offset, position + at, length + LOG_OVERHEAD, last_offset)
                    return entry if is_whole else None
            at += length + LOG_OVERHEAD
        if not at:
            if len(window) != MIN_ENTRY_BYTES or window[MAGIC_AT] >= MAGIC_V2:
                raise StorageError(f"{path}: no batch at byte {position}")
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(window)
            if base_offset < offset:
                return None
            return EntryPosition(base_offset, position, MIN_ENTRY_BYTES, base_offset)
        position += at
    return None


def read_batch_containing(fd: int, position: int, offset: int) -> EntryPosition | None:
    """Return the v2 batch at `position` if it contains `offset`, else None. Only the header is read.

    Raises:
        OSError: the file cannot be read.
    """
    head = os.pread(fd, _WALK.size, position)
    if len(head) < _WALK.size or head[MAGIC_AT] != MAGIC_V2:
        return None
    base_offset, length, delta = _WALK.unpack(head)
    if not base_offset <= offset <= base_offset + delta or length < MIN_MESSAGE_LENGTH:
        return None
    return EntryPosition(base_offset, position, length + LOG_OVERHEAD, base_offset + delta)


def read_headers(
    fd: int, position: int, size: int, path: str, window_bytes: int = WALK_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each entry from `position` up to `size`.

    The file is read in windows. If an entry is larger than a window, only its header is read.

    Raises:
        OSError: the file cannot be read.
        StorageError: the bytes are not an entry.
    """
    while position < size:
        window = os.pread(fd, min(window_bytes, size - position), position)
        at, end = 0, len(window)
        bytes_left = size - position
        while end - at >= MIN_ENTRY_BYTES:
            try:
                header = read_entry_header(window, at)
            except DecodeError:
                if at:
                    break  # The header extends past the window.
                raise StorageError(f"{path}: no batch at byte {position}") from None
            length = header.batch_length
            if not _MIN_LENGTHS[header.magic] <= length <= bytes_left - at - LOG_OVERHEAD:
                raise StorageError(f"{path}: no batch at byte {position + at}")
            yield position + at, header
            at += LOG_OVERHEAD + length
        if not at:
            raise StorageError(f"{path}: no batch at byte {position}")
        position += at


def scan(fd: int, size: int, position: int = 0) -> Iterator[tuple[memoryview, tuple[int, ...]]]:
    """Yield the bytes and header fields of each valid entry from `position` on, and stop at the first invalid one.

    A valid entry is complete and has a correct checksum. The header fields are a tuple in the order of
    `BatchHeader`. The file is read in large chunks.

    Raises:
        OSError: the file cannot be read.
    """
    needed = 0
    unpack = HEADER.unpack_from
    while size - position >= max(needed, MIN_ENTRY_BYTES):
        requested = min(max(needed, SCAN_CHUNK_BYTES), size - position)
        chunk = memoryview(os.pread(fd, requested, position))
        at, end, needed = 0, len(chunk), 0
        while end - at >= MIN_ENTRY_BYTES:
            if end - at >= RECORD_BATCH_OVERHEAD:
                fields = unpack(chunk, at)
                length = fields[BATCH_LENGTH]
            else:
                fields = ()
                length = int.from_bytes(chunk[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True)
            entry_end = at + LOG_OVERHEAD + length
            if entry_end > end:
                # Read the whole entry next. If the file has fewer bytes, the entry is torn and the scan ends.
                needed = entry_end - at
                break
            entry = chunk[at:entry_end]
            if fields and fields[MAGIC] == MAGIC_V2 and length >= _MIN_LENGTHS[MAGIC_V2]:
                if fields[LAST_OFFSET_DELTA] < 0 or compute_crc(entry) != fields[CRC]:
                    return
            else:
                fields = _read_valid_message(entry)
                if not fields:
                    return
            yield entry, fields
            at = entry_end
        position += at
        if end < requested:
            return  # Another process has truncated the file in the meantime.


def _read_valid_message(entry: memoryview) -> tuple[int, ...]:
    """Return the header of a complete v0 or v1 message with a correct checksum, or an empty tuple."""
    if len(entry) < MIN_ENTRY_BYTES or entry[MAGIC_AT] >= MAGIC_V2:
        return ()
    try:
        header = read_entry_header(entry)
    except DecodeError:
        return ()
    return header if zlib.crc32(entry[MAGIC_AT:]) == header.crc else ()
