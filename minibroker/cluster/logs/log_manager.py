"""The logs of a broker (Kafka's `LogManager`): opening, closing and periodic maintenance.

No log is read at the start. A log is opened on first use, or by the first chore that maintains it. The log is then
checked as thoroughly as the end of the last run (`LastStop`) and the log's checkpoints require. A log that no run has
opened stays as the previous run left it. A clean stop is therefore only marked if every log with data was opened since
the last unclean stop.

The chores are those of Kafka's `LogManager`: retention, flushing, checkpoints, expiration of producer ids, and
compaction. Each first runs `log.initial.task.delay.ms` after the start, or after its period if that is shorter.

Everything is in one module because chores and requests share the open logs.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.cluster.logs.chores import Checkpoints
from minibroker.cluster.routing.slices import drain
from minibroker.config.keys import LONG_MAX
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.errors import StorageError
from minibroker_storage.layout import LOG_SUFFIX, create_unused_directory, unlink_files

with lazy:
    from minibroker.cluster.logs import flusher as logs_flusher
    from minibroker.cluster.logs import log_cleaner
    from minibroker_storage import log as log_module

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from minibroker.clock import Clock, Timer
    from minibroker.cluster.data_dir import DataDir
    from minibroker.cluster.durability import Background
    from minibroker.cluster.logs.chores import Chores
    from minibroker.cluster.logs.flusher import Flusher
    from minibroker.cluster.logs.log_cleaner import LogCleaner, RunCleaning
    from minibroker.cluster.partition import Partition
    from minibroker.cluster.topics import Topics
    from minibroker.config import BrokerConfig
    from minibroker_protocol.steps import Steps
    from minibroker_storage.config import LogConfig
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.files import FilePool
    from minibroker_storage.log import Log, LogShape

_RETENTION: Final = "retention"
_FLUSH: Final = "flush"
_CLEANING: Final = "cleaning"
_USED_SLACK: Final = 64
"""The number of partitions remembered before deleted ones are dropped."""
_logger = logging.getLogger(__name__)


class LogManager:
    """The logs of one broker.

    Args:
        config: The broker's configuration.
        data_dir: The data directory.
        files: The open files of the logs.
        clock: The broker's clock.
        chores: Runs periodic work.
        call_soon: Runs a callback once the current wake-up of the event loop has ended.
        background: Runs a function on a thread, then another one on the event loop.
        run_cleaning: Cleans a log; see `RunCleaning`.

    Attributes:
        on_cleaned: Called with the arguments that `Hooks.log_cleaned` describes.
        on_shortened: Called with the arguments that `Hooks.log_shortened` describes.
        was_killed: Whether the previous run on the same data directory did not stop cleanly.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: DataDir,
        files: FilePool,
        clock: Clock,
        chores: Chores,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        background: Background,
        run_cleaning: RunCleaning,
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self.was_killed = data_dir.was_killed
        self._files = files
        self._clock = clock
        self._background = background
        self._run_cleaning = run_cleaning
        self._call_soon = call_soon
        self._flusher: Flusher | None = None
        self._chores = chores
        self._checkpoints = Checkpoints(data_dir.path, self._iterate_open_logs, self._partition, background)
        self._cleaner: LogCleaner | None = None
        #: Called when the retention chore has deleted segments of a partition.
        self.on_retained: Callable[[Partition], None] | None = None
        #: Partitions whose log was used, in order of first use. Some may be deleted.
        self._used: dict[Partition, None] = {}
        self._max_used = _USED_SLACK
        self._all_open = False
        self._flush_period_ms = LONG_MAX
        self._flushed_at: dict[Log, int] = {}
        self._unlinking: set[Timer] = set()
        self._complaints: set[tuple[str, str]] = set()
        self.on_cleaned: Callable[[Partition, LogShape], object] = lambda _, __: None
        self.on_shortened: Callable[[Partition, LogShape, int], object] = lambda _, __, ___: None

    def start(self, topics: Topics) -> None:
        """Maintain the logs of `topics` from now on.

        Raises:
            OSError: The data directory is not writable.
        """
        self._topics = topics
        self._data_dir.take_over()
        self._flush_period_ms = self._config.integer("log.flush.scheduler.interval.ms")
        for key, name, work in (
            ("log.retention.check.interval.ms", _RETENTION, partial(self._visit_logs, self._apply_retention)),
            ("log.flush.scheduler.interval.ms", _FLUSH, self._flush_dirty_logs),
            ("log.flush.offset.checkpoint.interval.ms", "recovery points", self._write_recovery_points),
            ("log.flush.start.offset.checkpoint.interval.ms", "start offsets", self._start_offset_checkpoint),
            ("producer.id.expiration.check.interval.ms", "producer ids", self._expire_producer_ids),
        ):
            self._schedule_chore(key, name, work)
        self.apply_broker_config()

    def _schedule_chore(self, key: str, name: str, work: Callable[[], Steps[None] | None]) -> None:
        first_ms = self._config.integer("log.initial.task.delay.ms")
        self._chores.every(name, self._config.integer(key), work, first_ms=first_ms)

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log, recovering it if necessary. A log without files is empty and not on disk.

        Raises:
            StorageError: The log is damaged.
            OSError: A file cannot be read or written.
        """
        self._record_use(partition)
        config = partition.topic.log_config
        points = self._checkpoints.recovery_points
        recovery_point = points.offsets.get(partition.key, 0)
        log_start_offset = self._checkpoints.start_offsets.offsets.get(partition.key, 0)
        self.shorten_flush_interval(config.flush_ms)
        if not partition.has_files:
            # A partition without files and without a checkpoint was never used. Its log begins without files, so that
            # ten thousand empty partitions need neither inodes nor descriptors.
            if not recovery_point and not log_start_offset:
                return log_module.Log.begin(
                    partition.directory,
                    config=config,
                    files=self._files,
                    now_ms=self._clock.now_ms(),
                    make_directory=partition.make_directory,
                )
            # The directory is gone, but the new log must continue at the offset in the checkpoint.
            partition.make_directory()
        log = log_module.Log.open(
            partition.directory,
            config=config,
            files=self._files,
            last_stop=self._data_dir.last_stop,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=self._clock.now_ms(),
        )
        # If recovery truncated the log below its recovery point, the checkpoint must be lowered. Otherwise new appends
        # below the old recovery point would count as being on disk.
        if log.recovery_point < recovery_point:
            points.offsets = {**points.offsets, partition.key: log.recovery_point}
            points.save(sync=True)
        return log

    def shorten_flush_interval(self, flush_ms: int) -> None:
        """Shorten the period of the flush chore to a log's `flush.ms`, unless the period is already shorter.

        In Kafka `flush.ms` has no effect unless `log.flush.scheduler.interval.ms` is set as well.
        """
        # The period never grows again, since another log may need the shorter one.
        if flush_ms < self._flush_period_ms:
            self._flush_period_ms = flush_ms
            self._chores.every(_FLUSH, flush_ms, self._flush_dirty_logs)

    def apply_broker_config(self) -> None:
        """Apply the broker's configuration: start the cleaner if it is enabled, or change its period."""
        if self._config.boolean("log.cleaner.enable"):
            self._schedule_chore("log.cleaner.backoff.ms", _CLEANING, self._clean_logs)

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        """Apply a new configuration to a log."""
        log.config = config
        self.shorten_flush_interval(config.flush_ms)

    def forget(self, names: Iterable[str]) -> None:
        """Drop the checkpoints of deleted topics whose names new topics reuse.

        Raises:
            OSError: A file cannot be written.
        """
        self._checkpoints.forget(names)

    def forget_partition(self, partition: Partition) -> None:
        """Cancel the cleaning of a partition that is about to be deleted."""
        if self._cleaner is not None:
            self._cleaner.forget_partition(partition)

    @property
    def flusher(self) -> Flusher:
        """The flusher, which forces logs to disk for callers that wait for it."""
        if self._flusher is None:
            self._flusher = logs_flusher.Flusher(self._call_soon, self._background)
        return self._flusher

    def apply_retention(self) -> int:
        """Delete old segments of all logs immediately, and return their number."""
        deleted: list[int] = []
        drain(self._visit_logs(lambda partition, log: deleted.append(self._delete_old(partition, log))))
        return sum(deleted)

    def compact(self, *, roll: bool = False, then: Callable[[], None] = lambda: None) -> None:
        """Clean all compacted logs in turn, no matter how little of them is dirty, then call `then`.

        Active segments are never cleaned. With `roll` each log starts a new segment first.
        """
        drain(self._open_all())
        compacted = [(partition, log) for partition, log in self._iterate_open_logs() if log.config.compact]
        if roll:
            for partition, log in compacted:
                self._try(partial(log.roll, self._clock.now_ms()), partition, "roll: %s: %s")
        cleaner = self._get_cleaner()
        cleaner.force_cleaning([partition for partition, _ in compacted], then)
        cleaner.clean_all_due()

    def flush(self) -> bool:
        """Force all logs to disk, wait for that, and return whether it succeeded. Errors are logged."""
        return logs_flusher.flush_now([log for _, log in self._iterate_open_logs()])

    def write_checkpoints(self, *, sync: bool = True) -> None:
        """Write all checkpoint files. `sync` forces them to disk.

        Raises:
            OSError: A file cannot be written.
        """
        self._checkpoints.save(sync=sync)

    def save_moved_starts(self, partitions: Iterable[Partition]) -> Steps[None]:
        """Save the log start offsets of partitions, moved by DeleteRecords, then remove the segments below them.

        The offsets are saved first. Otherwise records in a segment that is only partly deleted would reappear.
        """
        moved = {partition.key: partition for partition in partitions}
        if not moved:
            return
        starts = self._checkpoints.start_offsets
        moved_starts = {key: partition.log.log_start_offset for key, partition in moved.items()}
        starts.offsets = {**starts.offsets, **moved_starts}
        yield
        try:
            starts.save(sync=False)
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - a disk error that the next checkpoint retries
        for key, partition in moved.items():
            yield
            if self._partition(key) is partition:
                self._try(partial(self._remove_below_start, partition, partition.log), partition)

    def _remove_below_start(self, partition: Partition, log: Log) -> None:
        """Remove segments below the log start offset. Retention by time and size has its own schedule."""
        # Disable retention for this call, because DeleteRecords must not trigger a deletion by `retention.ms`.
        config = log.config
        log.config = replace(config, delete=False)
        try:
            self._delete_old(partition, log)
        finally:
            log.config = config

    @contextmanager
    def replaced(self, *, brings_logs: bool) -> Generator[None]:
        """Load the checkpoints that the block puts in place, and accept logs that a running broker may have left."""
        with ExitStack() as locks:
            for checkpoint in self._checkpoints.all:
                locks.enter_context(checkpoint.lock)
            yield
            for checkpoint in self._checkpoints.all:
                checkpoint.load()
        self._flushed_at = {}
        if brings_logs:
            self._all_open = False
            self._data_dir.mark_killed()

    def close(self, *, keep: bool = True) -> None:
        """Close all logs.

        With `keep`, everything is forced to disk and the stop is marked as clean. Errors are logged. After an error
        there is no such mark, and the next start checks the logs more closely.
        """
        self.stop_chores()
        all_closed = True
        for partition, log in self._iterate_open_logs():
            all_closed &= self._try(log.close, partition, "close: %s: %s")
        if not keep:
            return
        all_closed &= self.flush()
        try:
            self.write_checkpoints()
            # Without the mark, the next start checks the end of each log.
            if all_closed:
                self._data_dir.mark_clean()
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - no traceback

    def create_missing_directories(self) -> Steps[None]:
        """Create the directories of partitions that never held a record, one in each step.

        An Apache Kafka broker may use the data directory next. The steps run after `close`, so a kill between them
        leaves a clean stop and empty partitions.

        Raises:
            OSError: The data directory cannot be read, or a directory cannot be created.
        """
        existing = set(os.listdir(self._data_dir.path))
        twin: Partition | None = None
        for partition in self._partitions():
            if os.path.basename(partition.directory) not in existing:
                path = twin.directory if twin is not None and twin.topic is partition.topic else None
                create_unused_directory(partition.directory, partition.topic.id, twin=path)
                twin = partition
                yield

    def stop_chores(self) -> None:
        """Stop all chores, and cancel the current cleaning (see `RunCleaning`)."""
        self._chores.stop()
        for timer in self._unlinking:
            timer.cancel()
        if self._cleaner is not None:
            self._cleaner.stop()

    def _partitions(self) -> Iterator[Partition]:
        """Iterate over all partitions. The caller may pause: partitions that are deleted meanwhile are skipped."""
        for topic in tuple(self._topics):
            for partition in tuple(topic.partitions):
                # Between two steps, the topic may have been deleted, or deleted and created again.
                if self._topics.get(topic.name) is not topic:
                    break
                yield partition

    def _partition(self, key: TopicPartition) -> Partition | None:
        return self._topics.find_partition(*key)

    def _record_use(self, partition: Partition) -> None:
        self._used[partition] = None
        if len(self._used) > self._max_used:
            # Iterating also removes deleted partitions from `_used`.
            self._max_used = 2 * sum(1 for _ in self._iterate_open_logs()) + _USED_SLACK

    def _iterate_open_logs(self) -> Iterator[tuple[Partition, Log]]:
        """Iterate over the open logs, without visiting partitions whose log is closed."""
        for partition in tuple(self._used):
            log = partition.opened_log
            if self._topics.get(partition.topic.name) is not partition.topic:
                self._used.pop(partition, None)
            elif log is not None:
                yield partition, log

    def _try(self, act: Callable[[], object], partition: Partition, message: str = "retention: %s: %s") -> bool:
        """Call `act`, and return whether it succeeded. Of several errors in a row only the first is logged.

        Args:
            act: The function to call.
            partition: The partition that `act` is about.
            message: The format of the log message, with placeholders for the directory and the error.
        """
        complaint = message, partition.directory
        try:
            act()
        except (OSError, StorageError, DecodeError) as error:
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                _logger.error(message, partition.directory, error)  # noqa: TRY400 - no traceback
            return False
        self._complaints.discard(complaint)
        return True

    def _open_all(self) -> Steps[None]:
        """Open every log with data, one per step, unless this has already been done. Logs created later start empty."""
        if self._all_open:
            return
        all_opened = True
        for partition in self._partitions():
            if partition.opened_log is None:
                # Retention uses the timestamps of segments, so logs without clients must be open, too.
                all_opened &= self._try(partial(_open, partition), partition, "%s cannot be opened: %s")
            yield
        if all_opened:
            self._all_open = True
            self._data_dir.mark_recovered()

    def _visit_logs(self, visit: Callable[[Partition, Log], object]) -> Steps[None]:
        """Open all logs, then call `visit` for each of them."""
        yield from self._open_all()
        for partition, log in self._iterate_open_logs():
            self._try(partial(visit, partition, log), partition)
            yield

    def _apply_retention(self, partition: Partition, log: Log) -> None:
        if self._delete_old(partition, log) and self.on_retained is not None:
            self.on_retained(partition)

    def _delete_old(self, partition: Partition, log: Log) -> int:
        if self._cleaner is not None and self._cleaner.is_cleaning(partition):
            return 0  # Retention waits until the cleaner has finished with this log.
        before = log_module.shape_of(log)
        deleted = log.delete_old_segments(self._clock.now_ms())
        self.schedule_deletion(partition, log)
        if deleted:
            self.on_shortened(partition, before, deleted)
        return deleted

    def schedule_deletion(self, partition: Partition, log: Log) -> None:
        """After `file.delete.delay.ms`, remove the files that a log no longer uses."""
        paths = log.take_deleted_files()
        if paths:
            delay_ms = partition.topic.config.integer("file.delete.delay.ms")
            timer = self._clock.call_later(delay_ms, lambda: self._unlink(timer, paths))
            self._unlinking.add(timer)

    def _unlink(self, timer: Timer, paths: list[str]) -> None:
        self._unlinking.discard(timer)
        self._background(partial(_unlink_and_log_errors, paths))

    def _flush_dirty_logs(self) -> None:
        """Force logs to disk that have not been flushed for `flush.ms` (Kafka's `flushDirtyLogs`)."""
        now_ms = self._clock.now_ms()
        flushed_before, self._flushed_at = self._flushed_at, {}
        for _, log in self._iterate_open_logs():
            flushed_at = flushed_before.get(log, 0)
            if now_ms - flushed_at >= log.config.flush_ms:
                flushed_at = now_ms
                self.flusher.request(log)
            self._flushed_at[log] = flushed_at

    def _write_recovery_points(self) -> None:
        """Save the recovery points, the offsets up to which the logs are on disk.

        Rolled segments are forced to disk first, as Kafka does when it rolls a segment.
        """
        rolled = [log for _, log in self._iterate_open_logs() if log.recovery_point < log.segments[-1].base_offset]

        def save_points(_: OSError | None = None) -> None:
            points = self._checkpoints
            points.update()
            points.save_aside(points.recovery_points, points.high_watermarks)

        for log in rolled[:-1]:
            self.flusher.request(log)
        if rolled:
            # One callback suffices, because all these logs are flushed in the same round.
            self.flusher.request(rolled[-1], save_points)
        else:
            save_points()

    def _start_offset_checkpoint(self) -> None:
        self._checkpoints.update()
        self._checkpoints.save_aside(self._checkpoints.start_offsets)

    def _expire_producer_ids(self) -> None:
        now_ms = self._clock.now_ms()
        for _, log in self._iterate_open_logs():
            log.producers.remove_expired(now_ms)

    def _clean_logs(self) -> None:
        """Clean logs that are due, the dirtiest first (Kafka's `LogCleaner`), if any topic is compacted."""
        if self._cleaner is not None or any(topic.is_compacted for topic in self._topics):
            self._chores.run(self._open_all(), self._get_cleaner().clean_all_due)

    def _get_cleaner(self) -> LogCleaner:
        if self._cleaner is None:
            self._cleaner = log_cleaner.LogCleaner(
                self._config,
                self._clock,
                self._chores,
                self._checkpoints.cleaner_offsets,
                opened=self._iterate_open_logs,
                run_cleaning=self._run_cleaning,
                cleaned=self._finish_cleaning,
            )
        return self._cleaner

    def first_dirty_offset(self, key: TopicPartition) -> int | None:
        """Return the offset below which the cleaner has compacted the log, or None before the first cleaning."""
        return self._checkpoints.cleaner_offsets.offsets.get(key)

    def _finish_cleaning(self, partition: Partition, log: Log, before: LogShape) -> None:
        """Report a cleaned log, save the cleaner's progress, and apply the retention that waited for the cleaning."""
        self.on_cleaned(partition, before)
        self._checkpoints.save_aside(self._checkpoints.cleaner_offsets)
        self._try(partial(self._apply_retention, partition, log), partition)


def _open(partition: Partition) -> None:
    """Open a partition's log if it has data.

    Raises:
        StorageError: The log is damaged.
        OSError: A file cannot be read or written.
    """
    if _holds_data(partition.directory):
        _ = partition.log


def _holds_data(directory: str) -> bool:
    """Return whether any segment has records. A missing directory has none.

    Raises:
        OSError: The directory cannot be read.
    """
    try:
        with os.scandir(directory) as entries:
            return any(entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size for entry in entries)
    except FileNotFoundError:
        return False


def _unlink_and_log_errors(paths: list[str]) -> None:
    """Remove files that a log no longer uses, on any thread. Errors are logged."""
    for path in paths:
        try:
            unlink_files([path])
        except OSError as error:
            _logger.error("a deleted file cannot be removed: %s", error)  # noqa: TRY400 - no traceback
