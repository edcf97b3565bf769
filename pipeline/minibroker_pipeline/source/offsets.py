"""Starting and ending offsets of a query, by log, from its options."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from minibroker_pipeline.decode import DecodeReport, DecodeRequest, decode, scan_headers
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.options import (
    EARLIEST,
    LATEST,
    NoOffset,
    PartitionNumbers,
    Position,
    SourceOptions,
)
from minibroker_pipeline.source.planning import LogRange, OffsetInterval, QueryLog
from minibroker_pipeline.source.reading import DataLossError
from minibroker_storage.data_directory.names import TopicPartition

_CHUNK_BYTES: Final = 256 * 1024
_WHOLE: Final = 2**62

Logs = Mapping[TopicPartition, QueryLog]
Offsets = dict[TopicPartition, int]


def starting_offsets(options: SourceOptions, logs: Logs, default: int) -> Offsets:
    """Where to begin. `OptionError` when partitions are not named, or have no record of the time or later."""
    return _resolve("starting", options.starting or Position(default), logs, options.no_offset)


def ending_offsets(options: SourceOptions, logs: Logs) -> Offsets:
    """Where to end, exclusive. A time that no record has reached means the end of the log. `OptionError`."""
    return _resolve("ending", options.ending or Position(LATEST), logs, "latest")


def ends_before(options: SourceOptions, key: TopicPartition, log: QueryLog) -> bool:
    """Whether an end is named that does not lie behind the last whole entry: what follows there is of no interest."""
    named = options.ending.offsets if options.ending is not None else None
    return named is not None and 0 <= named[key[0]][key[1]] <= log.tail.log_end_offset


def _resolve(which: str, position: Position, logs: Logs, no_offset: NoOffset) -> Offsets:
    resolved: Offsets = {}
    by_time = _for_each(which, position.timestamps, logs) if position.timestamps is not None else {}
    by_offset = _for_each(which, position.offsets, logs) if position.offsets is not None else {}
    for key, log in logs.items():
        timestamp = by_time.get(key, position.timestamp)
        offset = by_offset.get(key, position.everywhere)
        if timestamp is not None:
            found = offset_at_time(log, timestamp)
            if found is None and no_offset == "error":
                raise OptionError(
                    f"{which}Timestamp: {log.name} has no record of {timestamp} or later"
                    " (startingOffsetsByTimestampStrategy=latest begins at its end)"
                )
            resolved[key] = log.end_offset if found is None else found
        elif offset == EARLIEST:
            resolved[key] = log.start_offset
        else:
            resolved[key] = log.end_offset if offset is None or offset == LATEST else offset
    return resolved


def _for_each(which: str, numbers: PartitionNumbers, logs: Logs) -> Offsets:
    """A number for each log. `OptionError` unless all logs are named, and nothing else."""
    flat = {(topic, partition): number for topic, each in numbers.items() for partition, number in each.items()}
    missing = [log.name for key, log in logs.items() if key not in flat]
    unknown = [f"{topic}-{partition}" for topic, partition in flat if (topic, partition) not in logs]
    if missing or unknown:
        wrong = f"{missing[0]} has none" if missing else f"{unknown[0]} is not read"
        raise OptionError(f"{which}Offsets: every partition that is read needs a number: {wrong}")
    return flat


def check_bounds(logs: Logs, starts: Offsets, ends: Offsets, *, fail_on_data_loss: bool) -> Offsets:
    """Starts and ends that lie within the logs; returns the starts, and changes `ends`. `DataLossError`."""
    kept: Offsets = {}
    for key, log in logs.items():
        start, end = starts[key], ends[key]
        if start < min(log.start_offset, end) and fail_on_data_loss:
            raise DataLossError(f"{log.name} begins at offset {log.start_offset}: {start} and those behind it are gone")
        if max(start, end) > log.tail.log_end_offset and fail_on_data_loss:
            raise DataLossError(f"{log.name} ends at offset {log.tail.log_end_offset}, before {max(start, end)}")
        kept[key] = max(start, log.start_offset)
        ends[key] = min(end, log.end_offset)
    return kept


def offset_at_time(log: QueryLog, timestamp: int) -> int | None:
    """The offset of the first record with this timestamp (ms) or a later one, None when there is none.

    As ListOffsets finds it: in the order of the log, whatever the order of the timestamps. `OSError`.
    """
    interval = OffsetInterval(log.start_offset, log.end_offset, timestamp)
    for one in log.ranges(interval, _WHOLE):
        with one.filesystem.open(one.path) as file:
            position, size = one.position, _CHUNK_BYTES
            while position < one.end_position:
                data = memoryview(file.read_at(position, min(size, one.end_position - position)))
                headers = scan_headers(data)
                if not len(headers):
                    if len(data) >= one.end_position - position:
                        break
                    size *= 2
                    continue
                reached = (headers["max_timestamp"] >= timestamp) & (headers["last_offset"] >= one.first_offset)
                for line in np.flatnonzero(reached).tolist():
                    start = int(headers["position"][line])
                    entry = data[start : start + int(headers["size"][line])]
                    found = _first_at_time(entry, one, timestamp)
                    if found is not None:
                        return found
                position += int(headers["position"][-1] + headers["size"][-1])
    return None


def _first_at_time(entry: memoryview, one: LogRange, timestamp: int) -> int | None:
    request = DecodeRequest(
        columns=("offset", "timestamp"), first_offset=one.first_offset, end_offset=one.end_offset, engine="numpy"
    )
    for batch in decode(entry, request):
        times = batch.column(1).cast("int64").to_pylist()
        for offset, time in zip(batch.column(0).to_pylist(), times, strict=True):
            if time is not None and time >= timestamp * 1000:
                return int(offset)
    return None


def first_row(log: QueryLog, first: int, end: int, options: SourceOptions) -> int | None:
    """The first offset in [first, end) that gives a row, None when none does: gaps, markers, aborted records.

    Reads what lies before that row, and little behind it. `DamagedLogError` under failfast, `OSError`.
    """
    for one in log.ranges(OffsetInterval(first, end), _WHOLE):
        request = DecodeRequest(
            columns=("offset",),
            first_offset=one.first_offset,
            end_offset=one.end_offset,
            isolation=options.isolation,
            aborted=one.aborted,
            include_control=options.include_control,
            verify_crc=options.verify_crc,
            mode=options.mode,
            engine="numpy",
            chunk_bytes=1,
            file=one.path,
        )
        with one.filesystem.open(one.path) as file:
            position, size = one.position, _CHUNK_BYTES
            while position < one.end_position:
                data = file.read_at(position, min(size, one.end_position - position))
                report = DecodeReport()
                for batch in decode(data, request, report):
                    return int(batch.column(0)[0].as_py())
                if not report.consumed and len(data) >= one.end_position - position:
                    break
                size = size if report.consumed else size * 2
                position += report.consumed
    return None


def limited_ends(logs: Logs, starts: Offsets, ends: Offsets, most: int, options: SourceOptions) -> Offsets:
    """Ends so that at most about `most` offsets lie between, shared out by what each partition has to give.

    As the connector's `maxOffsetsPerTrigger`, but counted from the first record that is there, so that gaps, which
    compaction and transactions leave, are passed at once. Each partition that has something gives at least one.
    """
    firsts: Offsets = {}
    for key, end in ends.items():
        if starts[key] < end:
            first = first_row(logs[key], max(starts[key], logs[key].start_offset), end, options)
            firsts[key] = end if first is None else first
    sizes = {key: ends[key] - first for key, first in firsts.items()}
    total = sum(sizes.values())
    if total <= most:
        return ends
    limited = dict(ends)
    for key, first in firsts.items():
        share = most * sizes[key] / total
        limited[key] = min(ends[key], first + (int(share) if share >= 1 else 1)) if sizes[key] else ends[key]
    return limited
