"""Waiting until something is so, on the event loop and no longer than a test has patience."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from minibroker.cluster.errors import OperationError, WaitTimeoutError, is_the_callers
from minibroker_storage.log import Log

__tracebackhide__ = is_the_callers

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.01
_PAUSE_BETWEEN_APPENDS: Final = 0.25
"""Seconds until a look without an append, for rare changes such as retention that deletes unread records."""


class _Appends:
    """Appends to some logs, and their closing, as an event."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self._logs: set[Log] = set()

    def watch(self, logs: Iterable[Log]) -> bool:
        """Watch these logs and no others; is one of them new?"""
        before, self._logs = self._logs, set(logs)
        for each in before - self._logs:
            each.remove_append_listener(self._on_append)
        added = self._logs - before
        for each in added:
            each.add_append_listener(self._on_append)
        return bool(added)

    def _on_append(self, _: object) -> None:
        self._happened.set()

    async def wait(self, pause: float) -> None:
        """Return with the first append since the last call, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._happened.wait()
        self._happened.clear()


def check_not_negative(name: str, value: float, unit: str = "", hint: str = "") -> None:
    """Raise OperationError for what is not a number, with `hint` behind it, and for a number below 0."""
    try:
        is_negative = value < 0
    except TypeError:
        raise OperationError(f"{name}: {value!r} is not a number{hint}") from None
    if is_negative:
        raise OperationError(f"{name}: {value}{unit} is below 0")


async def until(look: Callable[[], T | None], describe: Callable[[], str], timeout: float) -> T:  # noqa: ASYNC109 - part of what is asked
    """The result of `look` once it is not None; see `eventually`."""

    async def looked() -> T | None:
        return look()

    return await eventually(looked, describe, timeout)


async def eventually(
    look: Callable[[], Awaitable[T | None]],
    describe: Callable[[], str],
    timeout: float,  # noqa: ASYNC109 - part of what is asked
    logs: Callable[[], Iterable[Log]] = tuple,
) -> T:
    """The result of `look` once it is not None; it is called again and again, at first twice a millisecond.

    `logs`, asked for after each look, are those whose appends can change what it sees: then it is called after appends
    alone, and every quarter of a second. Without any it is called 100 times a second.

    Patience is counted in the machine's seconds, whatever the broker's clock says. `WaitTimeoutError` with what
    `describe` says then.
    """
    check_not_negative("timeout", timeout, " s")
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    pause = _FIRST_PAUSE
    appends = _Appends()
    try:
        while (found := await look()) is None:
            left = end - loop.time()
            if left <= 0:
                raise WaitTimeoutError(describe())
            watched = tuple(logs())
            if appends.watch(watched):
                continue  # there may have been an append since the look began
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)
            if watched:
                await appends.wait(min(_PAUSE_BETWEEN_APPENDS, max(0, end - loop.time())))
    finally:
        appends.watch(())
    return found
