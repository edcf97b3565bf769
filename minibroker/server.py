"""The brokers of one process on an event loop: they listen, share one state, and come to an orderly end."""

import asyncio
import logging
import resource
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from minibroker.clock import Clock, SystemClock
from minibroker.cluster import Node
from minibroker.config import BrokerConfig
from minibroker.connection import Connection, ConnectionSet
from minibroker.node_listener import NodeListener
from minibroker.state import BrokerState
from minibroker_protocol.frame import BufferPool

if TYPE_CHECKING:
    # Most brokers compact nothing.
    from minibroker_storage.cleaner import CleaningPlan, CleaningResult

_logger = logging.getLogger(__name__)

FurtherListener = tuple[tuple[str, int], tuple[str, int] | None]
"""(host, port) to listen on, and (host, port) that clients are told; None for what they have dialled."""

_WANTED_FILES: Final = 65_536
_LEAST_LOG_FILES: Final = 64


class Server:
    """Brokers on the running event loop.

    Args:
        listen: (host, port) of the first one; the others have the ports behind it. Port 0 picks a free one for each.
        advertise: where clients are told to find the first one, and at the ports behind it the others. None: where they
            have found it.
        brokers: how many there are.
        further: further addresses of the first one, each with what clients are told who come there, as `advertise`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        listen: tuple[str, int],
        advertise: tuple[str, int] | None = None,
        clock: Clock | None = None,
        *,
        brokers: int = 1,
        further: Sequence[FurtherListener] = (),
    ) -> None:
        self._listen = listen
        self._further = further
        self._loop = asyncio.get_running_loop()
        self._pool = BufferPool()
        self._listeners: list[NodeListener] = []
        self._work: set[asyncio.Future[Any]] = set()
        self.state = BrokerState(
            config,
            data_dir,
            clock or SystemClock(self._loop),
            call_soon=self._loop.call_soon,
            background=self._background,
            run_cleaning=self._run_cleaning,
            max_open_files=_log_file_limit(),
            brokers=brokers,
        )
        for number, node in enumerate(self.state.cluster.nodes.values()):
            if advertise is not None:
                node.advertised = advertise[0], advertise[1] + number

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the first broker listens on."""
        return self._listeners[0].address

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each broker, also of one that is down."""
        return [listener.address for listener in self._listeners]

    async def start(self) -> None:
        """Listen. OSError when an address cannot be had."""
        host, port = self._listen
        for number, node in enumerate(self.state.cluster.nodes.values()):
            listener = NodeListener(partial(self._connection, node))
            await listener.listen(host, port and port + number)
            self._listeners.append(listener)
            node.listener, node.port = listener, listener.address[1]
        for (host, port), advertised in self._further:
            first = self.state.cluster.first
            listener = self._listeners[0]
            await listener.listen(host, port)
            first.further[listener.newest_port] = advertised

    def _connection(self, node: Node, connections: ConnectionSet) -> Connection:
        return Connection(self.state, self._pool, connections, node)

    async def stop(self, *, keep: bool = True) -> None:
        """Close the listeners and all connections, then the logs; see `BrokerState.close` for `keep`."""
        for listener in self._listeners:
            await listener.end()
        self.state.logs.stop_chores()
        while self._work:
            await asyncio.wait(self._work)
        self.state.close(keep=keep)

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
