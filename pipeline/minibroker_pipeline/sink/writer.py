"""`df.write.format("minibroker")`: Spark's `DataSourceArrowWriter`, which writes rows as topic directories.

Each attempt of a task writes segments into its own subdirectory of a staging directory. The driver makes logs of the
segments from the successful attempts and publishes all logs in one change (see `directory_commit`). Rows can be
appended only to a data directory that was closed. The `.lock` of that directory is never opened, because closing the
file would release a POSIX lock of this process.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from minibroker_pipeline.decode import scan_headers
from minibroker_pipeline.filesystem import LocalFileSystem
from minibroker_pipeline.log_directories.directory_commit import (
    DirectoryStateError,
    PublishedLog,
    check_closed,
    check_writable,
    lock_directory,
    new_staging,
    publish_locked,
    publish_new_directory,
    remove_staging,
    staged_partition,
)
from minibroker_pipeline.log_directories.partition_logs import DataDirectory, FoundPartition, open_partition
from minibroker_pipeline.log_directories.segment_writer import (
    LogOrderError,
    PartitionWriter,
    WrittenSegment,
    write_partition_files,
)
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.sink.options import WriteOptions, check_columns, parse_write_options
from minibroker_pipeline.sink.task_writer import StagedLog, TaskWriter
from minibroker_pipeline.spark_versions import to_arrow_schema
from minibroker_protocol.primitives import new_uuid, parse_uuid
from minibroker_storage.checkpoints import EpochEntry, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import (
    TOPICS_FILE,
    TopicPartition,
    parse_partition_directory,
    parse_topics_file,
)
from minibroker_storage.errors import CorruptCheckpointError, CorruptSnapshotError
from minibroker_storage.files import read_file
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT_SUFFIX, file_name
from minibroker_storage.producer_snapshot import ProducerStateEntry, decode_snapshot


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic's number of partitions, and its id (16 bytes), or None if it has no id."""

    partitions: int
    topic_id: bytes | None


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """A log to which records can be appended.

    `producers` is None if the newest snapshot was not taken at the end of the log, or is damaged.
    """

    end_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: dict[int, ProducerStateEntry] | None


def find_known_topics(data_dir: str) -> dict[str, KnownTopic]:
    """Return all topics that have directories or are named in minibroker's topics file.

    Raises:
        DirectoryStateError: the topics file is damaged.
    """
    if not os.path.isdir(data_dir):
        return {}
    counts: dict[str, int] = {}
    for name in os.listdir(data_dir):
        if (key := parse_partition_directory(name)) and os.path.isdir(f"{data_dir}/{name}"):
            counts[key[0]] = max(counts.get(key[0], 0), key[1] + 1)
    topics = {topic: KnownTopic(count, _topic_id(f"{data_dir}/{topic}-{count - 1}")) for topic, count in counts.items()}
    for topic, stored in _described_topics(f"{data_dir}/{TOPICS_FILE}").items():
        topics[topic] = KnownTopic(max(stored.partitions, counts.get(topic, 0)), stored.topic_id)
    return topics


def _topic_id(directory: str) -> bytes | None:
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (FileNotFoundError, CorruptCheckpointError):
        return None


