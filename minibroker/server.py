"""The listening side: a socket, the connections that come in, and an orderly end."""

import asyncio
import logging
import os
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from minibroker.clock import Clock, SystemClock
from minibroker.config import BrokerConfig
from minibroker.connection import Connection, ConnectionSet
from minibroker.state import BrokerState
from minibroker_protocol.frame import BufferPool

if TYPE_CHECKING:
    # Most brokers compact nothing.
    from minibroker_storage.cleaner import CleaningPlan, CleaningResult

_logger = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_WANTED_FILES: Final = 65_536
_LEAST_LOG_FILES: Final = 64
_ACCEPTING_ROUNDS: Final = 3
"""Of the event loop: one for the task that asyncio makes of an accepted socket, one for its callback, one to spare."""


class Server:
    """A broker on the running event loop.

    Args:
        listen: (host, port); port 0 picks a free one.
        advertise: where clients are told to find it. None: where they have found it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        listen: tuple[str, int],
        advertise: tuple[str, int] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._listen = listen
        self._advertise = advertise
        self._loop = asyncio.get_running_loop()
        self._pool = BufferPool()
        self._connections = ConnectionSet()
        self._listener: asyncio.Server | None = None
        self._work: set[asyncio.Future[Any]] = set()
        self.state = BrokerState(
            config,
            data_dir,
            clock or SystemClock(self._loop),
            call_soon=self._loop.call_soon,
            background=self._background,
            run_cleaning=self._run_cleaning,
            max_open_files=_log_file_limit(),
        )

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the broker listens on."""
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Listen. OSError when the address cannot be had."""
        host, port = self._listen
        try:
            self._listener = await self._loop.create_server(
                lambda: Connection(self.state, self._pool, self._connections, self._advertise),
                host,
                port,
                backlog=_BACKLOG,
            )
        except OSError as error:
            # asyncio's own words hold the address as a tuple; a name that is not found has an errno of its own kind.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error

    async def stop(self, *, keep: bool = True) -> None:
        """Close the listener and all connections, then the logs; see `BrokerState.close` for `keep`."""
        if self._listener is not None:
            await self._accept_no_more(self._listener)
        await self._connections.abort()
        self.state.logs.stop_chores()
        while self._work:
            await asyncio.wait(self._work)
        self.state.close(keep=keep)

    async def _accept_no_more(self, listener: asyncio.Server) -> None:
        """Close the listener once the connections that it has accepted have come through.

        asyncio takes two rounds of the loop for that. If the listener is closed in between it loses the connection
        (an assertion in `Server._attach`), whose socket stays open until it is collected.
        """
        for each in listener.sockets:
            self._loop.remove_reader(each)
        for _ in range(_ACCEPTING_ROUNDS):
            await asyncio.sleep(0)
        listener.close()

    def _background(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        """Run `work` on a thread, then call `then`."""
        future = self._loop.run_in_executor(None, work)
        self._work.add(future)

        def end(_: asyncio.Future[None]) -> None:
            self._work.discard(future)
            error = future.exception()
            if error is not None:
                _logger.error("Work in the background has failed", exc_info=error)
            if then is not None:
                then()

        future.add_done_callback(end)

    def _run_cleaning(
        self, plan: "CleaningPlan", done: "Callable[[CleaningResult | BaseException], None]"
    ) -> Callable[[], object]:
        """Clean in a process of its own; see `RunCleaning`."""
        from minibroker.cleaning_process import start_cleaning  # noqa: PLC0415 - most brokers compact nothing

        task = start_cleaning(plan, done)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task.cancel


def _log_file_limit() -> int:
    """How many log files may be open at once: half of what the process may open, the rest is for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):  # macOS has a lower limit of its own
            pass
    return max(_LEAST_LOG_FILES, min(soft, _WANTED_FILES) // 2)
