"""The plan for a log as a broker that opens it would make it: the segments to clean, and the facts known beforehand.

`LogView` is what is known at once; `plan_log` needs what the first round has found in the segments.
"""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker_pipeline.decode import AbortedRange, DamagedLogError
from minibroker_pipeline.filesystems.filesystem import LocalFileSystem
from minibroker_pipeline.jobs.compact.key_files import Run
from minibroker_pipeline.jobs.compact.reading import SegmentSource
from minibroker_pipeline.jobs.compact.scan import SegmentFacts
from minibroker_pipeline.jobs.compact.settings import CompactSettings
from minibroker_pipeline.log_directories.index_files import aborted_transactions, time_entries
from minibroker_pipeline.log_directories.log_end_offsets import LogTail, index_of
from minibroker_pipeline.log_directories.partition_logs import OFFSET_INDEX_SUFFIX, PartitionLog, SegmentFiles
from minibroker_protocol.records import read_entry_header
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.cleaner.clean import group_segments
from minibroker_storage.cleaner.plan import NS_PER_MS, ActiveProducer, CleaningPlan, SegmentToClean
from minibroker_storage.cleaner.transactions import CleanedTransactions
from minibroker_storage.errors import CorruptSnapshotError
from minibroker_storage.layout import SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_name
from minibroker_storage.offset_index import OffsetIndex
from minibroker_storage.producer_snapshot import ProducerStateEntry, decode_snapshot
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.time_index import TimeIndex
from minibroker_storage.transaction_index import AbortedTxn

_NO_DATA_OFFSET: Final = -1


class LogView:
    """A log before its first round. `DamagedLogError` for an end that is neither whole nor torn; `OSError`.

    Attributes:
        log: its files.
        sources: its segments.
        end_offset: behind the last whole entry.
        stable_offset: below it all transactions are decided, and all is below the high watermark.
        cleaned_offset: what cleaner-offset-checkpoint says, if it can be.
        first_dirty: the offset from which records take the place of older ones.
        active_base: what lies from here on stays as it is: the active segment.
        has_new_segment: whether that is one that begins with this job.
    """

    def __init__(self, log: PartitionLog, cleaned_offset: int | None, settings: CompactSettings, now_ms: int) -> None:
        self.log = log
        tail = LogTail(transactions=True)
        tail.update(log)
        if tail.damage is not None:
            raise DamagedLogError(tail.damaged_file, tail.damage)
        self.end_offset = tail.log_end_offset
        self.stable_offset = tail.end_offset
        last = len(log.segments) - 1
        self.sources = [
            SegmentSource(
                log.filesystem,
                path := log.path(segment),
                segment.base_offset,
                segment.size,
                segment.identity,
                os.stat(path).st_mtime_ns if isinstance(log.filesystem, LocalFileSystem) else now_ms * NS_PER_MS,
                number == last,
            )
            for number, segment in enumerate(log.segments)
        ]
        start = log.start_offset
        is_good = cleaned_offset is not None and start <= cleaned_offset <= self.end_offset
        self.cleaned_offset = cleaned_offset if is_good else None
        self.first_dirty = start if self.cleaned_offset is None or settings.from_start else self.cleaned_offset
        is_rolled = settings.roll and bool(log.segments) and self.end_offset > log.segments[-1].base_offset
        self.has_new_segment = is_rolled or not log.segments
        self.active_base = self.end_offset if self.has_new_segment else log.segments[-1].base_offset
        self._tail_aborted = tail.transactions.aborted if tail.transactions is not None else []
        self._indexed = [_indexed_aborted(log, segment) for segment in log.segments]

    @property
    def closed(self) -> list[SegmentSource]:
        """The segments that may be cleaned at all."""
        return [source for source in self.sources if source.base_offset < self.active_base]

    def closed_from(self, offset: int) -> list[SegmentSource]:
        """Those from the one on that holds `offset` (Kafka's `nonActiveLogSegmentsFrom`)."""
        if offset >= self.active_base:
            return []
        closed = self.closed
        return closed[max(bisect_right(closed, offset, key=lambda source: source.base_offset) - 1, 0) :]

    def has_dirty(self, end: int) -> bool:
        """Whether there is something to clean below `end`."""
        return any(source.size for source in self.closed_from(self.first_dirty) if source.base_offset < end)

    @property
    def settled_base(self) -> int:
        """The offset from which on nothing can be cleaned now: the base of the last stable offset's segment."""
        undecided = self.closed_from(max(self.first_dirty, min(self.stable_offset, self.active_base)))
        return undecided[0].base_offset if undecided else self.active_base

    @property
    def aborted_ranges(self) -> tuple[AbortedRange, ...]:
        """The aborted transactions by the indexes, and near the end by the markers themselves."""
        indexed = (AbortedRange(*entry[:3]) for entries in self._indexed for entry in entries)
        return tuple(sorted({*indexed, *self._tail_aborted}))

    def aborted(self, replayed: Iterable[AbortedTxn]) -> list[AbortedTxn]:
        """The same with their last stable offsets; `replayed` are those of markers that no index may have yet."""
        found = {entry[:3]: entry for entry in (*replayed, *(one for entries in self._indexed for one in entries))}
        lacking = [AbortedTxn(*one, one.last_offset + 1) for one in self._tail_aborted if tuple(one) not in found]
        return sorted([*found.values(), *lacking], key=lambda one: one.first_offset)


