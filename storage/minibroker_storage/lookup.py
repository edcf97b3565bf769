"""From a time to an offset (ListOffsets: KIP-79, KIP-734).

A look-up can be long: a batch may hold millions of records, and headers of a log that others have written may promise
times that no record has. So it is done in steps of a few milliseconds each. In between the log may grow and lose
segments.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import CODEC_MASK, MAGIC_V2, RECORD_BATCH_OVERHEAD, BatchHeader
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.record_times import FIRST_FIELDS_SIZE, read_times, records_in, time_and_offset
from minibroker_protocol.steps import Steps, collect
from minibroker_storage.errors import LogClosedError
from minibroker_storage.segment import LogSegment

_HEADERS_AT_ONCE: Final = 256
_MESSAGES_AT_ONCE: Final = 1_024


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def search_by_timestamp(
    segments: Sequence[LogSegment], timestamp: int, start_offset: int
) -> Steps[TimestampOffset | None]:
    """Return the first record with a timestamp >= `timestamp` (ms) and an offset >= `start_offset`, or None.

    The first segment whose largest timestamp reaches the target has it: time index, offset index, then the headers
    from there to the first batch that reaches it, and that batch's records. Under LogAppendTime they all have its max
    timestamp; messages of format v0 have none. `segments` are those that the log has at the moment. `OSError`,
    `DecodeError` for records that cannot be read.
    """
    offset = start_offset
    while True:
        number = max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
        segment = segments[number]
        behind = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if segment.largest_timestamp.timestamp >= timestamp:
            try:
                found = yield from _search_segment(segment, timestamp, start_offset)
            except (LogClosedError, FileNotFoundError):
                if segment in segments:
                    raise
                continue  # it was removed or compacted meanwhile
            if found is not None:
                return found
        if behind is None:
            return None
        offset = behind
        yield


def _search_segment(segment: LogSegment, timestamp: int, start_offset: int) -> Steps[TimestampOffset | None]:
    headers = segment.headers_from(_search_from(segment, timestamp, start_offset))
    for number, (position, header) in enumerate(headers, 1):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _first_record(segment, position, header, timestamp, start_offset)
            if found is None:
                found = yield from search_batch(segment.batch_at(position), header, timestamp, start_offset)
            if found is not None:
                return found
            yield
        elif not number % _HEADERS_AT_ONCE:
            yield
    return None


def _first_record(
    segment: LogSegment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record of the batch at `position`, if it is the one: a moment mostly lies between two batches.

    Of the batch a few bytes are read. None where the records are compressed, or cannot be read so.
    """
    is_plain = header.magic == MAGIC_V2 and not header.attributes & CODEC_MASK and header.record_count > 0
    if not is_plain or header.base_timestamp < timestamp or header.base_offset < start_offset:
        return None
    try:
        fields = os.pread(segment.log.fd(), FIRST_FIELDS_SIZE, position + RECORD_BATCH_OVERHEAD)
        time, offset = time_and_offset(fields, header)
    except DecodeError:
        return None
    return TimestampOffset(time, offset, header.partition_leader_epoch) if time >= timestamp else None


def _search_from(segment: LogSegment, timestamp: int, start_offset: int) -> int:
    """Where the search has to begin: at the time index's entry at or below the target.

    As in Kafka's `LogSegment.findOffsetByTimestamp`. All records above the entry's timestamp lie behind its offset,
    whatever else the indexes have lost in a crash. Many batches with its timestamp may follow, which add no entries:
    those are walked over.
    """
    entry = segment.time_index.lookup(timestamp)
    return segment.offset_index.lookup(max(entry.offset, start_offset)).position


def search_batch(
    data: memoryview, header: BatchHeader, timestamp: int, start_offset: int
) -> Steps[TimestampOffset | None]:
    """The first record of a batch that has the timestamp or a later one, and the offset or a later one."""
    batch = LegacyRecordBatch(data) if header.magic < MAGIC_V2 else RecordBatch(data)
    content = b"".join((yield from collect(batch.pieces())))
    if header.magic < MAGIC_V2:
        stretches = iter([batch.read(content)])
    else:
        stretches = (
            records_in(content, header, stretch) if max(stretch.times) >= timestamp else iter(())
            for stretch in read_times(content, header)
        )
    for records in stretches:
        for number, record in enumerate(records, 1):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
            if not number % _MESSAGES_AT_ONCE:
                yield
        yield
    return None


def search_max_timestamp(segments: Sequence[LogSegment]) -> Steps[TimestampOffset | None]:
    """The first record that has the log's largest timestamp, None in a log without any (KIP-734). As above."""
    newest = max(segments, key=lambda segment: segment.largest_timestamp.timestamp)
    largest = newest.largest_timestamp
    found = newest.translate(largest.offset) if largest.timestamp >= 0 else None
    if found is None:
        return None
    header = newest.header_at(found.position)
    record = yield from search_batch(newest.batch_at(found.position), header, header.max_timestamp, 0)
    return record if record is not None and record.timestamp == header.max_timestamp else None
