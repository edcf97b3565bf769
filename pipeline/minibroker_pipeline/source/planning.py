"""Follows the logs of a query as they grow, and divides their files into tasks of about equal cost.

Large segments are split at batches that are listed in their offset index. Small ranges share a task. The indexes of
a segment are read only if that can save work, so planning ten thousand small segments costs no more than listing
them.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from minibroker_pipeline.decode import AbortedRange, DamagedLogError, DecodeRequest
from minibroker_pipeline.filesystem import FileSystem
from minibroker_pipeline.log_directories.log_end_offsets import LogTail, find_aborted_in, read_entry_offset
from minibroker_pipeline.log_directories.partition_logs import (
    DataDirectory,
    FoundPartition,
    LogNameError,
    OffsetEntries,
    PartitionLog,
    SegmentFiles,
    aborted_transactions,
    find_partitions,
    open_partition,
    read_topic_id,
    select,
    time_entries,
)
from minibroker_pipeline.source.options import SPLIT_BYTES, SourceOptions
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.errors import CorruptIndexError
from minibroker_storage.layout import TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_of

OPEN_COST_BYTES: Final = 64 * 1024
"""The cost of opening a file, in bytes that could be read in the same time."""
_MIN_INDEXED_BYTES: Final = 256 * 1024
"""The number of bytes that are decoded in the time it takes to open an index."""
PERMISSIVE_HINT: Final = (
    " (read with mode=permissive to leave damaged batches out; at the end of a log, a broker that opens the directory"
    " cuts them off)"
)
_TXN_INDEX_HINT: Final = (
    " (a broker that opens the directory without this file writes it again, if the log was not closed cleanly; with"
    " mode=permissive what was aborted is taken from the log)"
)
_logger = logging.getLogger(__name__)


class LogRange(NamedTuple):
    """A range of whole entries in a log file. Offsets from `first_offset` to `end_offset` (exclusive) are read."""

    filesystem: FileSystem
    path: str
    topic: str
    partition: int
    position: int
    end_position: int
    first_offset: int
    end_offset: int
    #: The identity of the file (see `filesystem.Entry`).
    identity: int
    #: The bounds of the offsets of the entries: `low` (inclusive) and `high` (exclusive).
    low: int
    high: int
    #: Aborted transactions that can have records among these entries.
    aborted: tuple[AbortedRange, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end_position - self.position

    def request(self, options: SourceOptions, columns: tuple[str, ...]) -> DecodeRequest:
        """Return the request for decoding these columns."""
        return DecodeRequest(
            topic=self.topic,
            partition=self.partition,
            columns=columns,
            first_offset=self.first_offset,
            end_offset=self.end_offset,
            isolation=options.isolation,
            aborted=self.aborted,
            include_control=options.include_control,
            verify_crc=options.verify_crc,
            mode=options.mode,
            engine=options.engine,
            file=self.path,
        )


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """The offsets of a log from `first` to `end` (exclusive).

    Records with a timestamp below `min_timestamp` (in milliseconds) are not needed.
    """

    first: int
    end: int
    min_timestamp: int | None = None


class _SegmentPart(NamedTuple):
    position: int
    end_position: int
    low: int
    high: int


def _find_offset_before(
    log: PartitionLog, segment: SegmentFiles, timestamp: int | None, *, is_last: bool
) -> int | None:
    """Return an offset at or before the first record with this timestamp or a later one.

    The result is None if the segment has no such record.
    """
    if timestamp is None:
        return segment.base_offset
    entries = time_entries(log.read_index(segment, TIME_INDEX_SUFFIX), segment.base_offset)
    slot = int(np.searchsorted(entries.timestamps, timestamp)) - 1
    if slot < 0:
        return segment.base_offset
    # The last time index entry of a closed segment has the segment's largest timestamp
    # (`LogSegment.onBecomeInactiveSegment`), so no record of the segment is late enough.
    if slot == len(entries.timestamps) - 1 and not is_last:
        return None
    return int(entries.offsets[slot])


def _segment_parts(
    log: PartitionLog, segment: SegmentFiles, known: range, first_offset: int, end_offset: int, split_bytes: int
) -> list[_SegmentPart]:
    """Return the parts of a segment with these offsets, cut about every `split_bytes`.

    The offsets are within the bytes `known`.
    """
    size = known.stop
    whole = [_SegmentPart(known.start, size, segment.base_offset, end_offset)]
    is_part = first_offset > segment.base_offset
    # Requesting an index from object storage takes longer than reading a whole small segment.
    if len(known) <= _MIN_INDEXED_BYTES or (size <= split_bytes and not is_part):
        return whole
    index = log.offset_index(segment)
    if not len(index.offsets):
        return whole
    # Start at the last entry at or below the first offset. Stop after the first entry at or above the end, because
    # index entries hold last offsets, and in the logs of followers one entry can cover several batches.
    start = int(np.searchsorted(index.offsets, first_offset, side="right")) - 1
    stop = int(np.searchsorted(index.offsets, end_offset)) + 1
    position = int(index.positions[start]) if start >= 0 else 0
    end_position = min(int(index.positions[stop]), size) if stop < len(index.positions) else size
    slots = _find_cuts(index, start, position, end_position, split_bytes)
    # Compare the entries with the log, because an index has no checksum, and a process may have been killed while
    # writing it.
    firsts = _read_first_offsets(log, segment, index, (start, *slots, stop))
    if -1 in firsts.values():
        _logger.warning("%s: the offset index does not fit the log; the segment is read as a whole", log.path(segment))
        return whole
    positions = [position, *(int(index.positions[slot]) for slot in slots), end_position]
    lows = [segment.base_offset, *(firsts[slot] for slot in slots), end_offset]
    return [
        _SegmentPart(*part) for part in zip(positions, positions[1:], lows, lows[1:], strict=False) if part[0] < part[1]
    ]


def _find_cuts(index: OffsetEntries, start: int, position: int, end_position: int, split_bytes: int) -> list[int]:
    """Return the slots of the index entries at which to split a segment.

    The parts are about equal in size, and not much larger than `split_bytes`.
    """
    count = -(-(end_position - position) // split_bytes)
    targets = position + np.arange(1, count, dtype=np.int64) * ((end_position - position) // max(count, 1))
    slots = np.unique(np.searchsorted(index.positions, targets))
    inside = slots[(slots > start) & (slots < len(index.positions))]
    return [slot for slot in inside.tolist() if position < index.positions[slot] < end_position]


def _read_first_offsets(
    log: PartitionLog, segment: SegmentFiles, index: OffsetEntries, slots: Iterable[int]
) -> dict[int, int]:
    """Return the offset at which the entry of each slot begins. It is -1 if the slot does not fit the log."""
    with log.filesystem.open(log.path(segment)) as file:
        return {
            slot: read_entry_offset(
                file, int(index.positions[slot]), segment.size, int(index.offsets[slot]), segment.base_offset
            )
            for slot in slots
            if 0 <= slot < len(index.positions)
        }


class _Aborted:
    """The aborted transactions of a log, from a given segment on.

    Raises:
        CorruptIndexError: a transaction index is damaged and `tail` is not permissive.
    """

    def __init__(self, log: PartitionLog, first: int, tail: LogTail) -> None:
        self._found: list[AbortedRange] = []
        if tail.transactions is None:
            return
        transactions = set(tail.transactions.aborted)  # The index may lack the newest aborted transactions.
        for index, segment in enumerate(log.segments[first:], first):
            if TXN_INDEX_SUFFIX in segment.indexes:
                path = log.path(segment, TXN_INDEX_SUFFIX)
                try:
                    data = log.filesystem.read(path)
                    transactions.update(AbortedRange(*entry[:3]) for entry in aborted_transactions(data, path))
                except FileNotFoundError:
                    continue
                except CorruptIndexError as error:
                    if not tail.is_permissive:
                        raise CorruptIndexError(f"{error}{_TXN_INDEX_HINT}") from None
                    _logger.warning("%s; what was aborted is taken from the log", error)
                    transactions.update(find_aborted_in(log, index))
        self._found = sorted(transactions, key=lambda aborted: (aborted.first_offset, aborted.producer_id))
        self._firsts = np.array([aborted.first_offset for aborted in self._found], np.int64)
        self._lasts = np.array([aborted.last_offset for aborted in self._found], np.int64)

    def between(self, low: int, high: int) -> tuple[AbortedRange, ...]:
        """Return the aborted transactions that can have records in [low, high)."""
        if not self._found:
            return ()
        slots = np.flatnonzero((self._firsts < high) & (self._lasts >= low))
        return tuple(self._found[slot] for slot in slots.tolist())


def reopen(log_range: LogRange) -> PartitionLog:
    """Return the range's log as it is now.

    Raises:
        OSError: the directory cannot be read.
    """
    directory = log_range.path.rpartition("/")[0]
    data = DataDirectory(directory.rpartition("/")[0], log_range.filesystem)
    return open_partition(FoundPartition(log_range.topic, log_range.partition, directory, data))


def find_replaced(log_range: LogRange) -> Iterator[LogRange]:
    """Yield the ranges that have now what is left of a range whose file was deleted or compacted.

    Raises:
        OSError: the directory cannot be read.
    """
    log = reopen(log_range)
    for index, segment in enumerate(log.segments):
        end = log.end_of(index)
        if segment.base_offset < log_range.high and (end is None or end > log_range.low):
            yield log_range._replace(
                path=log.path(segment),
                position=0,
                end_position=segment.size,
                first_offset=log_range.low,
                end_offset=log_range.high,
                identity=segment.identity,
            )


def read_aborted_from_log(log_range: LogRange) -> tuple[int, list[AbortedRange]]:
    """Return the log start offset and the aborted transactions that end in the range's segment.

    The transactions come from the log instead of its indexes. Transactions that began before the log start offset lack
    their earlier records.

    Raises:
        OSError: a file cannot be read.
    """
    log = reopen(log_range)
    bases = [segment.base_offset for segment in log.segments]
    base = offset_of(log_range.path.rpartition("/")[2])
    return log.start_offset, find_aborted_in(log, bases.index(base)) if base in bases else []


def pack(ranges: Iterable[LogRange], *, split_bytes: int = SPLIT_BYTES) -> list[tuple[LogRange, ...]]:
    """Distribute the ranges to tasks of about `split_bytes` each, without reordering them."""
    tasks: list[tuple[LogRange, ...]] = []
    task: list[LogRange] = []
    cost = 0
    for log_range in ranges:
        range_cost = log_range.size + OPEN_COST_BYTES
        if task and cost + range_cost > split_bytes + split_bytes // 4:
            tasks.append(tuple(task))
            task, cost = [], 0
        task.append(log_range)
        cost += range_cost
    if task:
        tasks.append(tuple(task))
    return tasks


_MAX_ATTEMPTS: Final = 5


class QueryLog(NamedTuple):
    """The state of a log as of the last update."""

    log: PartitionLog
    tail: LogTail

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last one that the query can read. For read_committed, this is the last stable offset."""
        return max(self.tail.end_offset, self.log.start_offset)

    @property
    def name(self) -> str:
        """The topic and partition, such as "orders-0"."""
        return f"{self.log.topic}-{self.log.partition}"

    def ranges(self, interval: OffsetInterval, split_bytes: int) -> Iterator[LogRange]:
        """Yield the ranges to read, in offset order.

        Raises:
            OSError: a file cannot be read.
        """
        log, tail = self.log, self.tail
        if interval.first >= interval.end:
            return
        bounds = np.array([segment.base_offset for segment in log.segments], np.int64)
        first = max(int(np.searchsorted(bounds, interval.first, side="right")) - 1, 0)
        end_segment = int(np.searchsorted(bounds, interval.end, side="left"))
        aborted = _Aborted(log, first, tail)
        for index, segment in enumerate(log.segments[first:end_segment], first):
            next_base = log.end_of(index)
            # A broker may be writing the last segment, so only the bytes before the known end of the log are read.
            size = segment.size if next_base is not None else min(tail.end_position, segment.size)
            first_offset = max(interval.first, segment.base_offset)
            end_offset = interval.end if next_base is None else min(interval.end, next_base)
            if not size:
                continue
            offset_before = _find_offset_before(log, segment, interval.min_timestamp, is_last=next_base is None)
            if offset_before is None:
                continue
            first_needed = max(first_offset, offset_before)
            known = range(tail.position_before(segment, first_needed), size)
            for part in _segment_parts(log, segment, known, first_needed, end_offset, split_bytes):
                yield LogRange(
                    log.filesystem,
                    log.path(segment),
                    log.topic,
                    log.partition,
                    part.position,
                    part.end_position,
                    first_offset,
                    end_offset,
                    segment.identity,
                    max(part.low, first_offset),
                    min(part.high, end_offset),
                    aborted.between(max(part.low, first_offset), min(part.high, end_offset)),
                )

    def check(self) -> None:
        """Check that the log ends with a whole entry or an incomplete one.

        Raises:
            DamagedLogError: the end of the log is damaged, not merely incomplete.
        """
        damage = self.tail.damage
        if damage is not None:
            raise DamagedLogError(self.tail.damaged_file, damage._replace(message=damage.message + PERMISSIVE_HINT))


