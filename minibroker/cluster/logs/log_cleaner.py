"""Which log is compacted next, and what becomes of it (Kafka's `LogCleaner` and `LogCleanerManager`).

The filthiest log that is due is cleaned, by one process at a time (`start_cleaning`), then the next one, until none is
due. A result is put in its place, or dropped when the log is not what it was.
"""

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from minibroker.clock import Clock
from minibroker.cluster.logs.chores import Chores
from minibroker.cluster.partition import Partition
from minibroker.config import BrokerConfig
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.steps import Steps
from minibroker_storage.cleaner import (
    Cleanable,
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
"""Has a plan carried out aside from the event loop, then calls back on it with the result or with what went wrong.

Returns a function that ends it before its time; the call then brings a CleaningAbortedError.
"""

_UNLIMITED: Final = 1e300
"""`log.cleaner.io.max.bytes.per.second` from here on is no limit; its default is Java's largest double."""
_logger = logging.getLogger(__name__)


class _Cleaning(NamedTuple):
    partition: Partition
    end: Callable[[], object]


class LogCleaner:
    """The compaction of one broker's logs.

    Args:
        checkpoint: the first dirty offsets.
        opened: goes through all open logs.
        cleaned: called with a log that has new segments and a newer first dirty offset, and as it was before.
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
        self._current: _Cleaning | None = None
        self._asked_for: set[Partition] = set()
        self._waiting: list[Callable[[], None]] = []
        self._uncleanable: set[Partition] = set()
        self._failed: set[Partition] = set()
        self._stopped = False

    def is_cleaning(self, partition: Partition) -> bool:
        """Is its log being cleaned right now?"""
        return self._current is not None and self._current.partition is partition

    def forget_partition(self, partition: Partition) -> None:
        """The partition is going to be deleted: give up its cleaning."""
        if self._current is not None and self._current.partition is partition:
            self._current.end()

    def stop(self) -> None:
        """Give up the cleaning that is under way, and begin no other."""
        self._stopped = True
        if self._current is not None:
            self._current.end()

    def ask_for(self, partitions: list[Partition], then: Callable[[], None]) -> None:
        """Clean these logs however little there is to clean; `then` is called when nothing is left to do."""
        self._asked_for.update(partitions)
        self._waiting.append(then)

    def clean_all_due(self) -> None:
        """Look for logs that are due, also those that failed before, and clean them until none is left."""
        if self._current is None:
            # Once in each round of `log.cleaner.backoff.ms`: a full disk may have room by now.
            self._failed.clear()
            self._chores.run(self._clean_filthiest(), lambda: None)

    def _clean_filthiest(self) -> Steps[None]:
        best: tuple[tuple[bool, float], Partition, Log] | None = None
        now_ms = self._clock.now_ms()
        for partition, log in self._opened():
            if not log.config.compact or partition in self._uncleanable or partition in self._failed:
                continue
            try:
                found = find_cleanable(log, self._first_dirty(partition), now_ms)
            except OSError as error:
                self._pass_over(partition, error)
                continue
            except (StorageError, DecodeError) as error:
                self._give_up(partition, error)
                continue
            # The dirtiest first, as `grabFilthiestCompactedLog`: it gains most for each byte that is read.
            rank = partition in self._asked_for, found.dirty_ratio
            if self._is_due(partition, log, found) and (best is None or rank > best[0]):
                best = rank, partition, log
            yield
        # The look-around takes slices; another one may have begun a cleaning meanwhile.
        if self._current is not None or self._stopped:
            return
        if best is not None:
            self._begin(best[1], best[2])
            return
        self._asked_for.clear()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _is_due(self, partition: Partition, log: Log, found: Cleanable) -> bool:
        if partition in self._asked_for:
            return found.cleanable_bytes > 0
        return found.is_due(log.config.min_cleanable_dirty_ratio)

    def _first_dirty(self, partition: Partition) -> int | None:
        return self._checkpoint.offsets.get(partition.key)

    def _begin(self, partition: Partition, log: Log) -> None:
        limit = self._config.number("log.cleaner.io.max.bytes.per.second")
        try:
            plan = plan_cleaning(
                log,
                self._first_dirty(partition),
                self._clock.now_ms(),
                dedupe_buffer_bytes=self._config.integer("log.cleaner.dedupe.buffer.size"),
                load_factor=self._config.number("log.cleaner.io.buffer.load.factor"),
                io_bytes_per_second=limit if limit < _UNLIMITED else None,
                force=partition in self._asked_for,
            )
            if plan is not None:
                end = self._run_cleaning(plan, partial(self._end, partition, log))
                self._current = _Cleaning(partition, end)
                return
        except (OSError, ImportError) as error:  # of the files, or of a module that the first cleaning loads
            self._pass_over(partition, error)
        except (ValueError, StorageError, DecodeError) as error:
            self._give_up(partition, error)
        self._go_on(partition)

    def _end(self, partition: Partition, log: Log, outcome: CleaningResult | BaseException) -> None:
        try:
            if isinstance(outcome, BaseException):
                self._fail(partition, log, outcome)
            elif not self._stopped:
                self._swap(partition, log, outcome)
        finally:
            self._go_on(partition)

    def _swap(self, partition: Partition, log: Log, result: CleaningResult) -> None:
        before = shape_of(log)
        try:
            offset = finish_cleaning(log, result)
        except (OSError, StorageError) as error:
            self._fail(partition, log, error)
        else:
            self._current = None
            # Behind the swap: a checkpoint that is ahead of it could leave old values of keys in the log.
            self._checkpoint.offsets = {**self._checkpoint.offsets, partition.key: offset}
            self._cleaned(partition, log, before)

    def _fail(self, partition: Partition, log: Log, error: BaseException) -> None:
        if isinstance(error, CleaningAbortedError):
            _logger.debug("%s", error)
            with contextlib.suppress(OSError):  # a deleted partition's directory may be gone already
                remove_cleaned_files(log.directory)
            self._failed.add(partition)
        elif isinstance(error, CleaningFailedError):
            self._give_up(partition, error)
        else:
            self._pass_over(partition, error)

    def _go_on(self, partition: Partition) -> None:
        self._current = None
        self._asked_for.discard(partition)
        if not self._stopped:
            self._chores.run(self._clean_filthiest(), lambda: None)

    def _pass_over(self, partition: Partition, error: BaseException) -> None:
        """Not this time."""
        trace = None if isinstance(error, OSError | ImportError | StorageError) else error
        _logger.error("%s could not be cleaned: %s", partition.directory, error, exc_info=trace)
        self._failed.add(partition)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        """Not before the next start, as in Kafka: it would fail again."""
        _logger.error("%s is not cleaned any more: %s", partition.directory, error)
        self._uncleanable.add(partition)


Done = Callable[[CleaningResult | BaseException], None]


def start_cleaning(plan: CleaningPlan, done: Done) -> "asyncio.Task[CleaningResult]":
    """Have `plan` carried out, then call `done` with the result or with what went wrong.

    When the task is cancelled, the process is ended, and `done` gets a CleaningAbortedError once it has.
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
        # Its standard input stays open until it has answered: should this process die, it ends with it.
        process.stdin.write(encode_plan(plan))
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        process.stdin.close()
        return read_outcome(output, await process.wait(), errors)
    except asyncio.CancelledError:
        process.stdin.close()  # it ends at once; a signal might come to a process that has just ended
        await process.wait()
        raise
