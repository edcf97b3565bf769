"""The job: three rounds of tasks over all segments of all logs, and a directory that is there when all is done."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minibroker_pipeline.jobs.compact.key_files import BYTES_PER_ROW
from minibroker_pipeline.jobs.compact.keys import new_secret
from minibroker_pipeline.jobs.compact.newest import NewestTask, find_newest
from minibroker_pipeline.jobs.compact.plan import LogPlan, LogView, plan_log
from minibroker_pipeline.jobs.compact.report import CompactedLog, CompactReport
from minibroker_pipeline.jobs.compact.rewriting import RewriteTask, Rewritten, Tally, rewrite
from minibroker_pipeline.jobs.compact.scan import KeyPlan, ScanTask, SegmentFacts, scan
from minibroker_pipeline.jobs.compact.settings import CompactSettings
from minibroker_pipeline.jobs.task_runner import Progress, run_tasks
from minibroker_pipeline.log_directories.directory_commit import DataDirectoryCommit, PublishedLog, check_apart
from minibroker_pipeline.log_directories.directory_metadata import carried_files
from minibroker_pipeline.log_directories.partition_logs import (
    DataDirectory,
    PartitionLog,
    find_partitions,
    open_partition,
    select,
)
from minibroker_pipeline.log_directories.segment_writer import PartitionSummary, write_partition_files
from minibroker_storage.checkpoints import EpochEntry, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import CLEANER_OFFSETS, TopicPartition
from minibroker_storage.data_directory.offset_checkpoints import parse_offset_checkpoint
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIKELY_RECORD_BYTES: Final = 32
"""Of the log for each key: less than most, so that there are rather too many buckets."""
_MOST_BUCKETS: Final = 4096


def compact(
    paths: Sequence[str],
    target: str,
    settings: CompactSettings | None = None,
    *,
    spark: "SparkSession | None" = None,
    processes: int | None = None,
) -> CompactReport:
    """Write the logs in data directories, or of single partitions, compacted into the new data directory `target`.

    What comes of a log is what a broker's cleaner makes of it in one pass, with a map of keys without limit: closed
    segments below the last stable offset lose what newer records replace, and everything else is copied. Brokers go on
    from there, cleaner-offset-checkpoint included. Nothing is changed in `paths`; no broker should be writing there.

    Args:
        paths: directories of this machine, or addresses that fsspec knows.
        target: a directory that is not there or empty. It appears as a whole, when everything is done.
        settings: see there.
        spark: runs the tasks, whose workers see the target's parent directory under the same path. Without a session
            they run here, in `processes`.
        processes: how many at most. None: as many as there are processors, where there is enough to read.

    Raises:
        ValueError: a topic is not there, a partition is in two directories, the target is not empty.
        decode.DamagedLogError: bytes that are no log; `verify` says what to do about them.
        LogChangedError: a broker has changed the directory meanwhile.
        OSError: a directory or a file cannot be read or written.
    """
    settings = settings or CompactSettings()
    now_ms = time.time_ns() // 1_000_000 if settings.now_ms is None else settings.now_ms
    logs = [open_partition(found) for found in select(find_partitions(paths), topics=settings.topics)]
    check_apart(paths, target)
    with DataDirectoryCommit(target) as commit:
        job = _Job(commit, logs, settings, now_ms)
        progress = Progress("compact", 2 * sum(len(view.sources) for view in job.views), "segments")
        facts = list(run_tasks(scan, *job.scan_tasks(), spark=spark, processes=processes, progress=progress))
        job.plan([one for some in facts for one in some])
        for _ in run_tasks(find_newest, *job.newest_tasks(), spark=spark, processes=processes):
            pass
        written = list(run_tasks(rewrite, *job.rewrite_tasks(), spark=spark, processes=processes, progress=progress))
        return job.finish([one for some in written for one in some])


class _Job:
    """The state of the logs between the rounds; the number of a log is its place in all lists."""

    def __init__(
        self, commit: DataDirectoryCommit, logs: Sequence[PartitionLog], settings: CompactSettings, now_ms: int
    ) -> None:
        self._commit = commit
        self._settings = settings
        self._now_ms = now_ms
        self._secret = new_secret()
        self._keys_directory = f"{commit.staging}/keys"
        os.mkdir(self._keys_directory)
        cleaned = {id(log.data): _cleaner_offsets(log.data) for log in logs}
        self.views = [
            LogView(log, cleaned[id(log.data)].get((log.topic, log.partition)), settings, now_ms) for log in logs
        ]
        self._key_plans = [self._key_plan(number, view) for number, view in enumerate(self.views)]
        self._facts: list[list[SegmentFacts]] = []
        self._plans: list[LogPlan] = []

    def _key_plan(self, number: int, view: LogView) -> KeyPlan | None:
        end = view.settled_base
        if not view.has_dirty(end):
            return None
        size = sum(source.size for source in view.sources if source.base_offset < end)
        rows = max(self._settings.memory_bytes // BYTES_PER_ROW, 1)
        buckets = min(1 + size // _LIKELY_RECORD_BYTES // rows, _MOST_BUCKETS)
        stem = f"{self._keys_directory}/{number}-"
        return KeyPlan(stem, self._secret, view.first_dirty, buckets, self._settings.memory_bytes)

    def scan_tasks(self) -> tuple[list[ScanTask], list[int]]:
        """The first round, and the bytes that each task reads."""
        tasks = [
            ScanTask(number, source, view.aborted_ranges, keys if source.base_offset < view.settled_base else None)
            for number, (view, keys) in enumerate(zip(self.views, self._key_plans, strict=True))
            for source in view.sources
        ]
        return tasks, [task.source.size for task in tasks]

    def plan(self, facts: Sequence[SegmentFacts]) -> None:
        """Take what the first round has found."""
        self._facts = [[] for _ in self.views]
        for one in sorted(facts, key=lambda one: one.base_offset):
            self._facts[one.log].append(one)
        self._plans = [
            plan_log(view, own, self._settings, self._now_ms) for view, own in zip(self.views, self._facts, strict=True)
        ]

    def _verdict(self, number: int, bucket: int) -> str:
        return f"{self._keys_directory}/{number}-{bucket}.newest"

    def newest_tasks(self) -> tuple[list[NewestTask], list[int]]:
        """The second round."""
        tasks: list[NewestTask] = []
        for number, (plan, keys) in enumerate(zip(self._plans, self._key_plans, strict=True)):
            if keys is not None and plan.runs:
                tasks += (
                    NewestTask(plan.runs, bucket, keys, self._verdict(number, bucket)) for bucket in range(keys.buckets)
                )
        sizes = [sum(run.rows for run in task.runs) * BYTES_PER_ROW // task.keys.buckets for task in tasks]
        return tasks, sizes

    def rewrite_tasks(self) -> tuple[list[RewriteTask], list[int]]:
        """The third round."""
        tasks: list[RewriteTask] = []
        for number, (view, plan, keys) in enumerate(zip(self.views, self._plans, self._key_plans, strict=True)):
            directory = self._commit.partition_directory(view.log.topic, view.log.partition)
            buckets = keys.buckets if keys is not None and plan.runs else 0
            tasks += (
                RewriteTask(
                    number,
                    directory,
                    group,
                    view.aborted_ranges if group.is_cleaned else (),
                    plan.active_producers if group.is_cleaned else (),
                    tuple(self._verdict(number, bucket) for bucket in range(buckets)) if group.is_cleaned else (),
                    keys.most_rows if keys is not None else 1,
                    self._now_ms,
                    self._settings,
                )
                for group in plan.groups
            )
        return tasks, [sum(planned.source.size for planned in task.group.segments) for task in tasks]

    def finish(self, written: Sequence[Rewritten]) -> CompactReport:
        """Write what stands beside the segments, and publish all."""
        report = CompactReport(self._commit.target)
        published: dict[TopicPartition, PublishedLog] = {}
        for number, (view, plan) in enumerate(zip(self.views, self._plans, strict=True)):
            log = view.log
            own = [one for one in written if one.log == number]
            summary = PartitionSummary(
                log_end_offset=view.end_offset,
                segments=tuple(sorted(one.segment for one in own)),
                producers=plan.producers,
                epochs=self._epochs(number),
            )
            directory = self._commit.partition_directory(log.topic, log.partition)
            write_partition_files(directory, summary, topic_id=self._topic_id(log))
            published[log.topic, log.partition] = PublishedLog(
                view.end_offset, log.data.log_starts.get((log.topic, log.partition), 0), plan.cleaned_offset
            )
            tally = Tally()
            for one in own:
                tally.add(one.tally)
            report.logs.append(
                CompactedLog(log.topic, log.partition, len(log.segments), len(own), plan.cleaned_offset, tally)
            )
        self._commit.publish(published, carried_files([view.log for view in self.views]))
        return report

    def _epochs(self, number: int) -> tuple[EpochEntry, ...]:
        """Which leader epochs there were: by the log's own checkpoint, since their first batches may be gone."""
        view = self.views[number]
        path = self._copied(view.log, LEADER_EPOCH_CHECKPOINT)
        entries: tuple[EpochEntry, ...] = ()
        if path is not None:
            known = LeaderEpochCheckpoint(path)
            try:
                known.load()
            except CorruptCheckpointError:
                known.entries = ()
            entries = tuple(entry for entry in known.entries if entry.start_offset < view.end_offset)
        latest = entries[-1].epoch if entries else -1
        for facts in self._facts[number]:
            for epoch, start_offset in facts.epochs:
                if epoch > latest:
                    entries, latest = (*entries, EpochEntry(epoch, start_offset)), epoch
        return entries

    def _topic_id(self, log: PartitionLog) -> bytes | None:
        path = self._copied(log, PARTITION_METADATA)
        return None if path is None else read_partition_metadata(path)

    def _copied(self, log: PartitionLog, name: str) -> str | None:
        """A small file of the log here, None if it has none."""
        try:
            content = log.filesystem.read(f"{log.directory}/{name}")
        except FileNotFoundError:
            return None
        path = f"{self._keys_directory}/{name}"
        with open(path, "wb") as file:
            file.write(content)
        return path


def _cleaner_offsets(data: DataDirectory) -> dict[TopicPartition, int]:
    path = f"{data.path}/{CLEANER_OFFSETS}"
    try:
        return parse_offset_checkpoint(data.filesystem.read(path), path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
