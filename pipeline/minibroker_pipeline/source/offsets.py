"""The starting and ending offsets of a query in each log, derived from its options."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from minibroker_pipeline.decode import DecodeReport, DecodeRequest, decode, scan_headers
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.options import EARLIEST, LATEST, NoOffset, PartitionNumbers, Position, SourceOptions
from minibroker_pipeline.source.planning import LogRange, OffsetInterval, QueryLog
from minibroker_pipeline.source.reading import DataLossError
from minibroker_storage.data_directory.names import TopicPartition

_CHUNK_BYTES: Final = 256 * 1024
_UNSPLIT_BYTES: Final = 2**62

Logs = Mapping[TopicPartition, QueryLog]
Offsets = dict[TopicPartition, int]


def starting_offsets(options: SourceOptions, logs: Logs, default: int) -> Offsets:
    """Return the offset at which to begin in each log.

    Raises:
        OptionError: the position omits a partition, or a log has no record with the requested timestamp or a later
            one.
    """
    return _resolve("starting", options.starting or Position(default), logs, options.no_offset)


def ending_offsets(options: SourceOptions, logs: Logs) -> Offsets:
    """Return the end offset of each log, exclusive.

    If a log has no record with the requested timestamp or a later one, the result is the end of that log.

    Raises:
        OptionError: the position omits a partition.
    """
    return _resolve("ending", options.ending or Position(LATEST), logs, "latest")


def ends_within_log(options: SourceOptions, key: TopicPartition, log: QueryLog) -> bool:
    """Return whether the options name an end offset at or before the end of the last whole entry.

    If so, damage after that entry does not matter.
    """
    end_offsets = options.ending.offsets if options.ending is not None else None
    return end_offsets is not None and 0 <= end_offsets[key[0]][key[1]] <= log.tail.log_end_offset


def _resolve(which: str, position: Position, logs: Logs, no_offset: NoOffset) -> Offsets:
    resolved: Offsets = {}
    by_time = _numbers_by_log(which, position.timestamps, logs) if position.timestamps is not None else {}
    by_offset = _numbers_by_log(which, position.offsets, logs) if position.offsets is not None else {}
    for key, log in logs.items():
        timestamp = by_time.get(key, position.timestamp)
        offset = by_offset.get(key, position.everywhere)
        if timestamp is not None:
            offset_at = offset_at_time(log, timestamp)
            if offset_at is None and no_offset == "error":
                raise OptionError(
                    f"{which}Timestamp: {log.name} has no record of {timestamp} or later"
                    " (startingOffsetsByTimestampStrategy=latest begins at its end)"
                )
            resolved[key] = log.end_offset if offset_at is None else offset_at
        elif offset == EARLIEST:
            resolved[key] = log.start_offset
        else:
            resolved[key] = log.end_offset if offset is None or offset == LATEST else offset
    return resolved


def _numbers_by_log(which: str, numbers: PartitionNumbers, logs: Logs) -> Offsets:
    """Return the number for each log.

    Raises:
        OptionError: the numbers omit a log or name a partition that is not read.
    """
    flat = {
        (topic, partition): number
        for topic, by_partition in numbers.items()
        for partition, number in by_partition.items()
    }
    missing = [log.name for key, log in logs.items() if key not in flat]
    unknown = [f"{topic}-{partition}" for topic, partition in flat if (topic, partition) not in logs]
    if missing or unknown:
        wrong = f"{missing[0]} has none" if missing else f"{unknown[0]} is not read"
        raise OptionError(f"{which}Offsets: every partition that is read needs a number: {wrong}")
    return flat


def check_bounds(logs: Logs, starts: Offsets, ends: Offsets, *, fail_on_data_loss: bool) -> Offsets:
    """Clip the starts and ends of a query to the existing logs.

    The starts are returned, and `ends` is changed in place.

    Raises:
        DataLossError: a start or an end is outside its log, and `fail_on_data_loss` is true.
    """
    checked_starts: Offsets = {}
    for key, log in logs.items():
        start, end = starts[key], ends[key]
        if start < min(log.start_offset, end) and fail_on_data_loss:
            raise DataLossError(f"{log.name} begins at offset {log.start_offset}: {start} and those behind it are gone")
        if max(start, end) > log.tail.log_end_offset and fail_on_data_loss:
            raise DataLossError(f"{log.name} ends at offset {log.tail.log_end_offset}, before {max(start, end)}")
        checked_starts[key] = max(start, log.start_offset)
        ends[key] = min(end, log.end_offset)
    return checked_starts


def offset_at_time(log: QueryLog, timestamp: int) -> int | None:
    """Return the offset of the first record with this timestamp or a later one, or None if there is none.

    The timestamp is in milliseconds. Like ListOffsets, this searches in log order, even if the timestamps are not
    in order.

    Raises:
        OSError: a file cannot be read.
    """
    interval = OffsetInterval(log.start_offset, log.end_offset, timestamp)
    for log_range in log.ranges(interval, _UNSPLIT_BYTES):
        with log_range.filesystem.open(log_range.path) as file:
            position, size = log_range.position, _CHUNK_BYTES
            while position < log_range.end_position:
                data = memoryview(file.read_at(position, min(size, log_range.end_position - position)))
                headers = scan_headers(data)
                if not len(headers):
                    if len(data) >= log_range.end_position - position:
                        break
                    size *= 2
                    continue
                reached = (headers["max_timestamp"] >= timestamp) & (headers["last_offset"] >= log_range.first_offset)
                for line in np.flatnonzero(reached).tolist():
                    start = int(headers["position"][line])
                    entry = data[start : start + int(headers["size"][line])]
                    offset = _find_first_at_time(entry, log_range, timestamp)
                    if offset is not None:
                        return offset
                position += int(headers["position"][-1] + headers["size"][-1])
    return None


def _find_first_at_time(entry: memoryview, log_range: LogRange, timestamp: int) -> int | None:
    columns, first, end = ("offset", "timestamp"), log_range.first_offset, log_range.end_offset
    for batch in decode(entry, DecodeRequest(columns=columns, first_offset=first, end_offset=end, engine="numpy")):
        times = batch.column(1).cast("int64").to_pylist()
        for offset, time in zip(batch.column(0).to_pylist(), times, strict=True):
            if time is not None and time >= timestamp * 1000:
                return int(offset)
    return None


def find_first_row(log: QueryLog, first: int, end: int, options: SourceOptions) -> int | None:
    """Return the first offset in [first, end) that yields a row, or None if there is none.

    Gaps, transaction markers and aborted records yield no rows. Little more
    is read than the entries before the row.

    Raises:
        DamagedLogError: an entry is damaged, in failfast mode.
        OSError: a file cannot be read.
    """
    for log_range in log.ranges(OffsetInterval(first, end), _UNSPLIT_BYTES):
        request = replace(log_range.request(options, ("offset",)), engine="numpy", chunk_bytes=1)
        with log_range.filesystem.open(log_range.path) as file:
            position, size = log_range.position, _CHUNK_BYTES
            while position < log_range.end_position:
                data = file.read_at(position, min(size, log_range.end_position - position))
                report = DecodeReport()
                for batch in decode(data, request, report):
                    return int(batch.column(0)[0].as_py())
                if not report.consumed and len(data) >= log_range.end_position - position:
                    break
                size = size if report.consumed else size * 2
                position += report.consumed
    return None


def limit_ends(logs: Logs, starts: Offsets, ends: Offsets, limit: int, options: SourceOptions) -> Offsets:
    """Return end offsets that leave about `limit` offsets to read, or fewer.

    The limit is divided among the partitions in proportion to their unread offsets.

    This implements the connector's `maxOffsetsPerTrigger`, except that counting begins at the first existing
    record. Gaps left by compaction and transactions are therefore skipped immediately. Each partition with records
    gets at least one offset.
    """
    firsts: Offsets = {}
    for key, end in ends.items():
        if starts[key] < end:
            first = find_first_row(logs[key], max(starts[key], logs[key].start_offset), end, options)
            firsts[key] = end if first is None else first
    sizes = {key: ends[key] - first for key, first in firsts.items()}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    shares = {key: max(limit * size // total, 1) for key, size in sizes.items()}
    return ends | {key: min(ends[key], first + shares[key]) for key, first in firsts.items()}