def _indexed_aborted(log: PartitionLog, segment: SegmentFiles) -> list[AbortedTxn]:
    if TXN_INDEX_SUFFIX not in segment.indexes:
        return []
    path = log.path(segment, TXN_INDEX_SUFFIX)
    try:
        return aborted_transactions(log.filesystem.read(path), path)
    except FileNotFoundError:
        return []


class PlannedSegment(NamedTuple):
    """A segment of a group. `needless` are the offsets of the markers of whose transaction nothing is left."""

    source: SegmentSource
    needless: frozenset[int]
    runs: tuple[Run, ...]
    first_run: int
    retain_legacy_deletes: bool


class Group(NamedTuple):
    """Segments that become one. Those that are not cleaned are copied, each to one of its own."""

    base_offset: int
    segments: tuple[PlannedSegment, ...]
    is_cleaned: bool
    aborted: tuple[AbortedTxn, ...]


class LogPlan(NamedTuple):
    """The plan of a log. `cleaned_offset` is for cleaner-offset-checkpoint."""

    groups: tuple[Group, ...]
    runs: tuple[Run, ...]
    producers: Mapping[int, ProducerStateEntry]
    cleaned_offset: int | None

    @property
    def active_producers(self) -> tuple[ActiveProducer, ...]:
        """The producers whose last batches stay."""
        return tuple(
            ActiveProducer(
                producer_id, entry.batches[-1].last_offset if entry.batches else _NO_DATA_OFFSET, entry.producer_epoch
            )
            for producer_id, entry in self.producers.items()
        )


def plan_log(view: LogView, facts: Sequence[SegmentFacts], settings: CompactSettings, now_ms: int) -> LogPlan:
    """Decide (Kafka's `cleanableOffsets`, `groupSegmentsBySize`). `facts` are of all segments, in their order."""
    producers, replayed = _replay(view, facts, settings, now_ms)
    aborted = view.aborted(replayed)
    end = _first_uncleanable(view, facts, settings, now_ms)
    if not view.has_dirty(end):
        end = -1
    cleaned = [source for source in view.sources if source.base_offset < end]
    groups = [_copy(view, number, aborted) for number in range(len(cleaned), len(view.sources))]
    runs = tuple(run for one in facts[: len(cleaned)] for run in one.runs)
    if cleaned:
        groups = [*_cleaned_groups(view, facts, aborted, settings, end, now_ms), *groups]
    if view.has_new_segment:
        groups.append(Group(view.end_offset, (), False, ()))
    return LogPlan(tuple(groups), runs, producers, end if cleaned else view.cleaned_offset)


