"""Runs the tasks of a job in this process, in local processes, or in a Spark session."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from minibroker_pipeline.decode.decoder import prepare_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

BYTES_PER_PROCESS: Final = 128 * 1024 * 1024
"""The number of bytes that a process handles in about the time that it takes to start another one."""
SCANNED_BYTES_PER_PROCESS: Final = 1024 * 1024 * 1024
"""Like `BYTES_PER_PROCESS`, for jobs that read no keys and values."""
_TASK_BYTES: Final = 64 * 1024 * 1024
_CLEAR: Final = "\r\x1b[K"


def run_tasks(
    function: Callable[[T], R],
    items: Sequence[T],
    sizes: Sequence[int],
    *,
    label: tuple[str, str],
    spark: "SparkSession | None" = None,
    processes: int | None = None,
    bytes_per_process: int = BYTES_PER_PROCESS,
) -> Iterator[R]:
    """Yield the results of `function` for all items, in any order. Items are grouped into tasks of about equal size.

    Args:
        function: a function at module level, so that other processes can import it. The function, its arguments and
            its results must be picklable.
        items: the arguments, with related items next to each other.
        sizes: the bytes to read for each item.
        label: the name of the job and of its items, for a terminal: ("verify", "segments").
        spark: a session whose workers have this package and see the same paths.
        processes: the maximum number of processes without a session, or None for one per CPU if there is enough to
            read.
        bytes_per_process: the number of bytes that justifies another process.
    """
    if spark is not None:
        if tasks := _group_items(items, sizes, _TASK_BYTES):
            runs = spark.sparkContext.parallelize(tasks, len(tasks))
            yield from runs.flatMap(partial(_run_in_worker, function)).collect()
        return
    progress = Progress(label[0], len(items), label[1])
    total = sum(sizes)
    count = processes or min(os.cpu_count() or 1, 1 + total // bytes_per_process)
    tasks = _group_items(items, sizes, max(1, min(_TASK_BYTES, total // (4 * count))))
    if count == 1 or len(tasks) <= 1:
        for item in items:
            yield function(item)
            progress.add(1)
        return
    # Start new interpreters, because the threads of Arrow and numba do not survive a fork.
    with ProcessPoolExecutor(min(count, len(tasks)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_run_all, function, task) for task in tasks]
        for future in as_completed(futures):
            results = future.result()
            yield from results
            progress.add(len(results))


def _run_all(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def _run_in_worker(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    prepare_worker()
    return _run_all(function, items)


def _group_items(items: Sequence[T], sizes: Sequence[int], task_bytes: int) -> list[list[T]]:
    """Group items into tasks of at most `task_bytes` or of a single item."""
    tasks: list[list[T]] = []
    filled = 0
    for item, size in zip(items, sizes, strict=True):
        if not tasks or filled + size > task_bytes:
            tasks.append([])
            filled = 0
        tasks[-1].append(item)
        filled += size
    return tasks


class Progress:
    """A progress line on a terminal, such as `verify: 12 of 80 segments`.

    Nothing is printed if there is no terminal.
    """

    def __init__(self, job: str, total: int, unit: str, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._job = job
        self._total = total
        self._unit = unit
        self._done = 0

    def add(self, count: int) -> None:
        """Add to the number of completed items, and update the line."""
        self._done += count
        if self._is_shown:
            end = "" if self._done < self._total else _CLEAR
            self._stream.write(f"{_CLEAR}{self._job}: {self._done:,} of {self._total:,} {self._unit}{end}")
            self._stream.flush()
