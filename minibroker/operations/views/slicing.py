"""Runs long computations in steps on the broker's event loop."""

import asyncio
from functools import partial
from typing import TypeVar

from minibroker.cluster.routing.slices import Steps
from minibroker.server.services import Services

T = TypeVar("T")


async def in_slices(services: Services, steps: Steps[T]) -> T:
    """Run steps for some milliseconds per turn of the event loop, and return their result or raise their error."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    services.core.slices.run(steps, partial(_done, future), partial(_failed, future))
    return await future


def _done(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _failed(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