def _first_uncleanable(view: LogView, facts: Sequence[SegmentFacts], settings: CompactSettings, now_ms: int) -> int:
    end = view.settled_base
    if settings.min_compaction_lag_ms > 0:
        youngest = now_ms - settings.min_compaction_lag_ms
        largest = {one.base_offset: one.max_timestamp for one in facts}
        for source in view.closed_from(view.first_dirty):
            timestamp = largest[source.base_offset]
            if (timestamp if timestamp >= 0 else source.modified_ns // NS_PER_MS) > youngest:
                return min(end, source.base_offset)
    return end


def _copy(view: LogView, number: int, aborted: Sequence[AbortedTxn]) -> Group:
    source = view.sources[number]
    end = view.sources[number + 1].base_offset if number + 1 < len(view.sources) else INT64_MAX
    own = tuple(one for one in aborted if source.base_offset <= one.last_offset < end)
    return Group(source.base_offset, (PlannedSegment(source, frozenset(), (), 0, True),), False, own)


def _cleaned_groups(
    view: LogView,
    facts: Sequence[SegmentFacts],
    aborted: Sequence[AbortedTxn],
    settings: CompactSettings,
    end: int,
    now_ms: int,
) -> list[Group]:
    sources = [source for source in view.sources if source.base_offset < end]
    clean = [source for source in sources if source.base_offset < view.first_dirty]
    horizon = clean[-1].modified_ns // NS_PER_MS - settings.delete_retention_ms if clean else 0
    transactions = CleanedTransactions(one for one in aborted if one.first_offset < end)
    groups: list[Group] = []
    number = first_run = 0
    for group in group_segments(*_for_grouping(view, settings, end, now_ms)):
        planned: list[PlannedSegment] = []
        for _ in group:
            source, found = sources[number], facts[number]
            needless = frozenset(_needless(found.events, transactions))
            retain = source.modified_ns // NS_PER_MS > horizon
            planned.append(PlannedSegment(source, needless, tuple(found.runs), first_run, retain))
            number += 1
            first_run += len(found.runs)
        groups.append(Group(group[0].base_offset, tuple(planned), True, tuple(transactions.take_retained())))
    return groups


def _needless(events: Iterable[bytes], transactions: CleanedTransactions) -> Iterable[int]:
    for event in events:
        header = read_entry_header(event)
        if not header.is_control:
            transactions.on_batch(header)
        elif transactions.on_control_batch(header, event):
            yield header.last_offset


def _for_grouping(
    view: LogView, settings: CompactSettings, end: int, now_ms: int
) -> tuple[list[SegmentToClean], CleaningPlan]:
    """The segments as the storage's cleaner groups them."""
    segments = [
        SegmentToClean(source.base_offset, source.size, *_index_sizes(view.log, files), source.modified_ns, 0)
        for source, files in zip(view.sources, view.log.segments, strict=True)
        if source.base_offset < end
    ]
    plan = CleaningPlan(
        directory=view.log.directory,
        now_ms=now_ms,
        first_dirty_offset=view.first_dirty,
        first_uncleanable_offset=end,
        segments=tuple(segments),
        later_segments=(),
        producers=(),
        segment_bytes=settings.segment_bytes,
        segment_index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        delete_retention_ms=settings.delete_retention_ms,
        legacy_delete_horizon_ms=0,
        max_map_entries=0,
    )
    return segments, plan


def _index_sizes(log: PartitionLog, segment: SegmentFiles) -> tuple[int, int]:
    """Bytes of the entries in the offset index and in the time index; 0 for one that is missing."""
    times = 0
    if TIME_INDEX_SUFFIX in segment.indexes:
        with contextlib.suppress(FileNotFoundError):
            data = log.filesystem.read(log.path(segment, TIME_INDEX_SUFFIX))
            times = len(time_entries(data, segment.base_offset).timestamps)
    offsets = len(index_of(log, segment).offsets) if OFFSET_INDEX_SUFFIX in segment.indexes else 0
    return offsets * OffsetIndex.ENTRY.size, times * TimeIndex.ENTRY.size


def _replay(
    view: LogView, facts: Sequence[SegmentFacts], settings: CompactSettings, now_ms: int
) -> tuple[dict[int, ProducerStateEntry], list[AbortedTxn]]:
    """The producers that a broker knows when it has opened the log, and the transactions that it sees aborted."""
    log = view.log
    if log.data.is_clean and not log.snapshots:
        return {}, []  # as Kafka: a clean stop without a snapshot knew no producers
    replay_from, known = _newest_snapshot(view)
    expired = [
        producer_id
        for producer_id, entry in known.items()
        if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= settings.producer_id_expiration_ms
    ]
    for producer_id in expired:
        del known[producer_id]
    producers = ProducerStateManager("", INT64_MAX, known=known)
    aborted: list[AbortedTxn] = []
    for one in facts:
        if one.end_offset <= replay_from:
            continue
        for event in one.events:
            header = read_entry_header(event)
            if header.last_offset >= replay_from:
                found = producers.update(header, header.base_offset, memoryview(event))
                producers.commit()
                if found is not None:
                    aborted.append(found)
    return dict(producers.active), aborted


def _newest_snapshot(view: LogView) -> tuple[int, dict[int, ProducerStateEntry]]:
    log = view.log
    for offset in reversed(log.snapshots):
        if log.start_offset < offset <= view.end_offset:
            with contextlib.suppress(CorruptSnapshotError, FileNotFoundError):
                data = log.filesystem.read(f"{log.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
                return offset, decode_snapshot(data)
    return log.start_offset, {}
