"""A watchdog for an event loop shared with the caller's code: warns if the loop is blocked while clients wait.

`async with Broker()` runs the broker on the caller's loop. If a client blocks that loop, the client waits for
the broker, and the broker waits for the client. The client hangs until its own timeout, or loses its messages
without an error.
"""

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from inspect import CO_COROUTINE
from traceback import walk_stack
from types import FrameType
from typing import Final

from minibroker.cluster.advice import BLOCKED_LOOP, LOGGER
from minibroker.cluster.errors import MinibrokerWarning, is_ours

_logger: Final = logging.getLogger(LOGGER)

_CHECK_INTERVAL_S: Final = 0.5
"""The pause between checks of a running loop, in seconds."""
_BLOCKED_AFTER_S: Final = 1.0
"""The time without a response after which a loop counts as blocked, in seconds."""


class LoopWatch:
    """A thread that watches the running event loop and warns once.

    Args:
        has_waiting_clients: Returns whether a client waits for the loop. Called on the thread while the loop is
            blocked.
    """

    def __init__(self, has_waiting_clients: Callable[[], bool]) -> None:
        self._has_waiting_clients = has_waiting_clients
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minibroker-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()
        self._turned.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_CHECK_INTERVAL_S):
            self._turned.clear()
            try:
                self._loop.call_soon_threadsafe(self._turned.set)
            except RuntimeError:  # The loop is closed, so there is nothing left to watch.
                return
            if self._ended.is_set():  # If `stop` was called before `clear`, `clear` has removed its signal.
                return
            if not self._turned.wait(_BLOCKED_AFTER_S) and self._warn_when_client_waits():
                return

    def _warn_when_client_waits(self) -> bool:
        """Warn as soon as a client waits. Return False if the loop runs again before that."""
        while True:
            # This is the only way to see what another thread is executing.
            frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as said
            is_blocked = frame is not None and not _is_in_broker(frame) and self._has_waiting_clients()
            if self._turned.is_set():
                return False
            if frame is not None and is_blocked:
                _warn(_blocking_line(frame))
                return True
            if self._turned.wait(_CHECK_INTERVAL_S):
                return False


def _warn(line: tuple[str, int]) -> None:
    advice = BLOCKED_LOOP
    try:
        warnings.warn_explicit(advice, MinibrokerWarning, *line)
    except MinibrokerWarning:  # If warnings are errors, the exception would be lost on this thread, so it is logged.
        _logger.warning("%s:%d: %s", *line, advice)
    else:
        _logger.info("%s", advice)


def _is_in_broker(frame: FrameType) -> bool:
    """Return whether the broker's own code is running. If it takes long, this is not the caller's mistake."""
    return any(is_ours(caller.f_globals.get("__name__", "")) for caller, _ in walk_stack(frame))


def _blocking_line(frame: FrameType) -> tuple[str, int]:
    """Return the file and line of the blocking call, in the innermost coroutine that the loop itself runs.

    A client can run its own coroutines and loops further inside, so the search starts with the outermost frame.
    """
    blocking: FrameType | None = None
    for candidate, _ in reversed([*walk_stack(frame)]):
        if candidate.f_code.co_flags & CO_COROUTINE:
            blocking = candidate
        elif blocking is not None:
            break
    blocking = blocking or frame
    return blocking.f_code.co_filename, blocking.f_lineno
