"""Periodic background work of a broker, in slices that never delay a request for long.

A chore is a function. A long-running chore returns an iterator, and none of its steps takes longer than a request. The
steps run on the event loop for a few milliseconds at a time. Afterwards the chore rests for its period.

`Slices` also runs steps, but for requests. It has a separate queue, so that a request never waits behind a chore, and
it keeps running when the chores are stopped: when the broker stops, it ends the chores first, and pending requests only
when the state is closed. Work in `Slices` returns a result or an error to its owner; a chore returns neither.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.config.keys import LONG_MAX
from minibroker_storage.data_directory.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from minibroker_storage.data_directory.offset_checkpoints import OffsetCheckpoint
from minibroker_storage.descriptors import is_shortage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minibroker.cluster.durability import Background
    from minibroker.cluster.partition import Partition
    from minibroker_storage.data_directory.names import TopicPartition
    from minibroker_storage.log import Log


_SLICE_S: Final = 0.003
_SHORTEST_MS: Final = 10
"""The minimum period. A chore without a pause would keep an idle broker busy."""
_logger = logging.getLogger(__name__)
_Work = Callable[[], Iterator[None] | None]


class _Chore(NamedTuple):
    name: str
    period_ms: int
    work: _Work


class Chores:
    """The chores of one broker, by name."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._chores: dict[str, _Chore] = {}
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def every(self, name: str, period_ms: int, work: _Work, *, first_ms: int | None = None) -> None:
        """Run `work` periodically, replacing any chore of the same name.

        The first run comes after `first_ms`, or after one period if that is shorter. A period of Java's largest
        long means that the chore never runs.
        """
        if self._stopped or period_ms == LONG_MAX:
            return
        if name in self._timers:
            self._timers[name].cancel()
        chore = self._chores[name] = _Chore(name, max(period_ms, _SHORTEST_MS), work)
        self._schedule_next_run(chore, chore.period_ms if first_ms is None else min(first_ms, chore.period_ms))

    def _schedule_next_run(self, chore: _Chore, delay_ms: int) -> None:
        if self._chores.get(chore.name) is chore and not self._stopped:
            self._timers[chore.name] = self._clock.call_later(delay_ms, partial(self._begin, chore), may_wait=True)

    def _begin(self, chore: _Chore) -> None:
        self.run(_run_steps(chore.work), partial(self._schedule_next_run, chore, chore.period_ms))

    def run(self, steps: Iterator[None], then: Callable[[], None]) -> None:
        """Run `steps`, the first ones immediately, then call `then`. An error is logged and ends the steps."""
        if self._stopped:
            return
        end = time.perf_counter() + _SLICE_S
        try:
            for _ in steps:
                if time.perf_counter() > end:
                    self._call_soon(partial(self.run, steps, then))
                    return
        except Exception as error:  # An internal error ends this run, but not the chore.
            if is_shortage(error):  # The first run of a chore loads modules, which fails if file descriptors are short.
                _logger.error("A chore could not be finished: %s", error)  # noqa: TRY400 - the message is enough
            else:
                _logger.exception("A chore could not be finished")
        then()

    def stop(self) -> None:
        """Cancel all chores, including those in progress."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()


def _run_steps(work: _Work) -> Iterator[None]:
    """Yield the steps of a chore. The first step calls the chore's function, so that its errors are logged, too."""
    yield from work() or ()


class Checkpoints:
    """The checkpoints of one data directory.

    Args:
        directory: The data directory.
        opened: Iterates over the open logs.
        partition_of: Returns the partition of a key, or None if it was deleted.
        background: Runs a function on a thread, then another one on the event loop.
    """

    def __init__(
        self,
        directory: str,
        opened: Callable[[], Iterator[tuple[Partition, Log]]],
        partition_of: Callable[[TopicPartition], Partition | None],
        background: Background,
    ) -> None:
        self._opened = opened
        self._partition_of = partition_of
        self._background = background
        names = RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS
        self.all = [OffsetCheckpoint(directory, name) for name in names]
        self.recovery_points, self.start_offsets, self.high_watermarks, self.cleaner_offsets = self.all

    def update(self) -> None:
        """Update the offsets of the open logs. Those of closed logs have not changed."""
        updated = [
            {key: offset for key, offset in checkpoint.offsets.items() if self._partition_of(key)}
            for checkpoint in self.all
        ]
        recovery_points, start_offsets, high_watermarks, _ = updated
        for partition, log in self._opened():
            if not log.has_directory:
                continue
            key = partition.key
            recovery_points[key] = log.recovery_point
            high_watermarks[key] = log.high_watermark
            if log.log_start_offset > log.segments[0].base_offset:
                start_offsets[key] = log.log_start_offset
            else:
                start_offsets.pop(key, None)
        for checkpoint, offsets in zip(self.all, updated, strict=True):
            checkpoint.offsets = offsets

    def forget(self, names: Iterable[str]) -> None:
        """Drop the offsets of deleted topics whose names new topics reuse.

        Raises:
            OSError: A file cannot be written.
        """
        topics = frozenset(names)
        for checkpoint in self.all:
            checkpoint.forget(topics)

    def save(self, *, sync: bool) -> None:
        """Update the offsets and write all files. `sync` forces them to disk.

        Raises:
            OSError: A file cannot be written.
        """
        self.update()
        for checkpoint in self.all:
            checkpoint.save(sync=sync)

    def save_aside(self, *checkpoints: OffsetCheckpoint) -> None:
        """Write these checkpoints on a thread. Errors are logged."""
        for checkpoint in checkpoints:
            if checkpoint.is_behind:
                self._background(checkpoint.save_logged)