class QueryLogs:
    """All logs selected by the options, ordered by topic and partition.

    Args:
        options: the options of the query.
        has_ids: whether to read the ids of the topics, too.
    """

    def __init__(self, options: SourceOptions, *, has_ids: bool = False) -> None:
        self._options = options
        self._has_ids = has_ids
        #: The ids of topics as of the last update, as far as they are known.
        self.ids: dict[str, str] = {}
        self._tails: dict[TopicPartition, LogTail] = {}

    def update(self, *, must_exist: bool = True) -> dict[TopicPartition, QueryLog]:
        """Read the directories again and return the current logs.

        Args:
            must_exist: whether to raise an error if a topic named in the options is missing.

        Raises:
            FileNotFoundError: a directory does not exist.
            LogNameError: a named topic is missing, or a file name is invalid in failfast mode.
            OSError: a directory cannot be read.
        """
        options = self._options
        partitions = select(
            find_partitions(options.paths, options.storage),
            topics=options.topics,
            pattern=options.topics_pattern,
            assignment=options.assignment,
            must_exist=must_exist,
        )
        if self._has_ids:
            self._update_ids(partitions)
        logs: dict[TopicPartition, QueryLog] = {}
        for partition in partitions:
            log = self._update(partition)
            if log is not None:
                logs[partition.topic, partition.partition] = log
        self._tails = {key: log.tail for key, log in logs.items()}
        return logs

    def _update_ids(self, partitions: Iterable[FoundPartition]) -> None:
        ids: dict[str, str] = {}
        for partition in partitions:
            if partition.topic not in ids and partition.is_made and (topic_id := read_topic_id(partition)):
                ids[partition.topic] = topic_id
        # Another topic's log may have a file of the same identity.
        self._tails = {key: tail for key, tail in self._tails.items() if ids.get(key[0]) == self.ids.get(key[0])}
        self.ids = ids

    def _update(self, partition: FoundPartition) -> QueryLog | None:
        tail = self._tails.get((partition.topic, partition.partition)) or LogTail(
            transactions=self._options.isolation == "read_committed",
            verify_crc=self._options.verify_crc,
            permissive=self._options.mode == "permissive",
            high_watermark=self._options.high_watermark,
        )
        for _ in range(_MAX_ATTEMPTS):
            try:
                log = open_partition(partition)
                tail.update(log)
            except FileNotFoundError:
                continue  # Compaction or retention may have removed a file, or the partition may have been deleted.
            self._check_names(log)
            return QueryLog(log, tail)
        return None

    def _check_names(self, log: PartitionLog) -> None:
        if log.odd_names:
            message = (
                f"{log.directory}/{log.odd_names[0]}: a log file is named by 20 digits, the offset that it begins at"
            )
            if self._options.mode == "failfast":
                raise LogNameError(f"{message}; rename it, or read with mode=permissive to leave it out")
            _logger.warning("%s; it is left out", message)
