"""From a time to an offset (ListOffsets: KIP-79, KIP-734)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minibroker_protocol.records import RecordBatch
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
    timestamp. `OSError`, `DecodeError` for records that cannot be read.
    """
    for segment in segments:
        if segment.largest_timestamp.timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _find_in_segment(segment: LogSegment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    entry = segment.time_index.lookup(timestamp)
    start = segment.offset_index.lookup(max(entry.offset, start_offset)).position
    for position, header in segment.headers_from(start):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in RecordBatch(segment.batch_at(position)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def find_max_timestamp(segments: Sequence[LogSegment]) -> TimestampOffset | None:
    """The first record that has the log's largest timestamp, None in a log without any (KIP-734). As above."""
    newest = max(segments, key=lambda segment: segment.largest_timestamp.timestamp)
    largest = newest.largest_timestamp
    found = newest.translate(largest.offset) if largest.timestamp >= 0 else None
    if found is None:
        return None
    header = newest.header_at(found.position)
    for record in RecordBatch(newest.batch_at(found.position)):
        if record.timestamp == header.max_timestamp:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
