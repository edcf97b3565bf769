"""Forcing logs to disk off the event loop, with one fsync for many requests (group commit).

Callers request a flush and get a callback. Requests made during an fsync wait for the next one, which covers everything
appended by then. A disk that needs ten milliseconds per fsync therefore limits the latency of responses, but not their
rate.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent import futures
from typing import TYPE_CHECKING, Final

from minibroker.cluster.durability import Background
from minibroker_storage.flush import LogFlush

if TYPE_CHECKING:
    from minibroker_storage.log import Log

Done = Callable[[OSError | None], None]
_THREADS: Final = 8
_logger = logging.getLogger(__name__)


class Flusher:
    """The fsyncs of one broker, one round at a time.

    Args:
        call_soon: Runs a callback once the current wake-up of the event loop has ended and its appends are written.
        background: See `Background`.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], background: Background) -> None:
        self._call_soon = call_soon
        self._background = background
        self._requested: dict[Log, list[Done]] = {}
        self._running = False

    def request(self, log: Log, done: Done | None = None) -> None:
        """Force the content of `log` at the end of this wake-up to disk, then call `done` on the event loop.

        `done` gets None, or the error of a failed fsync, which was already logged.
        """
        # Requests that arrive during an fsync share the next fsync, like a group commit in databases.
        if not self._requested and not self._running:
            self._call_soon(self._start_round)
        waiting = self._requested.setdefault(log, [])
        if done is not None:
            waiting.append(done)

    def _start_round(self) -> None:
        requested, self._requested = self._requested, {}
        flushes: list[tuple[LogFlush, list[Done]]] = []
        finished: list[Done] = []
        for log, waiting in requested.items():
            flush = log.begin_flush()
            if flush is not None:
                flushes.append((flush, waiting))
            else:
                finished += waiting
        if flushes:
            self._running = True
            errors: list[OSError | None] = []
            self._background(
                lambda: errors.extend(_run(flush) for flush, _ in flushes), lambda: self._end_round(flushes, errors)
            )
        for done in finished:
            done(None)

    def _end_round(self, flushes: list[tuple[LogFlush, list[Done]]], errors: list[OSError | None]) -> None:
        self._running = False
        for (flush, _), error in zip(flushes, errors, strict=True):
            flush.finish(error)
        # Start the next round before the callbacks, so the disk is not idle while responses are built.
        if self._requested:
            self._start_round()
        for (_, waiting), error in zip(flushes, errors, strict=True):
            for done in waiting:
                done(error)


def flush_now(logs: list[Log]) -> bool:
    """Force `logs` to disk, several in parallel, wait for that, and return whether all succeeded. Errors are logged."""
    flushes = [flush for log in logs if (flush := log.begin_flush()) is not None]
    if len(flushes) > 1:
        # Use several threads, because the kernel can overlap fsyncs of different files.
        with futures.ThreadPoolExecutor(_THREADS) as threads:
            errors = list(threads.map(_run, flushes))
    else:
        errors = [_run(flush) for flush in flushes]
    for flush, error in zip(flushes, errors, strict=True):
        flush.finish(error)
    return not any(errors)


def _run(flush: LogFlush) -> OSError | None:
    try:
        flush.run()
    except OSError as error:
        _logger.error("%s cannot be forced to disk: %s", flush.directory, error)  # noqa: TRY400 - no traceback
        return error
    return None