def _described_topics(path: str) -> dict[str, KnownTopic]:
    try:
        document = parse_topics_file(read_file(path), path)
        return {
            topic: KnownTopic(int(entry["partitions"]), parse_uuid(entry["id"]))
            for topic, entry in document["topics"].items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DirectoryStateError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def closed_log(data_dir: str, topic: str, partition: int) -> ClosedLog | None:
    """Return the log of a partition, or None if it has no directory.

    Raises:
        DirectoryStateError: the log does not end with a whole entry, or its leader epoch checkpoint is damaged.
    """
    directory = f"{data_dir}/{topic}-{partition}"
    if not os.path.isdir(directory):
        return None
    log = open_partition(FoundPartition(topic, partition, directory, DataDirectory(data_dir, LocalFileSystem())))
    end = 0
    for segment in reversed(log.segments):
        end = max(end, segment.base_offset)
        if segment.size:
            entries = log.offset_index(segment)
            position = int(entries.positions[-1]) if len(entries.positions) else 0
            with log.filesystem.open(log.path(segment)) as file:
                headers = scan_headers(file.read_at(position, segment.size - position))
            if not len(headers) or position + headers["position"][-1] + headers["size"][-1] != segment.size:
                raise DirectoryStateError(
                    f"{log.path(segment)} does not end with a whole entry: start a broker on it and stop it"
                )
            end = max(end, int(headers["last_offset"][-1]) + 1)
            break
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    try:
        epochs.load()
    except CorruptCheckpointError as error:
        raise DirectoryStateError(f"{error}: start a broker on it and stop it") from None
    return ClosedLog(end, epochs.entries, _load_producers(directory, log.snapshots, end))


def _load_producers(directory: str, snapshots: tuple[int, ...], end: int) -> dict[int, ProducerStateEntry] | None:
    if not snapshots:
        return {}  # After a clean stop, no snapshot means no producers.
    if snapshots[-1] != end:
        return None
    try:
        with open(f"{directory}/{file_name(end, SNAPSHOT_SUFFIX)}", "rb") as file:
            return decode_snapshot(file.read())
    except CorruptSnapshotError:
        return None


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The segments that one task wrote."""

    logs: tuple[StagedLog, ...]


class LogWriter(DataSourceArrowWriter):
    """Writes the rows of one query. The driver creates, commits and aborts the writer, each in a process of its own."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        """Check the options, the columns and the target before any task runs.

        Raises:
            OptionError: an option or a column is invalid.
            DirectoryStateError: the target is not writable.
            OSError: the target cannot be read.
        """
        parsed = parse_write_options(options)
        check_columns(to_arrow_schema(schema), parsed)
        check_writable(parsed.target)
        topics = find_known_topics(parsed.target)
        existing = topics.get(parsed.topic)
        if existing is not None and parsed.partitions not in {None, existing.partitions}:
            raise OptionError(f"partitions: topic {parsed.topic!r} has {existing.partitions}, and keeps them")
        self._plan = Plan(parsed, new_staging(parsed.target), overwrite, topics)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Spark calls this method in a worker."""
        context, plan = TaskContext.get(), self._plan
        counts = {topic: known_topic.partitions for topic, known_topic in plan.known.items()}
        number = context.partitionId() if context is not None else 0
        return TaskCommitMessage(TaskWriter(plan.options, plan.staging, counts, number).write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows of all tasks. Rows of different tasks are in the order of the tasks' messages."""
        staged_logs = [
            staged for message in messages if isinstance(message, TaskCommitMessage) for staged in message.logs
        ]
        publish_staged(self._plan, staged_logs)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all is below one directory
        """Remove the staged files."""
        remove_staging(self._plan.staging)


MAX_COPIED_BYTES: Final = 64 * 1024 * 1024
"""Smaller segments are copied into common segments, unless there is only one."""
_NEW_LOG: Final = ClosedLog(0, (), {})
LEADER_EPOCH_POSITION: Final = 12
"""The position of the leader epoch in a v2 batch."""


class Plan(NamedTuple):
    """The plan for writing the rows of a query, with the state of the directory when the query was planned."""

    options: WriteOptions
    staging: str
    overwrite: bool
    known: Mapping[str, KnownTopic]


def publish_staged(plan: Plan, staged_logs: Sequence[StagedLog]) -> None:
    """Assemble the staged segments into logs and publish them.

    Raises:
        LogOrderError: the offsets of a partition do not ascend.
        DirectoryInUseError: a broker or another job holds the lock.
        DirectoryStateError: a topic or the directory has changed since the query began.
    """
    target = plan.options.target
    new_logs: dict[TopicPartition, PublishedLog] | None = None
    if not os.path.isdir(target):
        new_logs = _assemble(plan, staged_logs)
        try:
            publish_new_directory(target, plan.staging, new_logs)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
    # The lock is held only for the commit, so a broker can use the directory while the tasks write.
    with lock_directory(target):
        check_closed(target)
        for topic, current in find_known_topics(target).items():
            # The rows were assigned to the partitions that the topic had at the time of planning, so the topic must not
            # have changed since then.
            if topic in {staged.topic for staged in staged_logs} and plan.known.get(topic) != current:
                raise DirectoryStateError(f"topic {topic!r} has come or changed since the query began: run it again")
        replaced = _list_topics(plan, staged_logs) if plan.overwrite else ()
        publish_locked(target, plan.staging, new_logs or _assemble(plan, staged_logs), replaced=replaced)


def _list_topics(plan: Plan, staged_logs: Iterable[StagedLog]) -> list[str]:
    """Return all topics of the query, including a topic that the options name but that has no rows."""
    topics = {plan.options.topic} if plan.options.topic else set[str]()
    return sorted(topics | {staged.topic for staged in staged_logs})


def _assemble(plan: Plan, staged_logs: Sequence[StagedLog]) -> dict[TopicPartition, PublishedLog]:
    by_partition: dict[TopicPartition, list[StagedLog]] = {}
    for staged in staged_logs:
        by_partition.setdefault((staged.topic, staged.partition), []).append(staged)
    published: dict[TopicPartition, PublishedLog] = {}
    for topic in _list_topics(plan, staged_logs):
        known = plan.known.get(topic)
        topic_id = known.topic_id if known is not None else new_uuid()
        highest = max((partition for name, partition in by_partition if name == topic), default=-1)
        for partition in range(known.partitions if known else max(plan.options.partitions or 1, highest + 1)):
            key = topic, partition
            log = None if plan.overwrite else closed_log(plan.options.target, topic, partition)
            # A new topic gets all its partitions, even those without rows, like a topic made by CreateTopics.
            if log is None or key in by_partition:
                published[key] = _assemble_log(plan, key, log, by_partition.get(key, []), topic_id)
    return published


def _assemble_log(
    plan: Plan, key: TopicPartition, log: ClosedLog | None, staged_logs: list[StagedLog], topic_id: bytes | None
) -> PublishedLog:
    """Write the new files of one partition. They continue `log`, if the partition already has a log."""
    base = log or _NEW_LOG
    keep_offsets = plan.options.keep_offsets
    epochs = LeaderEpochCheckpoint("")
    epochs.entries = base.epochs
    # Keep the epoch of the last leader: an offline writer is not a new leader, and epochs must not decrease.
    epoch = max(epochs.latest_epoch, 0)
    directory = staged_partition(plan.staging, *key)
    writer = PartitionWriter(directory, plan.options.files, base_offset=base.end_offset)
    if keep_offsets:
        staged_logs = sorted(staged_logs, key=lambda staged: staged.segments[0].base_offset)
        if log is None and staged_logs:
            writer.roll()  # Roll, so that the first segment begins at the offset of the first record instead of 0.
    is_alone = sum(len(staged.segments) for staged in staged_logs) == 1
    for staged in staged_logs:
        shift = 0 if keep_offsets else writer.log_end_offset
        for segment in staged.segments:
            try:
                _append_segment(writer, segment, shift, epoch, moves_file=is_alone or segment.size > MAX_COPIED_BYTES)
            except LogOrderError as error:
                raise LogOrderError(f"{key[0]}-{key[1]}: {error}") from None
    segments = writer.close()
    if staged_logs:
        epochs.assign(epoch, segments[0].base_offset)
    write_partition_files(
        directory,
        writer.log_end_offset,
        epochs=epochs.entries,
        producers=base.producers,
        topic_id=topic_id if log is None else None,
    )
    return PublishedLog(writer.log_end_offset)


def _append_segment(
    writer: PartitionWriter, segment: WrittenSegment, offset_shift: int, epoch: int, *, moves_file: bool
) -> None:
    """Append a staged segment to a partition, with its offsets raised by `offset_shift`."""
    if moves_file:
        # The file is rewritten only if its offsets must be shifted, or if the final leader epoch differs from the epoch
        # of staged segments, which is 0.
        if offset_shift or epoch:
            data = np.memmap(segment.path, np.uint8, "r+")
            stamp_batches(data, scan_headers(data.data), offset_shift, epoch)
            data.flush()
        writer.adopt(segment, offset_shift)
        return
    copy = np.fromfile(segment.path, np.uint8)
    headers = scan_headers(copy.data)
    stamp_batches(copy, headers, offset_shift, epoch)
    os.unlink(segment.path)
    writer.append(copy.data, headers)


def stamp_batches(data: NDArray[np.uint8], headers: NDArray[Any], offset_shift: int, leader_epoch: int) -> None:
    """Raise the offsets of v2 batches by `offset_shift` and set their leader epoch, in `data` and in `headers`.

    A broker makes the same changes when it appends batches. A batch's checksum covers neither field.
    """
    headers["base_offset"] += offset_shift
    headers["last_offset"] += offset_shift
    headers["leader_epoch"] = leader_epoch
    for name, field_position, kind in (("base_offset", 0, ">i8"), ("leader_epoch", LEADER_EPOCH_POSITION, ">i4")):
        size = np.dtype(kind).itemsize
        positions = headers["position"][:, None] + np.arange(field_position, field_position + size)
        data[positions] = headers[name].astype(kind)[:, None].view(np.uint8)
