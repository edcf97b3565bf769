"""From a time to an offset (ListOffsets: KIP-79, KIP-734)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minibroker_protocol.records import MAGIC_V2, Batch, BatchHeader, LegacyRecordBatch, RecordBatch
from minibroker_storage.segment import LogSegment


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_by_timestamp(segments: Iterable[LogSegment], timestamp: int, start_offset: int) -> TimestampOffset | None:
    """The first record with a timestamp >= `timestamp` and an offset >= `start_offset`, None when there is none.

    The first segment whose largest timestamp reaches the target has it: time index, offset index, then the headers
    from there to the first batch that reaches it, and that batch's records. Under LogAppendTime they all have its max
    timestamp; messages of format v0 have none. `OSError`, `DecodeError` for records that cannot be read.
    """
    for segment in segments:
        if segment.largest_timestamp.timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _find_in_segment(segment: LogSegment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    for position, header in segment.headers_from(_search_from(segment, timestamp, start_offset)):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in _batch_at(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _search_from(segment: LogSegment, timestamp: int, start_offset: int) -> int:
    """Where the search has to begin: at the time index's entry at or below the target.

    As in Kafka's `LogSegment.findOffsetByTimestamp`. All records above the entry's timestamp lie behind its offset,
    whatever else the indexes have lost in a crash. Many batches with its timestamp may follow, which add no entries:
    those are walked over.
    """
    entry = segment.time_index.lookup(timestamp)
    return segment.offset_index.lookup(max(entry.offset, start_offset)).position


def _batch_at(segment: LogSegment, position: int, header: BatchHeader) -> Batch:
    data = segment.batch_at(position)
    return RecordBatch(data) if header.magic == MAGIC_V2 else LegacyRecordBatch(data)


def find_max_timestamp(segments: Sequence[LogSegment]) -> TimestampOffset | None:
    """The first record that has the log's largest timestamp, None in a log without any (KIP-734). As above."""
    newest = max(segments, key=lambda segment: segment.largest_timestamp.timestamp)
    largest = newest.largest_timestamp
    found = newest.translate(largest.offset) if largest.timestamp >= 0 else None
    if found is None:
        return None
    header = newest.header_at(found.position)
    for record in _batch_at(newest, found.position, header):
        if record.timestamp == header.max_timestamp:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
