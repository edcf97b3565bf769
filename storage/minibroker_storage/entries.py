"""Walking over the entries of a log file, of any message format, without trusting them.

Two walks: by the heads, for a look-up behind an index entry; and whole entries with their checksums, for recovery.
"""

import os
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

WALK_WINDOW_BYTES: Final = 8192
"""The bytes that a search behind an index entry reads at once: an index interval and some small batches."""
SCAN_CHUNK_BYTES: Final = 4 * 1024 * 1024
MIN_ENTRY_BYTES: Final = LOG_OVERHEAD + MIN_MESSAGE_LENGTH
"""The smallest entry of all, a v0 message with neither key nor value."""

# A search needs base offset, length and last offset delta only; decoding the whole header would double its time.
_WALK: Final = Struct(">qi11xi")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_MIN_LENGTHS: Final = (MIN_MESSAGE_LENGTH, MIN_MESSAGE_LENGTH_V1, RECORD_BATCH_OVERHEAD - LOG_OVERHEAD)

# Places in the tuple that HEADER unpacks to: in the scan, naming the fields would cost more than reading them.
BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 1
LEADER_EPOCH: Final = 2
MAGIC: Final = 3
CRC: Final = 4
LAST_OFFSET_DELTA: Final = 6
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9


class EntryPosition(NamedTuple):
    """Where an entry lies in its log file, and its size, in bytes. A v0 or v1 entry's base offset is its last one."""

    base_offset: int
    position: int
    size: int
    last_offset: int


def find_entry(fd: int, position: int, size: int, offset: int, path: str) -> EntryPosition | None:
    """The first entry from `position` on whose last offset is at or above `offset`, None when there is none.

    By the last offset, because the header of a wrapper (v0, v1) has no other: its base offset is within.

    `size` is the file's. Usually one read. As in Kafka's `FileLogInputStream`, only lengths are checked, and an entry
    that does not end within the file is none.

    Raises:
        OSError: the file cannot be read.
        CorruptBatchError: an entry is shorter than its head.
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
                # In a v0 or v1 entry the delta is whatever its key or value has there.
                last_offset = base_offset + delta if window[at + MAGIC_AT] >= MAGIC_V2 else base_offset
                if last_offset >= offset:
                    is_whole = length + LOG_OVERHEAD <= size - position - at
                    found = EntryPosition(base_offset, position + at, length + LOG_OVERHEAD, last_offset)
                    return found if is_whole else None
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


def batch_that_holds(fd: int, position: int, offset: int) -> EntryPosition | None:
    """The v2 batch at `position`, where one begins, if `offset` is in it. Reads its head only. `OSError`."""
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
    """Position and header of each entry from `position` to `size`. `OSError`, `StorageError` for bytes that are none.

    Reads windows, and of entries larger than a window their heads only.
    """
    while position < size:
        window = os.pread(fd, min(window_bytes, size - position), position)
        at, end = 0, len(window)
        left = size - position
        while end - at >= MIN_ENTRY_BYTES:
            try:
                header = read_entry_header(window, at)
            except DecodeError:
                if at:
                    break  # the header goes on behind the window
                raise StorageError(f"{path}: no batch at byte {position}") from None
            length = header.batch_length
            if not _MIN_LENGTHS[header.magic] <= length <= left - at - LOG_OVERHEAD:
                raise StorageError(f"{path}: no batch at byte {position + at}")
            yield position + at, header
            at += LOG_OVERHEAD + length
        if not at:
            raise StorageError(f"{path}: no batch at byte {position}")
        position += at


def scan(fd: int, size: int, position: int = 0) -> Iterator[tuple[memoryview, tuple[int, ...]]]:
    """Bytes and header fields of each good entry from `position` on, until the first one that is not.

    Good is a whole entry with a right checksum. The fields are those of `BatchHeader`, in its order. Reads big chunks.
    `OSError`.
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
            behind = at + LOG_OVERHEAD + length
            if behind > end:
                needed = behind - at  # more than is left of the file ends the scan: that entry is torn
                break
            entry = chunk[at:behind]
            if fields and fields[MAGIC] == MAGIC_V2 and length >= _MIN_LENGTHS[MAGIC_V2]:
                if fields[LAST_OFFSET_DELTA] < 0 or compute_crc(entry) != fields[CRC]:
                    return
            else:
                fields = _checked_message(entry)
                if not fields:
                    return
            yield entry, fields
            at = behind
        position += at
        if end < requested:
            return  # another process cuts the file meanwhile


def _checked_message(entry: memoryview) -> tuple[int, ...]:
    """The header of a whole v0 or v1 message with a right checksum, empty when the bytes are none."""
    if len(entry) < MIN_ENTRY_BYTES or entry[MAGIC_AT] >= MAGIC_V2:
        return ()
    try:
        header = read_entry_header(entry)
    except DecodeError:
        return ()
    return header if zlib.crc32(entry[MAGIC_AT:]) == header.crc else ()
