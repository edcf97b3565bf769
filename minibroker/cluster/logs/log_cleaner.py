"""The choice of the log to compact next, and the handling of the result (Kafka's `LogCleaner` and `LogCleanerManager`).

Logs are cleaned one at a time, by a separate process (`start_cleaning`), the dirtiest log first, until none is due. The
result replaces the old segments, or is dropped if the log has changed in the meantime.
"""

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.logs.chores import Chores
from minibroker.cluster.partition import Partition
from minibroker.config import BrokerConfig
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.steps import Steps
from minibroker_storage.cleaner import (
    CleaningAbortedError,
    CleaningFailedError,
    CleaningPlan,
    CleaningResult,
    find_cleanable,
    finish_cleaning,
    plan_cleaning,
    remove_cleaned_files,
)
from minibroker_storage.cleaner.process import encode_plan, read_outcome, worker_command, worker_environment
from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint
from minibroker_storage.errors import StorageError
from minibroker_storage.log import Log, LogShape, shape_of

RunCleaning = Callable[[CleaningPlan, Callable[[CleaningResult | BaseException], None]], Callable[[], object]]
"""Runs a cleaning plan off the event loop, then calls back on it with the result or the error.

Returns a function that cancels the cleaning. The callback then gets a CleaningAbortedError.
"""

_UNLIMITED: Final = 1e300
"""From this value on `log.cleaner.io.max.bytes.per.second` is no limit. Its default is Java's largest double."""
_logger = logging.getLogger(__name__)


