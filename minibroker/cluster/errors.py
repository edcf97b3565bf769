"""The errors and warnings of the Python API, and the search for the caller's line that they point at."""

import asyncio
import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import currentframe
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.cluster import cluster


class OperationError(ValueError):
    """The broker cannot do what was requested. The message names the value and the reason."""


class NotFoundError(OperationError):
    """A topic, partition, group or other object does not exist."""


class ConflictError(OperationError):
    """The current state of the broker does not allow the operation."""


class NotRunningError(RuntimeError):
    """The broker is not running, or not on the event loop that the method requires."""


NOT_RUNNING: Final = (
    "the broker is not running: use it inside `with Broker() as broker:` (`async with` for an AsyncBroker), or between "
    "start() and stop()"
)


class FailedExpectationError(AssertionError):
    """Something is not as a test expects it.

    This is an AssertionError, so test runners report a failed test rather than a broken one.
    """


class WaitTimeoutError(FailedExpectationError):
    """An event that a test waited for did not happen in time. The message shows the current state."""


class UnexpectedRecordError(FailedExpectationError):
    """A record exists although a test expected none. The message shows the record."""


class MinibrokerWarning(UserWarning, RuntimeWarning):
    """A warning that the caller's code has no effect, or not the effect that it seems to have.

    The warning points at the caller's line. It belongs to both warning categories that versions up to 1.0 used.
    """


for _error in (OperationError, NotFoundError, ConflictError, NotRunningError, WaitTimeoutError, UnexpectedRecordError):
    # Users import these errors from `minibroker`, and tracebacks show the shorter name.
    _error.__module__ = "minibroker"


def is_the_callers(caught: "pytest.ExceptionInfo[BaseException]") -> bool:
    """Return whether an error's message is all that the caller needs.

    Modules between a test and such an error set this function as their `__tracebackhide__`. pytest then hides the
    modules' lines and shows the line of the test. For any other error pytest shows their lines.
    """
    return caught.errisinstance((OperationError, FailedExpectationError, NotRunningError, cluster.ClusterError))


ASKED_FROM: Final[ContextVar[tuple[str, int] | None]] = ContextVar("asked_from", default=None)
"""The line that runs a coroutine on another thread. It is passed along with the coroutine."""

_COLLECTED: Final[ContextVar[list[str] | None]] = ContextVar("collected", default=None)

BLOCKED_LOOP: Final = (
    "this thread runs an event loop, which stood still during the call: an asynchronous client can neither send nor "
    "receive meanwhile. Write `await asyncio.to_thread(kafka.expect, ...)` instead of `kafka.expect(...)`, and "
    "likewise for other methods that wait, or use an AsyncBroker"
)


def callers_line() -> tuple[str, int]:
    """Return the file and the line of the nearest caller outside minibroker.

    On the broker's thread this is the line that requested the current work.
    """
    asked_from = ASKED_FROM.get()
    if asked_from is not None:
        return asked_from
    frame = currentframe()
    assert frame is not None  # CPython never returns None here.
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def is_ours(module: str) -> bool:
    """Return whether a module belongs to minibroker."""
    return module.startswith("minibroker.")


def loop_runs_here() -> bool:
    """Return whether the caller is a task of an event loop.

    Playwright's synchronous API keeps an event loop in its user's thread, on a separate stack. That loop does not
    count, since it waits in any case.
    """
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def warn_caller(warning: str) -> None:
    """Issue a MinibrokerWarning at the line that calls the broker, or log it if the caller collects warnings."""
    collected = _COLLECTED.get()
    if collected is None:
        warnings.warn_explicit(warning, MinibrokerWarning, *callers_line())
    else:
        collected.append(warning)
        logging.getLogger("minibroker").warning("%s", warning)


@contextmanager
def collect_warnings() -> Generator[list[str]]:
    """Collect the warnings of `warn_caller` within the block, including those of coroutines run on another event loop.

    Used by the control plane, whose clients cannot see warnings of the broker's process.
    """
    collected: list[str] = []
    before = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(before)


def are_warnings_collected() -> bool:
    """Return whether the caller runs inside a `collect_warnings` block."""
    return _COLLECTED.get() is not None


def warn_if_loop_waits() -> None:
    """Issue a MinibrokerWarning for a call that keeps blocking a thread with a running event loop."""
    if loop_runs_here():
        warnings.warn_explicit(BLOCKED_LOOP, MinibrokerWarning, *callers_line())
