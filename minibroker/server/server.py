"""The server: all brokers of one process, from start to orderly stop (Kafka's `BrokerServer`)."""

import asyncio
import logging
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from minibroker.clock import Clock, SystemClock
from minibroker.cluster.core import advertise
from minibroker.cluster.listeners import PLAINTEXT, ServedListener, port_step
from minibroker.cluster.node import ListenerEndpoint, Node
from minibroker.config import BrokerConfig
from minibroker.server.connection import Connection, ConnectionSet
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas
from minibroker.server.node_listener import Kind, NodeListener, check_free
from minibroker.server.services import open_services
from minibroker_protocol.frame import BufferPool
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.descriptors import is_shortage, raise_limit

with lazy:
    from minibroker.cluster.logs import log_cleaner
    from minibroker.security import listener_security

if TYPE_CHECKING:
    # Imported for type checking only, because most brokers compact nothing and have no logins.
    from minibroker_storage.cleaner import CleaningPlan, CleaningResult

_logger = logging.getLogger(__name__)

_MAX_FILES: Final = 65_536
_MIN_LOG_FILES: Final = 16
_SLICE_S: Final = 0.003


class Server:
    """Brokers on the running event loop.

    Args:
        config: The configuration of the brokers.
        data_dir: The data directory.
        given: The listeners of the first broker. The other brokers use the ports after these, for listening and in
            advertised addresses. Port 0 picks a free port for each broker.
        clock: The clock of the brokers.
        brokers: The number of brokers.
        racks: The rack of each broker, see `Core`.

    Raises:
        OSError: A port is in use, or a file of a listener cannot be read. Ports are checked before anything is
            written.
        ValueError: A listener's TLS, SASL or limits are invalid.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        given: Sequence[ServedListener],
        clock: Clock | None = None,
        *,
        brokers: int = 1,
        racks: Sequence[str] = (),
    ) -> None:
        self._given = given
        self._step = port_step((listener.port for listener in given), brokers)
        for listener in given:
            if listener.port:
                for index in range(brokers):
                    check_free(listener.host, listener.port + index * self._step)
        self._loop = asyncio.get_running_loop()
        self.pool = BufferPool()
        self._relay: Callable[[ConnectionSet, ConnectionPermit, int, str], Connection] | None = None
        self._listeners: list[NodeListener] = []
        self._work: set[asyncio.Future[Any]] = set()
        self.services = open_services(
            config,
            data_dir,
            clock or SystemClock(self._loop),
            call_soon=self._loop.call_soon,
            background=self._run_in_thread,
            run_cleaning=self._run_cleaning,
            max_open_files=_log_file_limit(),
            brokers=brokers,
            racks=racks,
            aside=self._run_detached,
        )
        try:
            self._security = {listener.name: self._create_security(listener) for listener in given}
            names = tuple(listener.name for listener in given)
            cluster = self.services.core.cluster
            self._nodes = [cluster.nodes[cluster.first.id + index] for index in range(brokers)]
            self._quotas = {node.id: ConnectionQuotas(self.services, node.id, names) for node in self._nodes}
        except BaseException:
            self.services.close(keep=False)
            raise

    @property
    def address(self) -> tuple[str, int]:
        """The (host, port) that the first broker listens on."""
        return self._listeners[0].address

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The (host, port) of each broker, including stopped ones."""
        return [listener.address for listener in self._listeners]

    @property
    def listeners(self) -> list[ServedListener]:
        """The listeners of the first broker, with the ports that are open."""
        return [given._replace(port=self.addresses_of(given.name)[0][1]) for given in self._given]

    def addresses_of(self, listener: str) -> list[tuple[str, int]]:
        """Return the (host, port) of each broker for the listener with this name.

        Raises:
            KeyError: There is no such listener.
        """
        return [node_listener.addresses[listener] for node_listener in self._listeners]

    async def start(self) -> None:
        """Open the listeners of all brokers.

        Raises:
            OSError: An address is not available.
        """
        for index, node in enumerate(self._nodes):
            offset = index * self._step
            make, quotas = partial(self._create_connection, node), self._quotas[node.id]
            listener = node.listener = NodeListener(make, quotas, self.services.core.clock, self.services.core.advice)
            self._listeners.append(listener)
            for given in self._given:
                security = self._security[given.name]
                kind = Kind(given.name, None if security is None else security.tls)
                host, port = given.advertised or ("", 0)
                advertised = (host, port and port + offset) if host else None
                port = await listener.listen(kind, given.host, given.port and given.port + offset)
                node.endpoints[given.name] = ListenerEndpoint(advertised, port)
            advertise(self.services.core, node)

    def has_waiting_clients(self) -> bool:
        """Return whether a connection is waiting to be accepted, or a request to be read.

        Other threads call this while the event loop is blocked.
        """
        poll = select.poll()
        for listener in self._listeners:
            for descriptor in listener.descriptors():
                poll.register(descriptor, select.POLLIN)
        return any(events & select.POLLIN for _, events in poll.poll(0))

    def _create_security(self, listener: ServedListener) -> "listener_security.ListenerSecurity | None":
        if listener.protocol == PLAINTEXT:
            return None
        return listener_security.ListenerSecurity(
            self.services.core, lambda: self.services.security, listener.name, listener.protocol
        )

    def _create_connection(
        self, node: Node, connections: ConnectionSet, listener: str, permit: ConnectionPermit
    ) -> Connection:
        if self._relay is not None:
            return self._relay(connections, permit, node.id, listener)
        return Connection(self.services, self.pool, connections, node, listener, permit, self._security[listener])

    def relay_to(self, relay: Callable[[ConnectionSet, ConnectionPermit, int, str], Connection]) -> None:
        """Create all further connections by `relay`, and abort the present ones."""
        self._relay = relay
        for listener in self._listeners:
            listener.connections.abort()

    async def stop(self, *, keep: bool = True) -> None:
        """Close the listeners and all connections, then the logs. See `Core.close_logs` for `keep`."""
        for listener in self._listeners:
            await listener.end()
        self.services.core.logs.stop_chores()
        while self._work:
            await asyncio.wait(self._work)
        self.services.stop()
        with closing(self.services.core.close_logs(keep=keep)) as steps:
            until = time.perf_counter() + _SLICE_S
            for _ in steps:
                # Yield regularly, because the loop may belong to an application that continues to run.
                if time.perf_counter() > until:
                    await asyncio.sleep(0)
                    until = time.perf_counter() + _SLICE_S

    def _run_in_thread(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        """Run `work` on a thread, then call `then`."""
        future = self._start_on_thread(work)
        self._work.add(future)

        def end(_: asyncio.Future[None]) -> None:
            self._work.discard(future)
            error = future.exception()
            if error is not None:
                trace = None if is_shortage(error) else error
                _logger.error("Work in the background has failed: %s", error, exc_info=trace)
            if then is not None:
                then()

        future.add_done_callback(end)

    def _run_detached(self, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        """Like _run_in_thread(), but for work that may never end: neither stop nor exit waits for it."""

        def run() -> None:
            try:
                work()
            finally:
                with suppress(RuntimeError):  # call_soon_threadsafe() raises RuntimeError once the loop is closed.
                    if then is not None:
                        self._loop.call_soon_threadsafe(then)

        threading.Thread(target=run, name="minibroker-aside", daemon=True).start()

    def _start_on_thread(self, work: Callable[[], None]) -> asyncio.Future[None]:
        try:
            return self._loop.run_in_executor(None, work)
        except OSError:  # Without a free descriptor, the executor cannot be loaded, so run the work here.
            done: asyncio.Future[None] = self._loop.create_future()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the future gets the error
                done.set_exception(error)
            else:
                done.set_result(None)
            return done

    def _run_cleaning(
        self, plan: "CleaningPlan", done: "Callable[[CleaningResult | BaseException], None]"
    ) -> Callable[[], object]:
        """Run a cleaning plan in a separate process, see `RunCleaning`."""
        task = log_cleaner.start_cleaning(plan, done)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task.cancel


def _log_file_limit() -> int:
    """Return the maximum number of open log files: half of the process's descriptors. The rest is for connections."""
    return max(_MIN_LOG_FILES, min(raise_limit(_MAX_FILES), _MAX_FILES) // 2)
