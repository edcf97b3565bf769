"""The logs of a broker beside requests (Kafka's `LogManager`): opened, closed, and cared for in between.

No log is read at the start. A log is opened when it is first used, or by the first chore that looks after it. How much
of it is then checked depends on how the last run ended (`LastStop`), and on the recovery point and the log start
offset in the checkpoints. A log that no run has opened stays as the run before has left it. So a clean stop is marked
only when every log with data has been opened since the last unclean one.

The chores are those of Kafka's `LogManager`: retention, flushing, the checkpoints, the expiry of producer ids and
compaction. Each begins `log.initial.task.delay.ms` after the start, or after its period if that is shorter.

This is one module because the chores and the requests share the logs that are open.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.cluster.logs.checkpoint_chores import Checkpoints
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
_FEW_USED: Final = 64
"""So many partitions are remembered without a look at which of them are gone."""
_logger = logging.getLogger(__name__)


class LogManager:
    """The logs of one broker.

    Args:
        call_soon: runs a callback once the current wake-up of the event loop is done.
        background: runs a function aside from the event loop, then another one on it.
        run_cleaning: has a log cleaned; see `RunCleaning`.

    Attributes:
        on_cleaned, on_shortened: called as `Hooks.log_cleaned` and `Hooks.log_shortened` say.
        was_killed: the run before this one, on the same data directory, has not stopped cleanly.
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
        self._checkpoints = Checkpoints(data_dir.path, self._opened, self._partition, background)
        self._cleaner: LogCleaner | None = None
        #: Called when retention has deleted segments of a partition by itself; None for nobody.
        self.on_retained: Callable[[Partition], None] | None = None
        #: Partitions whose log was used, in that order; some may be gone.
        self._used: dict[Partition, None] = {}
        self._most_used = _FEW_USED
        self._all_open = False
        self._flush_period_ms = LONG_MAX
        self._flushed_at: dict[Log, int] = {}
        self._unlinking: set[Timer] = set()
        self._complaints: set[tuple[str, str]] = set()
        self.on_cleaned: Callable[[Partition, LogShape], object] = lambda _, __: None
        self.on_shortened: Callable[[Partition, LogShape, int], object] = lambda _, __, ___: None

    def start(self, topics: Topics) -> None:
        """Look after the logs of `topics` from now on. OSError when the data directory takes no writes."""
        self._topics = topics
        self._data_dir.take_over()
        self._flush_period_ms = self._config.integer("log.flush.scheduler.interval.ms")
        self._every("log.retention.check.interval.ms", _RETENTION, lambda: self._retention(self._retain))
        self._every("log.flush.scheduler.interval.ms", _FLUSH, self._flushing)
        self._every("log.flush.offset.checkpoint.interval.ms", "recovery points", self._recovery_point_checkpoint)
        self._every("log.flush.start.offset.checkpoint.interval.ms", "start offsets", self._start_offset_checkpoint)
        self._every("producer.id.expiration.check.interval.ms", "producer ids", self._producer_id_expiration)
        if self._config.boolean("log.cleaner.enable"):
            self._every("log.cleaner.backoff.ms", _CLEANING, self._cleaning)

    def _every(self, key: str, name: str, work: Callable[[], Steps[None] | None]) -> None:
        first_ms = self._config.integer("log.initial.task.delay.ms")
        self._chores.every(name, self._config.integer(key), work, first_ms=first_ms)

    # What the topics ask for

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log, which recovers it if need be; without files it is empty, and not on disk.

        StorageError or OSError when that fails.
        """
        self._note_used(partition)
        topic = partition.topic
        key = partition.key
        recovery_point = self._checkpoints.recovery_points.offsets.get(key, 0)
        if not partition.has_files:
            # No file and no checkpoint: never used. Ten thousand empty partitions then cost neither inodes nor
            # descriptors.
            if not recovery_point and not self._checkpoints.start_offsets.offsets.get(key, 0):
                self.shorten_flush_interval(topic.log_config.flush_ms)
                return log_module.Log.begin(
                    partition.directory,
                    config=topic.log_config,
                    files=self._files,
                    now_ms=self._clock.now_ms(),
                    make_directory=partition.make_directory,
                )
            partition.make_directory()  # it has gone; where it ended is known
        log = log_module.Log.open(
            partition.directory,
            config=topic.log_config,
            files=self._files,
            last_stop=self._data_dir.last_stop,
            recovery_point=recovery_point,
            log_start_offset=self._checkpoints.start_offsets.offsets.get(key, 0),
            now_ms=self._clock.now_ms(),
        )
        # Recovery has cut the log below its checkpoint.
        if log.recovery_point < recovery_point:
            # What is appended from here on must not be taken for what was on disk before.
            self._checkpoints.recovery_points.offsets = {
                **self._checkpoints.recovery_points.offsets,
                key: log.recovery_point,
            }
            self._checkpoints.recovery_points.save(sync=True)
        self.shorten_flush_interval(topic.log_config.flush_ms)
        return log

    def shorten_flush_interval(self, flush_ms: int) -> None:
        """A log wants to be forced to disk this often: look after it often enough.

        In Kafka `flush.ms` has no effect unless `log.flush.scheduler.interval.ms` is set as well.
        """
        # Never longer again: another log may still want the shorter period.
        if flush_ms < self._flush_period_ms:
            self._flush_period_ms = flush_ms
            self._chores.every(_FLUSH, flush_ms, self._flushing)

    def broker_reconfigured(self) -> None:
        """The broker's configuration has changed: the cleaner may rest for another while."""
        if self._config.boolean("log.cleaner.enable"):
            self._every("log.cleaner.backoff.ms", _CLEANING, self._cleaning)

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        """Let a log act on a new configuration."""
        log.config = config
        self.shorten_flush_interval(config.flush_ms)

    def forget(self, names: Iterable[str]) -> None:
        """New topics take these names: checkpoints of older topics of that name are not theirs. OSError."""
        self._checkpoints.forget(names)

    def forget_partition(self, partition: Partition) -> None:
        """The partition is going to be deleted."""
        if self._cleaner is not None:
            self._cleaner.forget_partition(partition)

    # What can be asked for at any time

    @property
    def flusher(self) -> Flusher:
        """Forces logs to disk for callers that wait for it."""
        if self._flusher is None:
            self._flusher = logs_flusher.Flusher(self._call_soon, self._background)
        return self._flusher

    def apply_retention(self) -> int:
        """Delete old segments of all logs immediately; return their number."""
        deleted: list[int] = []
        drain(self._retention(lambda partition, log: deleted.append(self._delete_old(partition, log))))
        return sum(deleted)

    def compact(self, *, roll: bool = False, then: Callable[[], None] = lambda: None) -> None:
        """Clean all compacted logs, however little there is to clean, one after the other; then call `then`.

        Active segments stay as they are, as ever; with `roll` each log begins a new one before.
        """
        drain(self._open_all())
        compacted = [(partition, log) for partition, log in self._opened() if log.config.compact]
        if roll:
            for partition, log in compacted:
                self._try("roll", lambda _, log: log.roll(self._clock.now_ms()), partition, log)
        cleaner = self._the_cleaner()
        cleaner.ask_for([partition for partition, _ in compacted], then)
        cleaner.clean_all_due()

    def flush(self) -> bool:
        """Force all logs to disk and wait for it; says whether all are there. Errors are logged."""
        return logs_flusher.flush_now([log for _, log in self._opened()])

    def write_checkpoints(self, *, sync: bool = True) -> None:
        """Write all checkpoint files, with `sync` down to the disk. OSError."""
        self._checkpoints.save(sync=sync)

    def starts_moved(self, partitions: Iterable[Partition]) -> Steps[None]:
        """The log start offsets of these partitions were moved (DeleteRecords): note that, and remove what is below.

        The offsets are in their file first, since without it the records that stay in a segment would come back.
        """
        moved = {partition.key: partition for partition in partitions}
        if not moved:
            return
        starts = self._checkpoints.start_offsets
        starts.offsets = {**starts.offsets, **{key: each.log.log_start_offset for key, each in moved.items()}}
        yield
        try:
            starts.save(sync=False)
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - the disk's fault; the next checkpoint tries again
        for key, partition in moved.items():
            yield
            if self._partition(key) is partition:
                self._try(_RETENTION, self._remove_below_start, partition, partition.log)

    def _remove_below_start(self, partition: Partition, log: Log) -> None:
        """Remove segments below the log start offset. Those that are too old or too many wait for their round."""
        # DeleteRecords must not bring forward what `retention.ms` removes.
        config = log.config
        log.config = replace(config, delete=False)
        try:
            self._delete_old(partition, log)
        finally:
            log.config = config

    @contextmanager
    def replaced(self, *, brings_logs: bool) -> Generator[None]:
        """Take over the checkpoints that the block puts in place, and logs that a running broker may have left."""
        with ExitStack() as locks:
            for checkpoint in self._checkpoints.all:
                locks.enter_context(checkpoint.lock)
            yield
            for checkpoint in self._checkpoints.all:
                checkpoint.load()
        self._flushed_at = {}
        if brings_logs:
            self._all_open = False
            self._data_dir.note_killed()

    def close(self, *, keep: bool = True) -> None:
        """Close all logs.

        Unless the data directory is not kept anyway, all is forced to disk and the stop marked as clean. An error is
        logged; then there is no such mark, and the next start looks closer.
        """
        self.stop_chores()
        sound = True
        for partition, log in self._opened():
            sound &= self._try("close", lambda _, log: log.close(), partition, log)
        if not keep:
            return
        sound &= self.flush()
        try:
            self.write_checkpoints()
            # One log that could not be closed is enough: without the mark the next start looks at the end of each.
            if sound:
                self._data_dir.mark_clean()
        except OSError as error:
            _logger.error("%s", error)  # noqa: TRY400 - the disk's fault, not ours: the message says all

    def missing_directories(self) -> list[Callable[[], None]]:
        """Return functions that make the directories of partitions that have held no record.

        A Kafka may be next to use them. They are made after `close`: a kill amid this leaves a clean stop, and
        partitions that are empty. Both raise OSError.
        """
        there = set(os.listdir(self._data_dir.path))
        makers: list[Callable[[], None]] = []
        twin: Partition | None = None
        for partition in self._partitions():
            if os.path.basename(partition.directory) not in there:
                alike = twin.directory if twin is not None and twin.topic is partition.topic else None
                makers.append(partial(create_unused_directory, partition.directory, partition.topic.id, twin=alike))
                twin = partition
        return makers

    def stop_chores(self) -> None:
        """Begin no more chores; a cleaning that is under way is given up (see `RunCleaning`)."""
        self._chores.stop()
        for timer in self._unlinking:
            timer.cancel()
        if self._cleaner is not None:
            self._cleaner.stop()

    # Going through the logs

    def _partitions(self) -> Iterator[Partition]:
        """All partitions that exist when their turn comes, so the caller may pause in between."""
        for topic in tuple(self._topics):
            for partition in tuple(topic.partitions):
                # It was deleted between two steps, or is another one of the same name.
                if self._topics.get(topic.name) is not topic:
                    break
                yield partition

    def _partition(self, key: TopicPartition) -> Partition | None:
        topic = self._topics.get(key[0])
        return topic.partition(key[1]) if topic is not None else None

    def _note_used(self, partition: Partition) -> None:
        self._used[partition] = None
        if len(self._used) > self._most_used:
            self._most_used = 2 * sum(1 for _ in self._opened()) + _FEW_USED  # which drops those that are gone

    def _opened(self) -> Iterator[tuple[Partition, Log]]:
        """The open logs, however many partitions there are beside them."""
        for partition in tuple(self._used):
            log = partition.opened_log
            if self._topics.get(partition.topic.name) is not partition.topic:
                self._used.pop(partition, None)
            elif log is not None:
                yield partition, log

    def _try(self, subject: str, act: Callable[[Partition, Log], object], partition: Partition, log: Log) -> bool:
        """Whether `act` went well. Its error is logged, once until it goes well again."""
        complaint = subject, partition.directory
        try:
            act(partition, log)
        except (OSError, StorageError, DecodeError) as error:
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                _logger.error("%s: %s: %s", subject, partition.directory, error)  # noqa: TRY400 - the disk's fault
            return False
        self._complaints.discard(complaint)
        return True

    def _open_all(self) -> Steps[None]:
        """Open every log that holds data, one a step, unless that has been done. Logs that came later are empty."""
        if self._all_open:
            return
        all_went_well = True
        for partition in self._partitions():
            if partition.opened_log is None:
                # Retention counts by timestamps of segments, so a log that no client uses has to be open as well.
                all_went_well &= self._open(partition)
            yield
        if all_went_well:
            self._all_open = True
            self._data_dir.note_recovered()

    def _open(self, partition: Partition) -> bool:
        """Open the partition's log if it holds data; says whether that went well."""
        complaint = "opening", partition.directory
        try:
            if _holds_data(partition.directory):
                _ = partition.log
        except (OSError, StorageError, DecodeError) as error:
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                _logger.error("%s cannot be opened: %s", partition.directory, error)  # noqa: TRY400 - not ours
            return False
        return True

    # Retention

    def _retention(self, delete: Callable[[Partition, Log], object]) -> Steps[None]:
        """Open all logs, then call `delete` for each of them."""
        yield from self._open_all()
        for partition, log in self._opened():
            self._try(_RETENTION, delete, partition, log)
            yield

    def _retain(self, partition: Partition, log: Log) -> None:
        if self._delete_old(partition, log) and self.on_retained is not None:
            self.on_retained(partition)

    def _delete_old(self, partition: Partition, log: Log) -> int:
        if self._cleaner is not None and self._cleaner.is_cleaning(partition):
            return 0  # once that is through
        before = log_module.shape_of(log)
        deleted = log.delete_old_segments(self._clock.now_ms())
        self.schedule_deletion(partition, log)
        if deleted:
            self.on_shortened(partition, before, deleted)
        return deleted

    def schedule_deletion(self, partition: Partition, log: Log) -> None:
        """Remove the files that a log has given up, `file.delete.delay.ms` from now."""
        paths = log.take_deleted_files()
        if paths:
            delay_ms = partition.topic.config.integer("file.delete.delay.ms")
            timer = self._clock.call_later(delay_ms, lambda: self._unlink(timer, paths))
            self._unlinking.add(timer)

    def _unlink(self, timer: Timer, paths: list[str]) -> None:
        self._unlinking.discard(timer)
        self._background(partial(_unlink_logged, paths))

    # Flushing and checkpoints

    def _flushing(self) -> None:
        """Force to disk what was not for `flush.ms` (Kafka's `flushDirtyLogs`)."""
        now_ms = self._clock.now_ms()
        before, self._flushed_at = self._flushed_at, {}
        for _, log in self._opened():
            flushed_at = before.get(log, 0)
            if now_ms - flushed_at >= log.config.flush_ms:
                flushed_at = now_ms
                self.flusher.request(log)
            self._flushed_at[log] = flushed_at

    def _recovery_point_checkpoint(self) -> None:
        """Note up to where all is on disk. Closed segments are forced there first, as Kafka does when it rolls."""
        # A checkpoint says that all below is on disk, so what has rolled is forced there before it is written.
        rolled = [log for _, log in self._opened() if log.recovery_point < log.segments[-1].base_offset]

        def note(_: OSError | None = None) -> None:
            points = self._checkpoints
            points.note()
            points.save_aside(points.recovery_points, points.high_watermarks)

        for log in rolled[:-1]:
            self.flusher.request(log)
        if rolled:
            self.flusher.request(rolled[-1], note)  # one round flushes them all
        else:
            note()

    def _start_offset_checkpoint(self) -> None:
        self._checkpoints.note()
        self._checkpoints.save_aside(self._checkpoints.start_offsets)

    # The rest

    def _producer_id_expiration(self) -> None:
        now_ms = self._clock.now_ms()
        for _, log in self._opened():
            log.producers.remove_expired(now_ms)

    def _cleaning(self) -> None:
        """Clean the filthiest log (Kafka's `LogCleaner`), unless there is nothing compacted at all."""
        if self._cleaner is not None or any(topic.is_compacted for topic in self._topics):
            self._chores.run(self._open_all(), self._the_cleaner().clean_all_due)

    def _the_cleaner(self) -> LogCleaner:
        if self._cleaner is None:
            self._cleaner = log_cleaner.LogCleaner(
                self._config,
                self._clock,
                self._chores,
                self._checkpoints.cleaner_offsets,
                opened=self._opened,
                run_cleaning=self._run_cleaning,
                cleaned=self._cleaned,
            )
        return self._cleaner

    def first_dirty_offset(self, key: TopicPartition) -> int | None:
        """The cleaner has compacted the log below it; None before the first cleaning."""
        return self._checkpoints.cleaner_offsets.offsets.get(key)

    def _cleaned(self, partition: Partition, log: Log, before: LogShape) -> None:
        """The log has cleaned segments; retention has waited for that."""
        self.on_cleaned(partition, before)
        self._checkpoints.save_aside(self._checkpoints.cleaner_offsets)
        self._try(_RETENTION, self._retain, partition, log)


def _holds_data(directory: str) -> bool:
    """Return whether there is a message in any segment; there is none without a directory. OSError."""
    try:
        with os.scandir(directory) as entries:
            return any(entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size for entry in entries)
    except FileNotFoundError:
        return False


def _unlink_logged(paths: list[str]) -> None:
    """Remove the files that a log has given up, in any thread; an error is logged."""
    for path in paths:
        try:
            unlink_files([path])
        except OSError as error:
            _logger.error("a deleted file cannot be removed: %s", error)  # noqa: TRY400 - the disk's fault
