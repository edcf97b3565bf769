"""Explains how a broker finds an offset or a time in a log, step by step, with the actual offsets and positions.

The steps come from the actual search functions. The indexes search as usual and record each window they read
(`probes`). From the position they return, the log is scanned as in `entries.find_entry` and `lookup`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from minibroker_protocol.records.header import BatchHeader
from minibroker_protocol.steps import drain
from minibroker_storage.index_file import IndexFile
from minibroker_storage.log import Log
from minibroker_storage.lookup import search_batch
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.segment import LogSegment
from minibroker_storage.time_index import TimeIndex
from minibroker_storage.views.snapshot import file_of


class Probe(NamedTuple):
    """A window of entries read by a search.

    Attributes:
        first: the first slot of the window.
        end: the slot after the last one.
        at_or_below: how many entries of the window are at or below the key.
    """

    first: int
    end: int
    at_or_below: int


class _RecordingIndex(IndexFile[Any]):
    """A copy of an index in its current state. Its `lookup` records the probes and finds no window in the cache."""

    def __init__(self, index: IndexFile[Any]) -> None:
        for name in (*IndexFile.__slots__, *type(index).__slots__):
            setattr(self, name, getattr(index, name))
        self.probes: list[Probe] = []

    def _search(self, key: int, guess: int, count_in: Callable[[Any, int], int]) -> tuple[Any, int]:
        def count_and_record(window: Any, key: int) -> int:
            count = count_in(window, key)
            end = self._first + memoryview(window).nbytes // self.ENTRY.size
            self.probes.append(Probe(self._first, end, count))
            return count

        return super()._search(key, guess, count_and_record)

    def _window(self, slot: int, max_count: int) -> Any:
        self._first = slot
        return super()._window(slot, max_count)


class RecordingOffsetIndex(_RecordingIndex, OffsetIndex):
    """An offset index that records the probes of a look-up."""


class RecordingTimeIndex(_RecordingIndex, TimeIndex):
    """A time index that records the probes of a look-up."""


_MAX_SKIPPED_SEGMENTS: Final = 20
"""Maximum number of skipped segments that get separate steps in a look-up by time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a look-up.

    Attributes:
        kind: "bounds", "segment", "passed over", "remembered", "probe", "index", "scan", "batch", "records" or
            "none".
        text: a sentence that describes the step with its numbers.
        file: the name of the file that was read, or an empty string if the data was in memory.
        start: the position of the first byte read from that file.
        end: the position after the last byte read.
        numbers: the numbers in `text`, by name.
    """

    kind: str
    text: str
    file: str = ""
    start: int = 0
    end: int = 0
    numbers: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class LookUpResult:
    """The result of a look-up.

    Attributes:
        segment: the base offset of the segment.
        position: the position of the batch in the segment's log file.
        size: the size of the batch.
        offset: the base offset of the batch or, in a look-up by time, the offset of the record.
        timestamp: the timestamp of the record, or -1 in a look-up by offset.
    """

    segment: int
    position: int
    size: int
    offset: int
    timestamp: int = -1


@dataclass(frozen=True, slots=True)
class LookUp:
    """The steps of a look-up, and its result, which is None if nothing was found."""

    steps: tuple[Step, ...]
    found: LookUpResult | None


def find_offset(log: Log, offset: int) -> LookUp:
    """Find the batch that contains an offset, or the next batch after a gap, as Fetch does.

    Transactions (KIP-98) and cleaning leave gaps.

    Raises:
        OSError: a file cannot be read.
        StorageError: the log contains bytes that are not batches.
    """
    steps: list[Step] = []
    bounds = {"offset": offset, "log_start_offset": log.log_start_offset, "log_end_offset": log.log_end_offset}
    if not log.log_start_offset <= offset < log.log_end_offset:
        place = "is the log end offset, where the next record goes" if offset == log.log_end_offset else "is outside"
        text = f"The log has the offsets {log.log_start_offset} to {log.log_end_offset - 1}: {offset} {place}."
        return LookUp((Step("bounds", text, numbers=bounds),), None)
    text = f"The log has the offsets {log.log_start_offset} to {log.log_end_offset - 1}, so it has {offset}."
    steps.append(Step("bounds", text, numbers=bounds))
    for index in range(log.segment_index(offset), len(log.segments)):
        steps.append(_describe_segment(log, index, offset))
        batch = _find_offset_in_segment(log.segments[index], offset, steps)
        if batch is not None:
            return LookUp(tuple(steps), batch)
    steps.append(Step("none", f"No batch holds {offset} or a later offset."))
    return LookUp(tuple(steps), None)


def _describe_segment(log: Log, index: int, offset: int) -> Step:
    segment = log.segments[index]
    count = len(log.segments)
    text = (
        f"Segment {index + 1} of {count} has the greatest base offset at or below {offset}: {segment.base_offset}."
        if segment.base_offset <= offset
        else f"{offset} is in a gap, so the next segment is asked: its base offset is {segment.base_offset}."
    )
    numbers = {"number": index, "segments": count, "base_offset": segment.base_offset, "size": segment.size}
    return Step("segment", text, file_of(segment), 0, segment.size, numbers)


def _find_offset_in_segment(segment: LogSegment, offset: int, steps: list[Step]) -> LookUpResult | None:
    remembered = segment.recent_position(offset)
    if remembered is not None:
        text = f"Memory has the positions of the newest batches, so {remembered} is known. The next steps find it, too."
        steps.append(Step("remembered", text, numbers={"position": remembered}))
    position = _search_offset_index(segment, offset, steps)
    skipped, size = 0, segment.size
    if position < size:
        for at, header in segment.headers_from(position, end=size):
            if header.last_offset >= offset:
                steps.append(_describe_scan(segment, position, at, skipped, f"ends below {offset}"))
                predicate = f"ends with {header.last_offset}, so {offset} is in it"
                steps.append(_describe_batch(segment, at, header, predicate))
                return LookUpResult(segment.base_offset, at, header.size_in_bytes, header.base_offset)
            skipped += 1
    steps.append(_describe_scan(segment, position, size, skipped, f"ends below {offset}"))
    return None


def _search_offset_index(segment: LogSegment, offset: int, steps: list[Step]) -> int:
    """Return the position where the scan begins, and add the steps that find it."""
    index = RecordingOffsetIndex(segment.offset_index)
    entry = index.lookup(offset)
    name, size = _add_probes(index, "offset", offset, steps)
    if not entry.position:
        text = f"The offset index has no entry at or below {offset}: the search begins at the start of the file."
        steps.append(Step("index", text, name, numbers={"position": 0, "offset": entry.offset}))
        return 0
    text = f"The last entry at or below {offset} is: offset {entry.offset}, position {entry.position}."
    slot = index.probes[-1].first + index.probes[-1].at_or_below - 1
    numbers = {"slot": slot, "offset": entry.offset, "position": entry.position}
    steps.append(Step("index", text, name, slot * size, (slot + 1) * size, numbers))
    return entry.position


def _add_probes(
    index: RecordingOffsetIndex | RecordingTimeIndex, key_name: str, key: int, steps: list[Step]
) -> tuple[str, int]:
    """Add a step for each probe, and return the name of the index file and the size of its entries."""
    name, size = index.file.path.rpartition("/")[2], index.ENTRY.size
    for probe in index.probes:
        # The key is the first field of an entry in both indexes.
        first, last = index.entry(probe.first)[0], index.entry(probe.end - 1)[0]
        text = (
            f"Entries {probe.first} to {probe.end - 1} of {index.entries} have the {key_name}s {first} to {last};"
            f" {probe.at_or_below} of them are at or below {key}."
        )
        steps.append(Step("probe", text, name, probe.first * size, probe.end * size, probe._asdict()))
    return name, size


def _describe_scan(segment: LogSegment, start: int, end: int, skipped: int, predicate: str) -> Step:
    batches = "1 batch" if skipped == 1 else f"{skipped} batches"
    text = f"From byte {start} on, {batches} {'is' if skipped == 1 else 'are'} passed over: each {predicate}."
    if not skipped:
        text = f"The search in the log begins at byte {start}."
    numbers = {"start": start, "end": end, "batches": skipped, "bytes": end - start}
    return Step("scan", text, file_of(segment), start, end, numbers)


def _describe_batch(segment: LogSegment, position: int, header: BatchHeader, predicate: str) -> Step:
    text = f"The batch at byte {position} begins with offset {header.base_offset} and {predicate}."
    numbers = {
        "position": position,
        "size": header.size_in_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "max_timestamp": header.max_timestamp,
    }
    return Step("batch", text, file_of(segment), position, position + header.size_in_bytes, numbers)


def find_time(log: Log, timestamp: int) -> LookUp:
    """Find the first record with a timestamp (ms) at or above `timestamp`; see `lookup.search_by_timestamp`.

    Raises:
        OSError: a file cannot be read.
        DecodeError: records cannot be decoded.
    """
    start = log.log_start_offset
    text = f"Looking for the first record from offset {start} on whose time is {timestamp} or later."
    steps = [Step("bounds", text, numbers={"timestamp": timestamp, "log_start_offset": start})]
    segments = list(log.segments)
    skipped: list[LogSegment] = []
    for index in range(log.segment_index(start), len(segments)):
        segment = segments[index]
        largest = segment.largest_timestamp.timestamp
        if largest < timestamp:
            skipped.append(segment)
            continue
        _add_skipped(skipped, timestamp, steps)
        skipped = []
        text = f"Segment {index + 1} of {len(segments)} has the largest time {largest}, which is not below {timestamp}."
        numbers = {"number": index, "base_offset": segment.base_offset, "largest_timestamp": largest}
        steps.append(Step("segment", text, file_of(segment), 0, segment.size, numbers))
        record = _find_time_in_segment(segment, timestamp, start, steps)
        if record is not None:
            return LookUp(tuple(steps), record)
    _add_skipped(skipped, timestamp, steps)
    steps.append(Step("none", f"No record has the time {timestamp} or a later one."))
    return LookUp(tuple(steps), None)


def _add_skipped(skipped: Sequence[LogSegment], timestamp: int, steps: list[Step]) -> None:
    for segment in skipped[:_MAX_SKIPPED_SEGMENTS]:
        largest = segment.largest_timestamp.timestamp
        text = f"The segment from {segment.base_offset} on is passed over: its largest time, {largest}, is too early."
        numbers = {"base_offset": segment.base_offset, "largest_timestamp": largest, "timestamp": timestamp}
        steps.append(Step("passed over", text, numbers=numbers))
    if len(skipped) > _MAX_SKIPPED_SEGMENTS:
        unlisted = len(skipped) - _MAX_SKIPPED_SEGMENTS
        steps.append(Step("passed over", f"So are {unlisted} more segments.", numbers={"segments": unlisted}))


def _find_time_in_segment(segment: LogSegment, timestamp: int, start: int, steps: list[Step]) -> LookUpResult | None:
    index = RecordingTimeIndex(segment.time_index)
    entry = index.lookup(timestamp)
    name, _ = _add_probes(index, "time", timestamp, steps)
    text = (
        f"The time index has no entry at or below {timestamp}: the search begins at offset {entry.offset}."
        if entry.timestamp < 0
        else f"The last entry at or below {timestamp} is: time {entry.timestamp}, offset {entry.offset}."
    )
    steps.append(Step("index", text, name, numbers={"timestamp": entry.timestamp, "offset": entry.offset}))
    position = _search_offset_index(segment, max(entry.offset, start), steps)
    begin, skipped, size = position, 0, segment.size
    for at, header in segment.headers_from(position, end=size):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            steps.append(_describe_scan(segment, begin, at, skipped, f"has only times below {timestamp}"))
            steps.append(_describe_batch(segment, at, header, f"has the largest time {header.max_timestamp}"))
            record = drain(search_batch(segment.batch_at(at), header, timestamp, start))
            if record is not None:
                text = f"Its first record with a time that late is {record.offset}, of {record.timestamp}."
                numbers = {"offset": record.offset, "timestamp": record.timestamp}
                steps.append(Step("records", text, file_of(segment), at, at + header.size_in_bytes, numbers))
                return LookUpResult(segment.base_offset, at, header.size_in_bytes, record.offset, record.timestamp)
            steps.append(Step("records", "None of its records has a time that late.", file_of(segment), at))
            begin, skipped = at + header.size_in_bytes, -1
        skipped += 1
    steps.append(_describe_scan(segment, begin, size, skipped, f"has only times below {timestamp}"))
    return None
