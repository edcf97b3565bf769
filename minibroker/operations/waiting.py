"""Waits on the event loop, for a condition with a timeout, and for long computations that run in slices."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from minibroker.cluster.errors import OperationError, WaitTimeoutError, is_the_callers
from minibroker.cluster.routing.slices import Steps
from minibroker.server.services import Services
from minibroker_storage.log import Log

__tracebackhide__ = is_the_callers

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.0005
_MAX_PAUSE_S: Final = 0.01
_PAUSE_BETWEEN_APPENDS_S: Final = 0.25
"""Seconds between calls without an append, for rare changes such as retention that deletes unread records."""


class _AppendEvent:
    """An event that is set when any of the watched logs is appended to or closed."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._logs: set[Log] = set()

    def watch(self, logs: Iterable[Log]) -> bool:
        """Watch exactly these logs, and return whether any of them was not watched before."""
        before, self._logs = self._logs, set(logs)
        for log in before - self._logs:
            log.remove_append_listener(self._on_append)
        added = self._logs - before
        for log in added:
            log.add_append_listener(self._on_append)
        return bool(added)

    def _on_append(self, _: object) -> None:
        self._happened.set()

    async def wait(self, pause: float) -> None:
        """Wait for an append since the last call, for at most `pause` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._happened.wait()
        self._happened.clear()


def check_not_negative(name: str, value: float, unit: str = "", hint: str = "") -> None:
    """Check that a value is a number of at least 0.

    Raises:
        OperationError: the value is negative or not a number. If it is not a number, the message ends with `hint`.
    """
    try:
        is_negative = value < 0
    except TypeError:
        raise OperationError(f"{name}: {value!r} is not a number{hint}") from None
    if is_negative:
        raise OperationError(f"{name}: {value}{unit} is below 0")


async def until(look: Callable[[], T | None], describe: Callable[[], str], timeout: float) -> T:  # noqa: ASYNC109 - part of the API
    """Wait like `eventually`, for a `look` that is not a coroutine function."""

    async def look_once() -> T | None:
        return look()

    return await eventually(look_once, describe, timeout)


async def eventually(
    look: Callable[[], Awaitable[T | None]],
    describe: Callable[[], str],
    timeout: float,  # noqa: ASYNC109 - part of the API
    logs: Callable[[], Iterable[Log]] = tuple,
) -> T:
    """Call `look` repeatedly until its result is not None, and return that result.

    Args:
        look: called with pauses in between, which grow from 0.5 ms to 10 ms.
        describe: returns the message of the error.
        timeout: in seconds of the machine's time, not of the broker's clock.
        logs: returns the logs whose appends can change the result; it is called after each `look`. If there are
            any, the next `look` also waits for an append, but at most a quarter of a second.

    Raises:
        WaitTimeoutError: the result was None until the timeout.
    """
    check_not_negative("timeout", timeout, " s")
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    pause = _FIRST_PAUSE_S
    appends = _AppendEvent()
    try:
        while (result := await look()) is None:
            seconds_left = end - loop.time()
            if seconds_left <= 0:
                raise WaitTimeoutError(describe())
            watched = tuple(logs())
            if appends.watch(watched):
                continue  # Look again, because an append may have happened since `look` began.
            await asyncio.sleep(min(pause, seconds_left))
            pause = min(pause * 2, _MAX_PAUSE_S)
            if watched:
                await appends.wait(min(_PAUSE_BETWEEN_APPENDS_S, max(0, end - loop.time())))
    finally:
        appends.watch(())
    return result


async def run_in_slices(services: Services, steps: Steps[T]) -> T:
    """Run steps for some milliseconds per turn of the event loop, and return their result or raise their error."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def finish(set_outcome: Callable[[Any], object], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    services.core.slices.run(steps, partial(finish, future.set_result), partial(finish, future.set_exception))
    return await future
