"""What happens to a log's files when it is opened."""

import os
from typing import Final

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records import HEADER, RECORD_BATCH_OVERHEAD, compute_crc
from minibroker_protocol.records.header import make_header
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import CorruptIndexError, UnsupportedLogFormatError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_of,
)
from minibroker_storage.segment import SCAN_BYTES, LogSegment

_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
_MAGIC_V2: Final = 2
_MAGIC_OFFSET: Final = 16


def list_files(directory: str) -> tuple[list[int], list[int]]:
    """The base offsets of the segments and the offsets of the producer snapshots there are, ascending.

    What an interrupted deletion, cleaning or replacement left behind is removed.
    """
    segments: list[int] = []
    snapshots: list[int] = []
    for name in os.listdir(directory):
        offset = offset_of(name)
        if name.endswith(_LEFTOVERS):
            os.unlink(f"{directory}/{name}")
        elif offset is not None and name.endswith(LOG_SUFFIX):
            segments.append(offset)
        elif offset is not None and name.endswith(SNAPSHOT_SUFFIX):
            snapshots.append(offset)
    return sorted(segments), sorted(snapshots)


def open_segments(
    directory: str, bases: list[int], config: LogConfig, files: FilePool, *, clean: bool
) -> list[LogSegment]:
    """Open the segments with these base offsets; the last one is scanned unless the log was closed cleanly.

    UnsupportedLogFormatError for message formats v0 and v1.
    """
    segments: list[LogSegment] = []
    for number, base in enumerate(bases):
        segment = LogSegment(directory, base, config, files)
        segment.size = os.fstat(segment.file.fd()).st_size
        following = bases[number + 1] if number + 1 < len(bases) else None
        if following is None and not clean:
            rebuild(segment)
        else:
            _load(segment, following)
        segments.append(segment)
    return segments


def rebuild(segment: LogSegment) -> None:
    """Read the whole segment, end it before its first batch that is cut or damaged, and make its indexes anew."""
    segment.offset_index.clear()
    segment.time_index.clear()
    fd = segment.file.fd()
    size = segment.size
    position, next_offset = 0, segment.base_offset
    window, start = memoryview(b""), 0
    while position + RECORD_BATCH_OVERHEAD <= size:
        at = position - start
        needed = RECORD_BATCH_OVERHEAD
        if at + needed <= len(window):
            length = int.from_bytes(window[at + 8 : at + 12], "big", signed=True)
            needed = max(needed, length + 12)
        if at + needed > len(window):
            if position + needed > size:
                break
            if start == position and len(window) >= needed:
                break
            window, start = memoryview(os.pread(fd, max(SCAN_BYTES, needed), position)), position
            if len(window) < needed:
                break
            continue
        if window[at + _MAGIC_OFFSET] != _MAGIC_V2:
            if position == 0 and window[at + _MAGIC_OFFSET] in {0, 1}:
                raise UnsupportedLogFormatError(f"{segment.file.path}: message format v{window[at + _MAGIC_OFFSET]}")
            break
        header = make_header(HEADER.unpack_from(window, at))
        batch = window[at : at + needed]
        if length + 12 < RECORD_BATCH_OVERHEAD or header.base_offset < next_offset or header.last_offset_delta < 0:
            break
        if compute_crc(batch) != header.crc:
            break
        segment.note(position, len(batch), header.last_offset, header.max_timestamp)
        next_offset = header.last_offset + 1
        position += len(batch)
    if position < size:
        os.ftruncate(fd, position)
        segment.size = position
    segment.offset_index.commit()
    segment.time_index.commit()


def _load(segment: LogSegment, following: int | None) -> None:
    """Take over a segment and its indexes as they are; indexes that are missing or make no sense are made anew."""
    try:
        for index in (segment.offset_index, segment.time_index):
            index.load()
            index.sanity_check(segment.size, following)
        if segment.size and not segment.time_index.entries:
            raise CorruptIndexError(f"{segment.time_index.file.path}: no entry for {segment.size} bytes of log")
    except (CorruptIndexError, DecodeError):
        rebuild(segment)
        if following is not None:
            segment.seal()
    else:
        segment.restore()
        if following is None:
            segment.offset_index.preallocate()
            segment.time_index.preallocate()
