"""Compacts all logs of directories into a new directory, without a broker. Each partition is a task.

The tasks use the broker's own cleaner.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from minibroker_pipeline.decode import Damage, DamagedLogError, DecodeRequest, load_engine
from minibroker_pipeline.decode.headers import Selection
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.filesystem import LocalFileSystem, OpenFile, read_if_there
from minibroker_pipeline.jobs.reports import Sums, as_json, bytes_text, text_table
from minibroker_pipeline.jobs.segment_walk import (
    CUT_SHORT,
    ZEROS,
    BadBytes,
    Entries,
    damage_at,
    read_entries,
    walk_records,
)
from minibroker_pipeline.jobs.task_runner import run_tasks
from minibroker_pipeline.log_directories.directory_commit import (
    DataDirectoryCommit,
    PublishedLog,
    check_target_apart,
    files_for_copy,
)
from minibroker_pipeline.log_directories.log_end_offsets import LogTail
from minibroker_pipeline.log_directories.partition_logs import (
    PartitionLog,
    SegmentFiles,
    cleaner_offsets,
    find_partitions,
    open_partition,
    select,
)
from minibroker_pipeline.log_directories.segment_writer import fsync_file
from minibroker_protocol.records.header import CONTROL_FLAG, MAGIC_V2
from minibroker_storage.cleaner import finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.files import FilePool, fsync_directory
from minibroker_storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    file_name,
)
from minibroker_storage.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAY_MS: Final = 24 * 60 * 60 * 1000
_NS_PER_MS: Final = 1_000_000
MIN_MEMORY_BYTES: Final = 64 * 1024
_OPEN_FILES: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactSettings:
    """The settings of a compaction.

    Attributes:
        topics: the topics to compact, or empty for all except internal topics.
        now_ms: the time for setting and evaluating delete horizons, or None for the current time.
        from_start: whether to treat the whole log as dirty. Otherwise the part of the log below its offset in
            cleaner-offset-checkpoint counts as compacted, as for a broker.
        roll: whether to roll the active segment first, so that it is compacted too.
        delete_retention_ms: Kafka's `delete.retention.ms`: how long tombstones and markers remain.
        min_compaction_lag_ms: Kafka's `min.compaction.lag.ms`: younger records are not compacted.
        segment_bytes: Kafka's `segment.bytes`: neighboring segments that fit into one segment are joined.
        segment_index_bytes: Kafka's `segment.index.bytes`, which also limits joined segments.
        index_interval_bytes: Kafka's `index.interval.bytes`.
        producer_id_expiration_ms: the broker's `producer.id.expiration.ms`: how long a producer's last batch
            remains.
        memory_bytes: the memory for the keys of one partition, like the broker's `log.cleaner.dedupe.buffer.size`.
            A log with more keys is cleaned in several passes.

    Raises:
        ValueError: Kafka refuses a value.
    """

    topics: tuple[str, ...] = ()
    now_ms: int | None = None
    from_start: bool = False
    roll: bool = False
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = _DAY_MS
    memory_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        self.log_config()
        if self.memory_bytes < MIN_MEMORY_BYTES:
            raise ValueError(f"memory: {self.memory_bytes} bytes are less than {MIN_MEMORY_BYTES}")

    def log_config(self) -> LogConfig:
        """Return the configuration that the logs have while they are cleaned."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            compact=True,
            delete=False,
            delete_retention_ms=self.delete_retention_ms,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )


class LogChangedError(Exception):
    """A segment was replaced after the job began, because a broker is using the directory."""


@dataclass(slots=True)
class Tally(Sums):
    """Totals for the cleaned segments. The counts of records leave out control records."""

    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    #: The number of removed records that have no key.
    without_key: int = 0
    #: The number of records of aborted transactions, which are all removed.
    aborted: int = 0
    tombstones_after: int = 0


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """A compacted partition. `tally` counts the cleaned segments; the other segments were copied.

    `cleaned_offset` is the partition's offset in cleaner-offset-checkpoint, or None if it was never cleaned.
    """

    topic: str
    partition: int
    segments_before: int
    segments_after: int
    cleaned_offset: int | None
    tally: Tally


@dataclass(slots=True)
class CompactReport:
    """The report on all compacted partitions."""

    target: str
    logs: list[CompactedLog] = field(default_factory=list[CompactedLog])

    @property
    def total(self) -> Tally:
        """The total counts of all logs."""
        return Tally.sum_of(log.tally for log in self.logs)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {"target": self.target, "logs": [as_json(log) for log in self.logs], "total": as_json(self.total)}

    def as_text(self) -> str:
        """Return a table and a summary line."""
        titles = ("topic", "partition", "segments", "records", "stay", "no key", "aborted", "bytes", "become")
        rows = [
            [
                log.topic,
                f"{log.partition}",
                f"{log.segments_before} > {log.segments_after}",
                f"{log.tally.records_before:,}",
                f"{log.tally.records_after:,}",
                f"{log.tally.without_key:,}",
                f"{log.tally.aborted:,}",
                bytes_text(log.tally.bytes_before),
                bytes_text(log.tally.bytes_after),
            ]
            for log in self.logs
        ]
        total = self.total
        return (
            (text_table(titles, rows, left=(0,)) + "\n" if rows else "")
            + f"{len(self.logs):,} partitions in {self.target}: of {total.records_before:,} records in segments that"
            f" could be compacted {total.records_after:,} stay, of {bytes_text(total.bytes_before)}"
            f" {bytes_text(total.bytes_after)}\n"
        )


