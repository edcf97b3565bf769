"""Calls from the control plane's thread to the broker, which runs on another thread's event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request

from minibroker.cluster.errors import are_warnings_collected, collect_warnings
from minibroker.operations.asynchronous import AsyncOperations
from minibroker_control.errors import UnavailableError

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Remote:
    """A bridge that runs functions on the broker's loop and awaits their results on the control plane's loop."""

    def __init__(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._pending: set[Future[Any]] = set()
        self._stopped = False

    async def __call__(self, work: Callable[[AsyncOperations], Awaitable[T]]) -> T:
        """Run `work` on the broker's loop and return its result.

        Raises:
            UnavailableError: The broker is stopping.
        """

        async def run() -> T:
            return await work(self._broker)

        if self._stopped:
            raise UnavailableError
        if not are_warnings_collected():
            with collect_warnings():  # Collect warnings here, because otherwise they would point to a line in asyncio.
                return await self(work)
        running = run()
        try:
            future = asyncio.run_coroutine_threadsafe(running, self._loop)
        except RuntimeError:  # The loop is closed, so the coroutine will never run.
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
        """Run a plain function on the broker's loop and return its result."""

        async def work(broker: AsyncOperations) -> T:
            return read(broker)

        return await self(work)

    def stop(self) -> None:
        """Cancel the pending calls when the broker stops, so that the waiting HTTP requests get a response.

        Runs on the control plane's thread.
        """
        self._stopped = True
        for future in tuple(self._pending):
            future.cancel()


def from_state(name: str) -> Any:
    """Return the FastAPI dependency for an attribute of the application's state."""

    async def read(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(read)


OnBroker = Annotated[Remote, from_state("remote")]
"""A route parameter: calls to the broker."""
