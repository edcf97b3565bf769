"""A segment converted: what a task does."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minibroker_pipeline.decode import AbortedRange, load_engine
from minibroker_pipeline.decode.blocks import RecordEngine
from minibroker_pipeline.filesystems.filesystem import UNKNOWN, FileSystem, LocalFileSystem, OpenFile
from minibroker_pipeline.jobs.convert.entries import EntryConverter, Piece, Source
from minibroker_pipeline.jobs.convert.report import ConvertCounts
from minibroker_pipeline.jobs.convert.settings import ConvertSettings
from minibroker_pipeline.jobs.segment_walk import read_entries
from minibroker_pipeline.log_directories.segment_writer import PartitionWriter, WrittenSegment
from minibroker_pipeline.log_directories.staging import staged_task
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.checkpoints import EpochEntry
from minibroker_storage.layout import DELETED_SUFFIX
from minibroker_storage.transaction_index import AbortedTxn


class SegmentTask(NamedTuple):
    """A segment's log, as it was listed; and where to put what comes of it."""

    topic: str
    partition: int
    filesystem: FileSystem
    path: str
    base_offset: int
    #: The offset that the next segment begins with, or behind the log's last entry.
    end_offset: int
    size: int
    identity: int
    #: Aborted transactions whose markers are here; and all whose records may be, with those that are open.
    aborted: tuple[AbortedTxn, ...]
    uncommitted: tuple[AbortedRange, ...]
    settings: ConvertSettings
    staging: str


class ConvertedSegment(NamedTuple):
    """The result of one segment, in a directory of the task's own: no, one or more segments."""

    topic: str
    partition: int
    counts: ConvertCounts
    segments: tuple[WrittenSegment, ...]
    epochs: tuple[EpochEntry, ...]


def convert_segments(tasks: Sequence[SegmentTask]) -> list[ConvertedSegment]:
    """The task. `DamagedLogError`, `ConvertError`, `OSError`."""
    engine = load_engine()
    return [_convert_segment(task, engine) for task in tasks]


def _convert_segment(task: SegmentTask, engine: RecordEngine) -> ConvertedSegment:
    settings = task.settings if task.settings.changes(task.topic) else None
    end_offset = min(task.end_offset, task.base_offset + INT32_MAX + 1)
    source = Source(task.topic, task.partition, task.path, task.base_offset, end_offset, task.uncommitted)
    converter = EntryConverter(source, settings, task.settings.mode, engine)
    with _open(task) as file:
        output = _Output(task)
        for piece in read_entries(file, task.size, engine):
            for converted in converter.convert(piece):
                output.append(converted)
    segments, epochs = output.close()
    return ConvertedSegment(task.topic, task.partition, converter.counts, segments, epochs)


def _open(task: SegmentTask) -> OpenFile:
    """The file that was listed, under its name or the one that it has until it is deleted. `FileNotFoundError`."""
    for name in (task.path, task.path + DELETED_SUFFIX):
        try:
            file = task.filesystem.open(name)
        except FileNotFoundError:
            continue
        if task.identity in {UNKNOWN, file.identity}:
            return file
        file.__exit__(None, None, None)
    raise FileNotFoundError(2, "deleted or compacted since the job has begun; start it again", task.path)


class _Output:
    """The files, which come into being with the first entry."""

    def __init__(self, task: SegmentTask) -> None:
        self._task = task
        self._writer: PartitionWriter | None = None
        self._pending = list(task.aborted)
        # Retention goes by the file's time where records have none.
        self._modified_ns = os.stat(task.path).st_mtime_ns if _is_local(task) else None

    def append(self, piece: Piece) -> None:
        """Write entries, and at their markers what they abort."""
        writer = self._writer
        if writer is None:
            writer = self._writer = PartitionWriter(
                staged_task(self._task.staging),
                self._task.settings.files(),
                base_offset=self._task.base_offset,
                track_transactions=False,
            )
        last_offsets = piece.headers["last_offset"]
        begin = 0
        while begin < len(last_offsets):
            behind = len(last_offsets)
            if self._pending:
                behind = min(int(np.searchsorted(last_offsets, self._pending[0].last_offset)) + 1, behind)
            writer.modified_ns = self._modified_ns
            writer.append(piece.data, piece.headers[begin:behind])
            reached = int(last_offsets[behind - 1])
            due = [one for one in self._pending if one.last_offset <= reached]
            if due:
                writer.note_aborted(due)
                self._pending = self._pending[len(due) :]
            begin = behind

    def close(self) -> tuple[tuple[WrittenSegment, ...], tuple[EpochEntry, ...]]:
        """Complete the files."""
        if self._writer is None:
            return (), ()
        self._writer.note_aborted(self._pending)
        self._writer.modified_ns = self._modified_ns
        return self._writer.close(), self._writer.summary.epochs


def _is_local(task: SegmentTask) -> bool:
    return isinstance(task.filesystem, LocalFileSystem) and os.path.exists(task.path)
