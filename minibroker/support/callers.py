"""The code that calls the broker's methods: its line, and whether it runs on an event loop."""

import asyncio
import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import currentframe
from typing import Final


class MinibrokerWarning(UserWarning, RuntimeWarning):
    """Something that a caller has written has no effect, or not the one that it seems to have.

    It names the caller's line. It is of both kinds that versions up to 1.0 gave.
    """


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
    """Does an event loop run in this thread, beneath the caller?"""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
