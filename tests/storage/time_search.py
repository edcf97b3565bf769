"""Searches by timestamp, with all steps run without a pause."""

from minibroker_protocol.steps import drain
from minibroker_storage.log import Log
from minibroker_storage.lookup import TimestampOffset, search_by_timestamp, search_max_timestamp


def find_by_timestamp(log: Log, timestamp: int) -> TimestampOffset | None:
    return drain(search_by_timestamp(log.segments, timestamp, log.log_start_offset))


def offset_of_time(log: Log, timestamp: int) -> int:
    """Return the offset of a record that must be found."""
    record = find_by_timestamp(log, timestamp)
    assert record is not None
    return record.offset


def find_max_timestamp(log: Log) -> TimestampOffset | None:
    return drain(search_max_timestamp(log.segments))
