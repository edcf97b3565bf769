"""The errors and warnings of the Python API, and the line of the caller that they point at."""

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
    """The broker cannot do what was asked for; the message names the value and the reason."""


class NotFoundError(OperationError):
    """A topic, partition, group or other thing does not exist."""


class ConflictError(OperationError):
    """The present state of the broker does not allow the operation."""


class NotRunningError(RuntimeError):
    """The broker does not run, or runs on another event loop than the method is for."""


NOT_RUNNING: Final = (
    "the broker is not running: use it inside `with Broker() as broker:` (`async with` for an AsyncBroker), or between "
    "start() and stop()"
)


class WaitTimeoutError(AssertionError):
    """The event that a test waited for has not happened in time; the message shows the present state.

    An AssertionError, so that test runners report a failed test and not a broken one.
    """


class UnexpectedRecordError(AssertionError):
    """A record exists that a test has ruled out; the message shows it."""


class MinibrokerWarning(UserWarning, RuntimeWarning):
    """Something that a caller has written has no effect, or not the one that it seems to have.

    It names the caller's line. It is of both kinds that versions up to 1.0 gave.
    """


for _each in (OperationError, NotFoundError, ConflictError, NotRunningError, WaitTimeoutError, UnexpectedRecordError):
    _each.__module__ = "minibroker"  # where users import them from, and short enough to leave room for the message


def is_the_callers(caught: "pytest.ExceptionInfo[BaseException]") -> bool:
    """Return whether the message is all that the caller needs.

    Modules between a test and such an error have this as their `__tracebackhide__`: pytest leaves out their lines and
    shows the test's. With any other error it shows them.
    """
    return caught.errisinstance(
        (OperationError, WaitTimeoutError, UnexpectedRecordError, NotRunningError, cluster.ClusterError)
    )


ASKED_FROM: Final[ContextVar[tuple[str, int] | None]] = ContextVar("asked_from", default=None)
"""The line that has another thread run a coroutine, which takes it along."""

_COLLECTED: Final[ContextVar[list[str] | None]] = ContextVar("collected", default=None)

BLOCKED_LOOP: Final = (
    "this thread runs an event loop, which stood still during the call: an asynchronous client can neither send nor "
    "receive meanwhile. Write `await asyncio.to_thread(kafka.expect, ...)` instead of `kafka.expect(...)`, and "
    "likewise for other methods that wait, or use an AsyncBroker"
)


def callers_line() -> tuple[str, int]:
    """File and line of the nearest caller outside of minibroker; on the broker's thread, of what it works for."""
    asked_from = ASKED_FROM.get()
    if asked_from is not None:
        return asked_from
    frame = currentframe()
    assert frame is not None  # in CPython there is always one
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def is_ours(module: str) -> bool:
    """Is this the name of one of the broker's modules?"""
    return module.startswith("minibroker.")


def loop_runs_here() -> bool:
    """Return whether a task of an event loop is what calls.

    Playwright's synchronous API keeps a loop in its user's thread, on a stack of its own. That loop waits anyway.
    """
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def warn_caller(warning: str) -> None:
    """Give a MinibrokerWarning at the line that calls the broker, or log it for a caller that collects warnings."""
    collected = _COLLECTED.get()
    if collected is None:
        warnings.warn_explicit(warning, MinibrokerWarning, *callers_line())
    else:
        collected.append(warning)
        logging.getLogger("minibroker").warning("%s", warning)


@contextmanager
def collected_warnings() -> Generator[list[str]]:
    """A list of what `warn_caller` warns of within the block, also in coroutines that it has another loop run.

    A client of the control plane cannot see warnings of the broker's process.
    """
    collected: list[str] = []
    before = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(before)


def are_warnings_collected() -> bool:
    """Does the caller stand within `collected_warnings`?"""
    return _COLLECTED.get() is not None


def warn_if_loop_waits() -> None:
    """Give a MinibrokerWarning for a call that goes on waiting in a thread with a running event loop."""
    if loop_runs_here():
        warnings.warn_explicit(BLOCKED_LOOP, MinibrokerWarning, *callers_line())