def compact(
    paths: Sequence[str],
    target: str,
    settings: CompactSettings | None = None,
    *,
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> CompactReport:
    """Compact logs into the new data directory `target`.

    Each log is copied, opened as after a crash, and cleaned by the broker's own cleaner. In closed segments below
    the last stable offset, the cleaner removes records that were replaced by newer ones. Everything else remains. A
    broker can continue with the target, including its cleaner-offset-checkpoint. `paths` is not changed, but no
    broker should be writing there.

    Args:
        paths: data directories or directories of single partitions, on this machine or at addresses that fsspec
            supports.
        target: a missing or empty directory. It appears complete, after the whole job has succeeded.
        settings: see `CompactSettings`.
        spark: the session that runs the tasks. Its workers must see the target's parent directory under the same
            path. Without a session, the tasks run in local `processes`.
        processes: the maximum number of processes, or None for one per CPU if there is enough to read.

    Raises:
        ValueError: a topic is missing, a partition is in two directories, or the target is not empty.
        decode.DamagedLogError: a log is damaged; `verify` suggests a remedy.
        LogChangedError: a broker changed the directory during the job.
        OSError: a directory or a file cannot be read or written.
    """
    settings = settings or CompactSettings()
    now_ms = time.time_ns() // _NS_PER_MS if settings.now_ms is None else settings.now_ms
    logs = [open_partition(partition) for partition in select(find_partitions(paths), topics=settings.topics)]
    check_target_apart(paths, target)
    cleaned = cleaner_offsets(logs)
    with DataDirectoryCommit(target) as commit:
        tasks = [
            CompactTask(
                log,
                commit.partition_directory(log.topic, log.partition),
                cleaned.get((log.topic, log.partition)),
                settings,
                now_ms,
            )
            for log in logs
        ]
        sizes = [sum(segment.size for segment in log.segments) for log in logs]
        label = "compact", "partitions"
        compacted = run_tasks(_compact_log, tasks, sizes, label=label, spark=spark, processes=processes)
        results = sorted(compacted, key=lambda result: (result[0].topic, result[0].partition))
        published = {(report.topic, report.partition): published_log for report, published_log in results}
        commit.publish(published, files_for_copy(logs))
    return CompactReport(commit.target, [report for report, _ in results])


class CompactTask(NamedTuple):
    """A log to compact, the staging directory of its partition, and the log's offset in cleaner-offset-checkpoint."""

    log: PartitionLog
    directory: str
    cleaned_offset: int | None
    settings: CompactSettings
    now_ms: int


def _compact_log(task: CompactTask) -> tuple[CompactedLog, PublishedLog]:
    """Compact a partition. All its files are on disk when this returns.

    Returns:
        The report on the partition, and the offsets for the checkpoints.

    Raises:
        DamagedLogError: the log is damaged.
        LogChangedError: a file of the source was replaced.
        OSError: a file cannot be read or written.
    """
    engine = load_engine()
    source, settings, now_ms = task.log, task.settings, task.now_ms
    tail = LogTail(transactions=True)
    tail.update(source)
    if tail.damage is not None:
        raise DamagedLogError(tail.damaged_file, tail.damage)
    last = len(source.segments) - 1
    copied = [
        _copy_segment(task, segment, engine, is_last=index == last) for index, segment in enumerate(source.segments)
    ]
    snapshots = (file_name(offset, SNAPSHOT_SUFFIX) for offset in source.snapshots)
    for name in (*snapshots, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
        if (content := read_if_there(source.filesystem, f"{source.directory}/{name}")) is not None:
            with open(f"{task.directory}/{name}", "wb") as file:
                file.write(content)
    start = source.data.log_starts.get((source.topic, source.partition), 0)
    is_valid = task.cleaned_offset is not None and source.start_offset <= task.cleaned_offset <= tail.log_end_offset
    cleaned_offset = task.cleaned_offset if is_valid else None
    tally = Tally()
    # Open the log like one after a crash, because only the log files are trusted and all indexes must be rebuilt.
    log = Log.open(
        task.directory,
        config=settings.log_config(),
        files=FilePool(_OPEN_FILES),
        last_stop=LastStop.CRASHED,
        log_start_offset=start,
        now_ms=now_ms,
    )
    try:
        if tail.log_end_offset >= start:
            _check_complete(source, log, copied)
        # Compaction must stop at the end of the readable records, because later records may still be truncated or
        # aborted.
        log.high_watermark = tail.end_offset
        if settings.roll:
            log.roll(now_ms)
        first_dirty = None if settings.from_start else cleaned_offset
        plan = plan_cleaning(log, first_dirty, now_ms, dedupe_buffer_bytes=settings.memory_bytes, force=True)
        end = -1 if plan is None else plan.first_uncleanable_offset
        _count_records(log, end, engine, tally, is_before=True)
        while plan is not None:
            cleaned_offset = finish_cleaning(log, clean(plan))
            for path in log.take_deleted_files():
                os.unlink(path)
            plan = plan_cleaning(log, cleaned_offset, now_ms, dedupe_buffer_bytes=settings.memory_bytes, force=True)
        _count_records(log, end, engine, tally, is_before=False)
        end_offset, segments = log.log_end_offset, len(log.segments)
    finally:
        log.close()
    _sync_files(task.directory)
    report = CompactedLog(source.topic, source.partition, len(source.segments), segments, cleaned_offset, tally)
    return report, PublishedLog(end_offset, start, cleaned_offset)


def _copy_segment(task: CompactTask, segment: SegmentFiles, engine: RecordEngine, *, is_last: bool) -> int:
    """Copy a log file, checking every entry, and return the size of the copy.

    An incomplete entry at the end of the last segment is omitted.
    """
    source, path = task.log, task.log.path(segment)
    copy = f"{task.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
    try:
        file = source.filesystem.open(path)
    except FileNotFoundError:
        raise _changed_error(path) from None
    with file, open(copy, "xb") as target:
        if file.identity != segment.identity:
            raise _changed_error(path)
        checked_entries = _checked_entries(file, path, segment.size, engine, is_last=is_last)
        target.writelines(entries.data for entries in checked_entries)
    is_local = isinstance(source.filesystem, LocalFileSystem)
    modified_ns = os.stat(path).st_mtime_ns if is_local else task.now_ms * _NS_PER_MS
    os.utime(copy, ns=(modified_ns, modified_ns))
    return os.stat(copy).st_size


def _changed_error(path: str) -> LogChangedError:
    return LogChangedError(
        f"{path}: not the file that was there when the job began; a broker works in the directory. Run it again"
    )


def _checked_entries(file: OpenFile, path: str, size: int, engine: RecordEngine, *, is_last: bool) -> Iterator[Entries]:
    """Yield all entries of a log file. A wrong checksum is damage, because cleaning would hide it."""
    for piece in read_entries(file, size, engine):
        if isinstance(piece, BadBytes):
            if is_last and piece.reason in {CUT_SHORT, ZEROS}:
                return
            raise DamagedLogError(path, Damage(piece.position, piece.offset, piece.size, piece.reason))
        if wrong := engine.find_wrong_crcs(piece.data, piece.headers):
            raise DamagedLogError(path, damage_at(piece, piece.headers[wrong[0]], "wrong checksum"))
        yield piece


def _check_complete(source: PartitionLog, log: Log, copied: Sequence[int]) -> None:
    """Check that no entries were truncated when the log was opened.

    Raises:
        DamagedLogError: entries were truncated, because their offsets do not follow those of the previous entries.
    """
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    for segment, size in zip(source.segments, copied, strict=True):
        kept_size = sizes.get(segment.base_offset, 0)
        if kept_size < size:
            message = "its offsets do not follow those of the entries before"
            raise DamagedLogError(source.path(segment), Damage(kept_size, None, size - kept_size, message))


def _count_records(log: Log, end: int, engine: RecordEngine, tally: Tally, *, is_before: bool) -> None:
    """Count the records of the segments below `end`.

    Raises:
        DamagedLogError: records cannot be read.
    """
    aborted = tuple(entry[:3] for segment in log.segments for entry in segment.transaction_index.since(0))
    data_of = Selection(DecodeRequest(isolation="read_committed", aborted=aborted)).lines
    size = records = without_key = tombstones = in_aborted = 0
    for segment in log.segments:
        if segment.base_offset >= end:
            break
        path = segment.log.path
        size += segment.size
        with LocalFileSystem().open(path) as file:
            for entries in _checked_entries(file, path, segment.size, engine, is_last=False):
                headers = entries.headers
                lines = data_of(headers)
                other_headers = np.delete(headers, lines)
                is_marker = (other_headers["attributes"] & CONTROL_FLAG != 0) & (other_headers["magic"] == MAGIC_V2)
                in_aborted += int(other_headers["record_count"][~is_marker].sum())
                damage: list[Damage] = []
                for table, _ in walk_records(entries, lines, engine, damage):
                    records += table.rows
                    has_key = table.key_size[: table.rows] >= 0
                    without_key += table.rows - int(np.count_nonzero(has_key))
                    tombstones += int(np.count_nonzero(has_key & (table.value_size[: table.rows] < 0)))
                if damage:
                    raise DamagedLogError(path, damage[0])
    if is_before:
        tally.bytes_before, tally.records_before = size, records + in_aborted
        tally.without_key, tally.aborted = without_key, in_aborted
    else:
        tally.bytes_after, tally.records_after, tally.tombstones_after = size, records, tombstones


def _sync_files(directory: str) -> None:
    """Sync all files of a directory to disk."""
    for name in os.listdir(directory):
        fsync_file(f"{directory}/{name}")
    fsync_directory(directory)
