"""The conversion job. Each segment is a task, and the new directory appears after all tasks have ended."""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibroker_pipeline.decode import AbortedRange, load_engine
from minibroker_pipeline.decode.assemble import EncodedBatches
from minibroker_pipeline.decode.numpy_engine import RecordEngine
from minibroker_pipeline.filesystem import LocalFileSystem, open_listed, read_if_there
from minibroker_pipeline.jobs.convert.entries import EntryConverter, SegmentTask
from minibroker_pipeline.jobs.convert.settings import ConvertCounts, ConvertLine, ConvertReport, ConvertSettings
from minibroker_pipeline.jobs.segment_walk import Entries, read_entries
from minibroker_pipeline.jobs.task_runner import run_tasks
from minibroker_pipeline.log_directories.directory_commit import (
    DataDirectoryCommit,
    PublishedLog,
    check_target_apart,
    files_for_copy,
    staged_task,
)
from minibroker_pipeline.log_directories.partition_logs import (
    PartitionLog,
    aborted_transactions,
    cleaner_offsets,
    find_partitions,
)
from minibroker_pipeline.log_directories.segment_writer import (
    PartitionWriter,
    WrittenSegment,
    write_partition_files,
)
from minibroker_pipeline.source.options import SourceOptions
from minibroker_pipeline.source.planning import QueryLog, QueryLogs
from minibroker_protocol.errors import CorruptRecordError, DecodeError
from minibroker_protocol.internal_topics import METADATA_TOPIC
from minibroker_protocol.records.header import HEADER, MAGIC_V2, make_header
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.checkpoints import EpochEntry, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.errors import CorruptCheckpointError, CorruptIndexError, CorruptSnapshotError
from minibroker_storage.files import write_atomically
from minibroker_storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from minibroker_storage.producer_snapshot import ProducerStateEntry, decode_snapshot
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LogProducers(NamedTuple):
    """The producers at the end of a log, by id, and the log's aborted transactions, in the order of their markers."""

    producers: dict[int, ProducerStateEntry]
    aborted: tuple[AbortedTxn, ...]

    @property
    def uncommitted(self) -> tuple[AbortedRange, ...]:
        """The ranges of the aborted transactions, and of the open transactions, whose ranges have no end."""
        still_open = (
            AbortedRange(producer, entry.current_txn_first_offset, INT64_MAX)
            for producer, entry in self.producers.items()
            if entry.current_txn_first_offset >= 0
        )
        return (*(AbortedRange(*transaction[:3]) for transaction in self.aborted), *still_open)


def log_producers(log: PartitionLog, end_position: int, end_offset: int, engine: RecordEngine) -> LogProducers:
    """Return the producers and aborted transactions of a log.

    They are read from the newest snapshot, the transaction indexes, and the batches after the snapshot. If a
    transaction index is unreadable, all batches are read. After a clean stop, a log without snapshots and
    transaction indexes has no producers.

    Args:
        log: the log.
        end_position: the position after the last entry of the last segment.
        end_offset: the log end offset.
        engine: the engine that reads the batches.

    Raises:
        OSError: a file cannot be read.
    """
    has_index = any(TXN_INDEX_SUFFIX in segment.indexes for segment in log.segments)
    if log.data.is_clean and not log.snapshots and not has_index:
        return LogProducers({}, ())
    aborted: set[AbortedTxn] = set()
    snapshot_offset, producers = _newest_snapshot(log, end_offset)
    try:
        for segment in log.segments:
            if TXN_INDEX_SUFFIX in segment.indexes:
                path = log.path(segment, TXN_INDEX_SUFFIX)
                with contextlib.suppress(FileNotFoundError):
                    aborted.update(aborted_transactions(log.filesystem.read(path), path))
    except CorruptIndexError:
        snapshot_offset, producers = 0, {}
    state = ProducerStateManager("", INT64_MAX, initial=producers)
    ends = {(txn.producer_id, txn.last_offset) for txn in aborted}
    for entries in _iterate_entries_after(log, snapshot_offset, end_position, engine):
        aborted.update(txn for txn in _replay(state, entries, snapshot_offset) if (txn[0], txn.last_offset) not in ends)
    return LogProducers(dict(state.active), tuple(sorted(aborted, key=lambda txn: txn.last_offset)))