class LogCleaner:
    """The compaction of one broker's logs.

    Args:
        config: The broker's configuration.
        clock: The broker's clock.
        chores: Runs the search for dirty logs.
        checkpoint: The first dirty offsets.
        opened: Iterates over the open logs.
        run_cleaning: Runs a cleaning plan.
        cleaned: Called with a log that has new segments and a later first dirty offset, and with the log's previous
            shape.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        chores: Chores,
        checkpoint: OffsetCheckpoint,
        *,
        opened: Callable[[], Iterator[tuple[Partition, Log]]],
        run_cleaning: "RunCleaning",
        cleaned: Callable[[Partition, Log, LogShape], None],
    ) -> None:
        self._clock = clock
        self._chores = chores
        self._checkpoint = checkpoint
        self._opened = opened
        self._run_cleaning = run_cleaning
        self._cleaned = cleaned
        self._config = config
        self._current: Partition | None = None
        self._cancel: Callable[[], object] = lambda: None
        self._forced: set[Partition] = set()
        self._waiting: list[Callable[[], None]] = []
        self._uncleanable: set[Partition] = set()
        self._failed: set[Partition] = set()
        self._stopped = False

    def is_cleaning(self, partition: Partition) -> bool:
        """Return whether the partition's log is being cleaned."""
        return self._current is partition

    def forget_partition(self, partition: Partition) -> None:
        """Cancel the cleaning of a partition that is about to be deleted."""
        if self._current is partition:
            self._cancel()

    def stop(self) -> None:
        """Cancel the current cleaning and start no other."""
        self._stopped = True
        if self._current is not None:
            self._cancel()

    def force_cleaning(self, partitions: list[Partition], then: Callable[[], None]) -> None:
        """Clean these logs, no matter how little of them is dirty, and call `then` when nothing is left to clean."""
        self._forced.update(partitions)
        self._waiting.append(then)

    def clean_all_due(self) -> None:
        """Clean all logs that are due, including those whose cleaning failed before, until none is left."""
        if self._current is None:
            # Failed logs are retried once per `log.cleaner.backoff.ms`, since a full disk may have space again.
            self._failed.clear()
            self._chores.run(self._clean_filthiest(), lambda: None)

    def _clean_filthiest(self) -> Steps[None]:
        dirtiest: tuple[tuple[bool, float], Partition, Log] | None = None
        now_ms = self._clock.now_ms()
        for partition, log in self._opened():
            if not log.config.compact or partition in self._uncleanable or partition in self._failed:
                continue
            try:
                cleanable = find_cleanable(log, self._checkpoint.offsets.get(partition.key), now_ms)
            except OSError as error:
                self._skip(partition, error)
                continue
            except (StorageError, DecodeError) as error:
                self._give_up(partition, error)
                continue
            is_forced = partition in self._forced
            is_due = cleanable.is_due(log.config.min_cleanable_dirty_ratio)
            # As in `grabFilthiestCompactedLog`, choose the dirtiest log, which frees the most space per byte read.
            rank = is_forced, cleanable.dirty_ratio
            if (cleanable.cleanable_bytes > 0 if is_forced else is_due) and (dirtiest is None or rank > dirtiest[0]):
                dirtiest = rank, partition, log
            yield
        # The search runs in slices. In the meantime the cleaner may have started on another log, or stopped.
        if self._current is not None or self._stopped:
            return
        if dirtiest is not None:
            self._begin_cleaning(dirtiest[1], dirtiest[2])
            return
        self._forced.clear()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _begin_cleaning(self, partition: Partition, log: Log) -> None:
        limit = self._config.number("log.cleaner.io.max.bytes.per.second")
        try:
            plan = plan_cleaning(
                log,
                self._checkpoint.offsets.get(partition.key),
                self._clock.now_ms(),
                dedupe_buffer_bytes=self._config.integer("log.cleaner.dedupe.buffer.size"),
                load_factor=self._config.number("log.cleaner.io.buffer.load.factor"),
                io_bytes_per_second=limit if limit < _UNLIMITED else None,
                force=partition in self._forced,
            )
            if plan is not None:
                self._cancel = self._run_cleaning(plan, partial(self._end_cleaning, partition, log))
                self._current = partition
                return
        # Skip the log for now if a file cannot be read, or a module of the cleaner cannot be imported.
        except (OSError, ImportError) as error:
            self._skip(partition, error)
        except (ValueError, StorageError, DecodeError) as error:
            self._give_up(partition, error)
        self._clean_next(partition)

    def _end_cleaning(self, partition: Partition, log: Log, outcome: CleaningResult | BaseException) -> None:
        try:
            if isinstance(outcome, BaseException):
                self._handle_failure(partition, log, outcome)
            elif not self._stopped:
                self._swap_segments(partition, log, outcome)
        finally:
            self._clean_next(partition)

    def _swap_segments(self, partition: Partition, log: Log, result: CleaningResult) -> None:
        before = shape_of(log)
        try:
            offset = finish_cleaning(log, result)
        except (OSError, StorageError) as error:
            self._handle_failure(partition, log, error)
        else:
            self._current = None
            # Update the checkpoint only after the segments were swapped. The other order could leave old values of keys
            # in the log.
            self._checkpoint.offsets = {**self._checkpoint.offsets, partition.key: offset}
            self._cleaned(partition, log, before)

    def _handle_failure(self, partition: Partition, log: Log, error: BaseException) -> None:
        if isinstance(error, CleaningAbortedError):
            _logger.debug("%s", error)
            with contextlib.suppress(OSError):  # The directory of a deleted partition may be gone already.
                remove_cleaned_files(log.directory)
            self._failed.add(partition)
        elif isinstance(error, CleaningFailedError):
            self._give_up(partition, error)
        else:
            self._skip(partition, error)

    def _clean_next(self, partition: Partition) -> None:
        self._current = None
        self._forced.discard(partition)
        if not self._stopped:
            self._chores.run(self._clean_filthiest(), lambda: None)

    def _skip(self, partition: Partition, error: BaseException) -> None:
        """Skip a partition in this round."""
        trace = None if isinstance(error, OSError | ImportError | StorageError) else error
        _logger.error("%s could not be cleaned: %s", partition.directory, error, exc_info=trace)
        self._failed.add(partition)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        """Skip a partition until the next start, as Kafka does, since cleaning the partition would fail again."""
        _logger.error("%s is not cleaned any more: %s", partition.directory, error)
        self._uncleanable.add(partition)


Done = Callable[[CleaningResult | BaseException], None]


def start_cleaning(plan: CleaningPlan, done: Done) -> "asyncio.Task[CleaningResult]":
    """Run `plan` in another process, then call `done` with the result or the error.

    Canceling the task ends the process. Once the process has ended, `done` gets a CleaningAbortedError.
    """

    def end(task: "asyncio.Task[CleaningResult]") -> None:
        if task.cancelled():
            done(CleaningAbortedError(f"{plan.directory}: the cleaning is not wanted any more"))
        else:
            done(task.exception() or task.result())

    task = asyncio.get_running_loop().create_task(_clean(plan))
    task.add_done_callback(end)
    return task


async def _clean(plan: CleaningPlan) -> CleaningResult:
    process = await asyncio.create_subprocess_exec(
        *worker_command(), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=worker_environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        # Standard input stays open until the result arrives. If this process dies, the worker ends with it.
        process.stdin.write(encode_plan(plan))
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        process.stdin.close()
        return read_outcome(output, await process.wait(), errors)
    except asyncio.CancelledError:
        # Closing its input stops the worker. A signal could fail, because the worker may have just exited.
        process.stdin.close()
        await process.wait()
        raise
