"""The broker on the caller's event loop. `Broker` runs one of these on its own thread."""

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, Self, Unpack

from minibroker.broker.checked_options import CheckedOptions
from minibroker.cluster import temporary
from minibroker.cluster.errors import NOT_RUNNING, NotRunningError, is_the_callers
from minibroker.cluster.topic_admin import create_missing_topics
from minibroker.config.addresses import format_reachable
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.options import BrokerOptions, accept_options_by_name
from minibroker.server.server import Server
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations import seeding
    from minibroker.server import loop_watch
    from minibroker.server.inspection import journal as inspection_journal
    from minibroker.server.inspection import recording, slow_requests
    from minibroker_chaos import engine
    from minibroker_chaos.check import facts

_logger: Final = logging.getLogger(__name__)

if TYPE_CHECKING:
    # Imported for type checking only, because most brokers use none of these modules.
    from minibroker.security.setup import Security
    from minibroker.server.loop_watch import LoopWatch
    from minibroker_control.plane import ControlPlane
    from minibroker_lab.page.plane import PagePlane
    from minibroker_registry.server import RegistryServer

__tracebackhide__ = is_the_callers


class AsyncBroker(AsyncOperations):
    """A broker on the running event loop, for the duration of an `async with` block.

        async with AsyncBroker() as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    A blocking client would wait for itself on this event loop. Use `Broker` for such clients. The options are those
    of `BrokerOptions`. An invalid option raises TypeError, ValueError or ConfigError. The message names the option.

    A MinibrokerWarning names any line that blocks the event loop for over a second while a client waits.

    Attributes:
        owns_loop: whether nothing else runs on the event loop. The loop is then not watched for blocking code.
    """

    @accept_options_by_name
    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        self._options = CheckedOptions(options)
        self.patience = self._options.timeout
        self._data_dir = self._options.data_dir
        self._server: Server | None = None
        self._plane: ControlPlane | None = None
        self._page: PagePlane | None = None
        self._registry: RegistryServer | None = None
        self._watch: LoopWatch | None = None
        self.owns_loop = False

    def remarks(self) -> list[str]:
        """Return warnings about the configuration."""
        return self._options.remarks

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration. The addresses of several brokers are separated by commas."""
        return ",".join(map(format_reachable, self._running.addresses))

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the HOST:PORT of each broker on an additional listener, separated by commas.

        Args:
            listener: The name of the listener, from the `listeners` option.

        Raises:
            ValueError: there is no such listener.
        """
        if all(served.name != listener for served in self._options.listeners):
            raise ValueError(f"there is no listener {listener!r}; there are {', '.join(self.listener_names)}")
        return ",".join(map(format_reachable, self._running.addresses_of(listener)))

    @property
    def security(self) -> "Security":
        """The `security` argument, for the configuration of clients. Raises RuntimeError if none was given."""
        if self._options.security is None:
            raise RuntimeError(
                "the broker has no security, so its clients need no settings for it; to add security, write "
                "Broker(security=Security(...)), or set kafka_security in the ini file of pytest"
            )
        return self._options.security

    @property
    def listener_names(self) -> list[str]:
        """The names of the listeners."""
        return [listener.name for listener in self._options.listeners]

    @property
    def listener_protocols(self) -> dict[str, str]:
        """The security protocols of the listeners by name."""
        return {listener.name: listener.protocol for listener in self._options.listeners}

    @property
    def advertised(self) -> list[tuple[str, int]]:
        """The advertised addresses of the first broker's listeners, where they are set."""
        return [listener.advertised for listener in self._options.listeners if listener.advertised is not None]

    @property
    def address(self) -> tuple[str, int]:
        """The (host, port) on which the first broker listens. Raises RuntimeError if that broker is not running."""
        return self._running.address

    @property
    def data_dir(self) -> str:
        """The log directory. Raises RuntimeError if it is temporary and does not exist at the moment."""
        if self._data_dir is None:
            raise NotRunningError(NOT_RUNNING)
        return self._data_dir

    @property
    def control_url(self) -> str:
        """The address of the control plane. Raises RuntimeError if there is none or the broker is not running."""
        if self._plane is None:
            raise RuntimeError("there is no control plane; Broker(control='127.0.0.1:0') has one")
        return self._plane.url

    @property
    def page_url(self) -> str:
        """The address of the lab's web page. Raises RuntimeError if there is none or the broker is not running."""
        if self._page is None:
            raise RuntimeError("there is no page; Broker(page=True) has one")
        return self._page.url

    @property
    def registry_url(self) -> str:
        """The address of the schema registry. Raises RuntimeError if there is none or the broker is not running."""
        if self._registry is None:
            raise RuntimeError(
                "there is no schema registry; to add one, write Broker(registry=True), or set kafka_registry in the "
                "ini file of pytest"
            )
        return self._registry.url

    @property
    def checked_options(self) -> CheckedOptions:
        """The options of this broker."""
        return self._options

    @property
    def server(self) -> Server:
        """The sockets of the broker. Raises RuntimeError if it is not running."""
        return self._running

    @property
    def services(self) -> Services:
        """The services shared by the handlers. Raises RuntimeError if the broker is not running."""
        return self._running.services

    @property
    def is_running(self) -> bool:
        """Whether the broker is running."""
        return self._server is not None

    @property
    def _running(self) -> Server:
        if self._server is None:
            raise NotRunningError(NOT_RUNNING)
        return self._server

    async def start(self) -> None:
        """Start the broker. On return, clients can connect, and the topics given as options exist.

        Raises:
            RuntimeError: the broker is already running.
        """
        if self._server is not None:
            raise RuntimeError("the broker is running already")
        options = self._options
        if options.data_dir is None:
            self._data_dir = temporary.make()
        server: Server | None = None
        try:
            plane = self._plane = options.open_control_plane()
            self._page = options.open_page(plane)
            brokers, racks = options.brokers, options.racks
            server = Server(
                options.config, self.data_dir, options.listeners, options.clock, brokers=brokers, racks=racks
            )
            if self._page is not None:
                self._page.watch(server.services)
            self._make_topics(server.services)
            self._record_requests(server.services)
            await server.start()
            self._registry = options.open_registry()
        except BaseException:
            self._server = server
            await self.stop()
            raise
        self._server = server
        if self._registry is not None:
            server.services.registry_url = self._registry.url
        for companion in (self._plane, self._page, self._registry):
            if companion is not None:
                companion.start(self, asyncio.get_running_loop())
        if options.chaos is not None:
            seed, profile = options.chaos
            engine.Chaos(server.services, seed, profile=profile).start()
        if not self.owns_loop:
            self._watch = loop_watch.LoopWatch(self._has_waiting_clients)

    def _has_waiting_clients(self) -> bool:
        """Return whether a client waits for the event loop. Another thread calls this."""
        server, registry = self._server, self._registry
        return (server is not None and server.has_waiting_clients()) or (
            registry is not None and registry.has_waiting_clients()
        )

    def make_topics(self) -> None:
        """Create the missing topics among those given as options, and write their seed records."""
        # Do nothing if there are neither topics nor seeds, so that the topics file is not rewritten.
        if self._options.topics or self._options.seeds is not None:
            self._make_topics(self.services)

    def _make_topics(self, services: Services) -> None:
        create_missing_topics(services.core, self._options.topics)
        if self._options.seeds is not None:
            seeding.load_seeds(services, self._options.seeds)

    def _record_requests(self, services: Services) -> None:
        journal, slow_ms = self._options.journal, services.core.config.integer("minibroker.slow.request.ms")
        if journal:
            capacity = inspection_journal.DEFAULT_CAPACITY if journal is True else journal
            recording.recording_of(services).keep_journal(capacity)
        if self._options.check:
            facts.facts_of(services)
        if slow_ms >= 0:
            slow_requests.log_slow_requests(services, slow_ms)

    async def stop(self) -> None:
        """Stop the broker: close connections and logs, and remove a temporary directory."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        # Stop the page first, because it may also listen on the control plane's address.
        companions = self._page, self._plane, self._registry
        self._plane = self._page = self._registry = None
        for companion in companions:
            if companion is not None:
                await companion.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(keep=self._options.data_dir is not None)
        if self._options.data_dir is None and self._data_dir is not None:
            temporary.remove(self._data_dir)
            self._data_dir = None

    def __enter__(self) -> NoReturn:
        """Raise TypeError, since an AsyncBroker must be used with `async with`."""
        raise TypeError("an AsyncBroker takes `async with AsyncBroker()`; for `with` there is `Broker()`")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing. Python never calls this method, but looks it up before calling `__enter__`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
