"""Searches for the offset of a timestamp (ListOffsets: KIP-79, KIP-734).

A search can take long: a batch may have millions of records, and the max timestamp in a header written by another
program may be larger than all of its records' timestamps. A search is therefore split into steps of a few
milliseconds. Between steps, the log can grow and lose segments.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_V2, RECORD_BATCH_OVERHEAD, BatchHeader
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.record_times import MAX_FIRST_FIELDS_BYTES, read_times, records_in, time_and_offset
from minibroker_protocol.steps import Steps, collect
from minibroker_storage.errors import LogClosedError
from minibroker_storage.portability import os
from minibroker_storage.segment import LogSegment

_HEADERS_PER_STEP: Final = 256
_MESSAGES_PER_STEP: Final = 1_024


class TimestampOffset(NamedTuple):
    """A record found by timestamp: its timestamp (ms), its offset and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def search_by_timestamp(
    segments: Sequence[LogSegment], timestamp: int, start_offset: int
) -> Steps[TimestampOffset | None]:
    """Return the first record with at least this timestamp and at least `start_offset`, or None if no record matches.

    The search finds the first segment whose largest timestamp reaches `timestamp`. From the position given by its
    time index and offset index, it reads headers up to the first batch whose max timestamp reaches `timestamp`, and
    then that batch's records. Under LogAppendTime, all records of a batch have its max timestamp. Messages in
    format v0 have no timestamp.

    Args:
        segments: the live list of the log's segments, which may change between steps.
        timestamp: the target timestamp in ms.
        start_offset: the smallest offset to return.

    Raises:
        OSError: a file cannot be read.
        DecodeError: records cannot be decoded.
    """
    offset = start_offset
    while True:
        index = max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
        segment = segments[index]
        next_base_offset = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if segment.largest_timestamp.timestamp >= timestamp:
            try:
                record = yield from _search_segment(segment, timestamp, start_offset)
            except (LogClosedError, FileNotFoundError):
                if segment in segments:
                    raise
                continue  # The segment was removed or compacted in the meantime.
            if record is not None:
                return record
        if next_base_offset is None:
            return None
        offset = next_base_offset
        yield


def _search_segment(segment: LogSegment, timestamp: int, start_offset: int) -> Steps[TimestampOffset | None]:
    headers = segment.headers_from(_find_start(segment, timestamp, start_offset))
    for count, (position, header) in enumerate(headers, 1):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            record = _match_first_record(segment, position, header, timestamp, start_offset)
            if record is None:
                record = yield from search_batch(segment.batch_at(position), header, timestamp, start_offset)
            if record is not None:
                return record
            yield
        elif not count % _HEADERS_PER_STEP:
            yield
    return None


def _match_first_record(
    segment: LogSegment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """Return the first record of the batch at `position`, or None if it does not match.

    Most timestamps fall between two batches, so the first record usually matches. Only a few bytes are read. The
    result is also None if the records are compressed or cannot be decoded from these bytes.
    """
    is_plain = header.magic == MAGIC_V2 and not header.attributes & CODEC_MASK and header.record_count > 0
    if not is_plain or header.base_timestamp < timestamp or header.base_offset < start_offset:
        return None
    try:
        fields = os.pread(segment.log.fd(), MAX_FIRST_FIELDS_BYTES, position + RECORD_BATCH_OVERHEAD)
        time, offset = time_and_offset(fields, header)
    except DecodeError:
        return None
    return TimestampOffset(time, offset, header.partition_leader_epoch) if time >= timestamp else None


def _find_start(segment: LogSegment, timestamp: int, start_offset: int) -> int:
    """Return the position at which the search begins, found with the last time index entry at or below the target.

    As in Kafka's `LogSegment.findOffsetByTimestamp`, all records above the entry's timestamp follow its offset, even if
    the indexes lost other entries in a crash. Many batches with the same timestamp may follow. They add no entries, so
    the search reads through them.
    """
    entry = segment.time_index.lookup(timestamp)
    return segment.offset_index.lookup(max(entry.offset, start_offset)).position


def search_batch(
    data: memoryview, header: BatchHeader, timestamp: int, start_offset: int
) -> Steps[TimestampOffset | None]:
    """Return the first record of a batch with at least the given timestamp and offset, or None if no record matches."""
    batch = LegacyRecordBatch(data) if header.magic < MAGIC_V2 else RecordBatch(data)
    content = b"".join((yield from collect(batch.chunks())))
    if header.magic < MAGIC_V2:
        record_groups = iter([batch.read(content)])
    else:
        record_groups = (
            records_in(content, header, group) if max(group.times) >= timestamp else iter(())
            for group in read_times(content, header)
        )
    for records in record_groups:
        for count, record in enumerate(records, 1):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
            if not count % _MESSAGES_PER_STEP:
                yield
        yield
    return None


def search_max_timestamp(segments: Sequence[LogSegment]) -> Steps[TimestampOffset | None]:
    """Return the first record with the log's largest timestamp, or None if no record has a timestamp (KIP-734).

    Raises:
        OSError: a file cannot be read.
        DecodeError: records cannot be decoded.
    """
    newest = max(segments, key=lambda segment: segment.largest_timestamp.timestamp)
    largest = newest.largest_timestamp
    entry = newest.translate(largest.offset) if largest.timestamp >= 0 else None
    if entry is None:
        return None
    header = newest.header_at(entry.position)
    record = yield from search_batch(newest.batch_at(entry.position), header, header.max_timestamp, 0)
    return record if record is not None and record.timestamp == header.max_timestamp else None
