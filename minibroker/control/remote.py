"""Calls from the control plane's thread to the broker, which belongs to the thread of its own event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request

from minibroker.cluster.errors import are_warnings_collected, collected_warnings
from minibroker.control.errors import UnavailableError
from minibroker.operations.asynchronous import AsyncOperations

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Remote:
    """Has something done on the broker's loop, and waits for it on the control plane's."""

    def __init__(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._pending: set[Future[Any]] = set()
        self._stopped = False

    async def __call__(self, work: Callable[[AsyncOperations], Awaitable[T]]) -> T:
        """The result of `work`, which is called on the broker's loop. `UnavailableError` once the broker stops."""

        async def run() -> T:
            return await work(self._broker)

        if self._stopped:
            raise UnavailableError
        if not are_warnings_collected():
            with collected_warnings():  # else they would name a line of asyncio's
                return await self(work)
        running = run()
        try:
            future = asyncio.run_coroutine_threadsafe(running, self._loop)
        except RuntimeError:  # the loop is closed
            running.close()
            raise UnavailableError from None
        self._pending.add(future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._stopped:
                raise UnavailableError from None
            raise
        finally:
            self._pending.discard(future)

    async def get(self, read: Callable[[AsyncOperations], T]) -> T:
        """Like a call, but of a plain function."""

        async def work(broker: AsyncOperations) -> T:
            return read(broker)

        return await self(work)

    def stop(self) -> None:
        """Answer the requests that still wait: the broker stops. On the control plane's thread."""
        self._stopped = True
        for future in tuple(self._pending):
            future.cancel()


async def _remote(request: Request) -> Remote:
    remote: Remote = request.app.state.remote
    return remote


OnBroker = Annotated[Remote, Depends(_remote)]
"""A parameter of a route that has something done by the broker."""