def _newest_snapshot(log: PartitionLog, end_offset: int) -> tuple[int, dict[int, ProducerStateEntry]]:
    for offset in reversed(log.snapshots):
        if offset <= end_offset:
            with contextlib.suppress(CorruptSnapshotError, FileNotFoundError):
                data = log.filesystem.read(f"{log.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
                return offset, decode_snapshot(data)
    return 0, {}


def _iterate_entries_after(
    log: PartitionLog, offset: int, end_position: int, engine: RecordEngine
) -> Iterator[Entries]:
    """Yield the entries of the segments that extend beyond an offset."""
    for index, segment in enumerate(log.segments):
        next_base = log.end_of(index)
        if next_base is not None and next_base <= offset:
            continue
        with log.filesystem.open(log.path(segment)) as file:
            pieces = read_entries(file, end_position if next_base is None else segment.size, engine)
            yield from (piece for piece in pieces if isinstance(piece, Entries))


def _replay(producers: ProducerStateManager, entries: Entries, from_offset: int) -> list[AbortedTxn]:
    """Process the batches from an offset on, and return the transactions that they abort."""
    aborted: list[AbortedTxn] = []
    headers = entries.headers
    is_wanted = (headers["producer_id"] >= 0) & (headers["magic"] == MAGIC_V2)
    for line in np.flatnonzero(is_wanted & (headers["last_offset"] >= from_offset)).tolist():
        position, size = int(headers["position"][line]), int(headers["size"][line])
        header = make_header(HEADER.unpack_from(entries.data, position))
        try:
            transaction = producers.update(header, header.base_offset, entries.data[position : position + size])
        except (CorruptRecordError, DecodeError):
            producers.rollback()  # Ignore the batch here, because the conversion reports or omits it.
            continue
        producers.commit()
        if transaction is not None:
            aborted.append(transaction)
    return aborted


class ConvertedSegment(NamedTuple):
    """The result of converting one segment: any number of segments, or none, in the task's own directory."""

    topic: str
    partition: int
    counts: ConvertCounts
    segments: tuple[WrittenSegment, ...]
    epochs: tuple[EpochEntry, ...]


def _convert_segment(task: SegmentTask) -> ConvertedSegment:
    """Convert a segment.

    Raises:
        DamagedLogError: an entry is damaged, in failfast mode.
        ConvertError: an entry has something that the new format cannot store and that must not be dropped.
        OSError: a file cannot be read or written.
    """
    engine = load_engine()
    converter = EntryConverter(task, engine)
    with open_listed(task.filesystem, task.path, task.identity) as file:
        output = _OutputWriter(task)
        for piece in read_entries(file, task.size, engine):
            for converted in converter.convert(piece):
                output.append(converted)
    segments, epochs = output.close()
    return ConvertedSegment(task.topic, task.partition, converter.counts, segments, epochs)


class _OutputWriter:
    """The output files of a task, which are created with the first entry."""

    def __init__(self, task: SegmentTask) -> None:
        self._task = task
        self._writer: PartitionWriter | None = None
        self._pending = list(task.aborted)
        # Keep the modification time of the source file, because retention uses it for records without timestamps.
        is_local = isinstance(task.filesystem, LocalFileSystem) and os.path.exists(task.path)
        self._modified_ns = os.stat(task.path).st_mtime_ns if is_local else None

    def append(self, encoded: EncodedBatches) -> None:
        """Write entries, and record the aborted transactions at their markers."""
        writer = self._writer
        if writer is None:
            writer = self._writer = PartitionWriter(
                staged_task(self._task.staging),
                self._task.settings.files(),
                base_offset=self._task.base_offset,
            )
        last_offsets = encoded.headers["last_offset"]
        begin = 0
        while begin < len(last_offsets):
            end_line = len(last_offsets)
            if self._pending:
                end_line = min(int(np.searchsorted(last_offsets, self._pending[0].last_offset)) + 1, end_line)
            writer.modified_ns = self._modified_ns
            writer.append(encoded.data, encoded.headers[begin:end_line])
            reached = int(last_offsets[end_line - 1])
            due = [transaction for transaction in self._pending if transaction.last_offset <= reached]
            if due:
                writer.add_aborted(due)
                self._pending = self._pending[len(due) :]
            begin = end_line

    def close(self) -> tuple[tuple[WrittenSegment, ...], tuple[EpochEntry, ...]]:
        """Complete the files, and return the segments and leader epochs."""
        if self._writer is None:
            return (), ()
        self._writer.add_aborted(self._pending)
        self._writer.modified_ns = self._modified_ns
        return self._writer.close(), self._writer.epochs


class _SourceLog(NamedTuple):
    """A log to convert, with its producers."""

    followed: QueryLog
    producers: LogProducers

    @property
    def end_offset(self) -> int:
        """The offset after the last whole entry."""
        return max(self.followed.tail.log_end_offset, self.followed.log.start_offset)


def convert(
    paths: Sequence[str],
    target: str,
    settings: ConvertSettings,
    *,
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> ConvertReport:
    """Convert logs to another format, codec or batch size, and write them to the new data directory `target`.

    Records keep their offsets and timestamps. If only the codec of v2 batches changes, the batches keep everything
    else: producer ids and sequence numbers, transactions with their markers, leader epochs and delete horizons.
    Checkpoints, topic ids and topic configurations are copied, so a broker can use the target in place of the old
    directory. `paths` is not changed. A running broker may append there during the job, but the appended records
    are not converted.

    Args:
        paths: data directories or directories of single partitions, on this machine or at addresses that fsspec
            supports.
        target: a missing or empty directory. It appears complete, after the whole job has succeeded.
        settings: see `ConvertSettings`.
        spark: the session that runs the tasks. Its workers must see the target's parent directory under the same
            path. Without a session, the tasks run in local `processes`.
        processes: the maximum number of processes, or None for one per CPU if there is enough to read.

    Raises:
        ConvertError: the format cannot store something. ConvertError is a ValueError.
        ValueError: a topic is missing, a partition is in two directories, or the target is not empty or within
            `paths`.
        decode.DamagedLogError: a log is damaged, in failfast mode.
        OSError: a directory or a file cannot be read or written.
    """
    check_target_apart(paths, target)
    engine = load_engine()
    logs = {
        key: _SourceLog(log, log_producers(log.log, log.tail.end_position, log.tail.log_end_offset, engine))
        for key, log in _find_logs(paths, settings).items()
    }
    with DataDirectoryCommit(target) as commit:
        tasks = [task for log in logs.values() for task in _plan_tasks(log, settings, commit.staging)]
        sizes = [task.size for task in tasks]
        label = "convert", "segments"
        results: dict[TopicPartition, list[ConvertedSegment]] = {key: [] for key in logs}
        for result in run_tasks(_convert_segment, tasks, sizes, label=label, spark=spark, processes=processes):
            results[result.topic, result.partition].append(result)
        report = ConvertReport(
            [_assemble_partition(commit, logs[key], segments, settings) for key, segments in results.items()]
        )
        sources = [log.followed.log for log in logs.values()]
        cleaned = cleaner_offsets(sources)
        published = {
            key: PublishedLog(log.end_offset, log.followed.log.start_offset, cleaned.get(key))
            for key, log in logs.items()
        }
        commit.publish(published, files_for_copy(sources))
    return report


def _find_logs(paths: Sequence[str], settings: ConvertSettings) -> dict[TopicPartition, QueryLog]:
    topics = settings.topics or tuple({topic for topic, _ in find_partitions(paths)} - {METADATA_TOPIC})
    if not topics:
        return {}
    options = SourceOptions(paths=tuple(paths), topics=topics, mode=settings.mode, high_watermark="logEnd")
    logs = QueryLogs(options).update()
    if settings.mode == "failfast":
        for log in logs.values():
            log.check()
    return logs


def _plan_tasks(log: _SourceLog, settings: ConvertSettings, staging: str) -> list[SegmentTask]:
    source, tail = log.followed.log, log.followed.tail
    keeps_markers = settings.magic in {None, MAGIC_V2} or not settings.changes(source.topic)
    aborted = log.producers.aborted if keeps_markers else ()
    markers = [transaction.last_offset for transaction in aborted]
    uncommitted = () if keeps_markers else log.producers.uncommitted
    tasks: list[SegmentTask] = []
    bounds = np.array([transaction[1:] for transaction in uncommitted], np.int64).reshape(-1, 2)
    for index, segment in enumerate(source.segments):
        next_base = source.end_of(index)
        size, end = (tail.end_position, log.end_offset) if next_base is None else (segment.size, next_base)
        if not size:
            continue
        overlapping = np.flatnonzero((bounds[:, 0] < end) & (bounds[:, 1] >= segment.base_offset)).tolist()
        task = SegmentTask(
            source.topic,
            source.partition,
            source.filesystem,
            source.path(segment),
            segment.base_offset,
            end,
            size,
            segment.identity,
            aborted[bisect_left(markers, segment.base_offset) : bisect_left(markers, end)],
            tuple(uncommitted[slot] for slot in overlapping),
            settings,
            staging,
        )
        tasks.append(task)
    return tasks


def _assemble_partition(
    commit: DataDirectoryCommit, log: _SourceLog, converted: list[ConvertedSegment], settings: ConvertSettings
) -> ConvertLine:
    """Assemble the directory of a partition."""
    source = log.followed.log
    directory = commit.partition_directory(source.topic, source.partition)
    line = ConvertLine(source.topic, source.partition, log_end_offset=log.end_offset)
    segments = sorted(segment for part in converted for segment in part.segments)
    first = source.segments[0].base_offset if source.segments else log.end_offset
    writer = PartitionWriter(directory, settings.files(), base_offset=first)
    for segment in segments:
        writer.adopt(segment)
    if writer.log_end_offset < log.end_offset:
        # Entries at the end of the log were omitted, but their offsets must not be assigned again.
        writer.roll(log.end_offset)
    line.segments = len(writer.close())
    for part in converted:
        line.counts.add(part.counts)
    has_producers = settings.magic in {None, MAGIC_V2} or not settings.changes(source.topic)
    write_partition_files(
        directory,
        log.end_offset,
        epochs=_find_epochs(directory, log, converted) if has_producers else (),
        producers=log.producers.producers if has_producers else {},
        topic_id=_topic_id(directory, log),
    )
    return line


def _find_epochs(directory: str, log: _SourceLog, converted: list[ConvertedSegment]) -> tuple[EpochEntry, ...]:
    """Return the leader epochs of a log: those in its checkpoint, and the later ones in its batches."""
    checkpoint = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    _copy(log, directory, LEADER_EPOCH_CHECKPOINT)
    with contextlib.suppress(CorruptCheckpointError):
        checkpoint.load()
    for entry in sorted(entry for part in converted for entry in part.epochs):
        if entry.epoch > checkpoint.latest_epoch:
            checkpoint.assign(*entry)
    return tuple(entry for entry in checkpoint.entries if entry.start_offset <= log.end_offset)


def _topic_id(directory: str, log: _SourceLog) -> bytes | None:
    _copy(log, directory, PARTITION_METADATA)
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except FileNotFoundError:
        return None
    except CorruptCheckpointError:
        os.unlink(f"{directory}/{PARTITION_METADATA}")
        return None


def _copy(log: _SourceLog, directory: str, name: str) -> None:
    """Copy a small file of a partition if it exists."""
    source = log.followed.log
    if (data := read_if_there(source.filesystem, f"{source.directory}/{name}")) is not None:
        write_atomically(f"{directory}/{name}", data)
