"""Waiting until something is so, on the event loop and no longer than a test has patience."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from minibroker.operations.errors import OperationError, WaitTimeoutError, is_the_callers

__tracebackhide__ = is_the_callers

T = TypeVar("T")

_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.01


async def until(look: Callable[[], T | None], describe: Callable[[], str], timeout: float) -> T:  # noqa: ASYNC109 - part of what is asked
    """What `look` returns once it is not None; see `eventually`."""

    async def looked() -> T | None:
        return look()

    return await eventually(looked, describe, timeout)


async def eventually(
    look: Callable[[], Awaitable[T | None]],
    describe: Callable[[], str],
    timeout: float,  # noqa: ASYNC109 - part of what is asked
) -> T:
    """What `look` gives once it is not None; it is called again and again, at first twice a millisecond.

    Patience is counted in the machine's seconds, whatever the broker's clock says. `WaitTimeoutError` with what
    `describe` says then.
    """
    if timeout < 0:
        raise OperationError(f"timeout: {timeout} s is below 0")
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    pause = _FIRST_PAUSE
    while (found := await look()) is None:
        left = end - loop.time()
        if left <= 0:
            raise WaitTimeoutError(describe())
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
    return found
