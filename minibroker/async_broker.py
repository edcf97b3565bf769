"""The broker on the caller's event loop; `Broker` runs one of these on a thread of its own."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, Self, cast

from minibroker import temporary
from minibroker.arguments import by_name
from minibroker.clock import Clock
from minibroker.config import BrokerConfig
from minibroker.config.keys import refused
from minibroker.core import Core
from minibroker.metadata.topic_admin import TopicError, TopicPlan, create_topics, plan_topic
from minibroker.metadata.topic_spec import TopicSpec
from minibroker.network.listeners import (
    PLAINTEXT,
    ListenerError,
    ServedListener,
    advertised_addresses,
    check_room,
    served_listeners,
)
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.asynchronous_handles import PATIENCE
from minibroker.operations.errors import NotRunningError, is_the_callers
from minibroker.server import Server
from minibroker.services import Services

if TYPE_CHECKING:
    # Most brokers have none.
    from minibroker.control.plane import ControlPlane
    from minibroker.loop_watch import LoopWatch
    from minibroker.security.setup import Security
    from minibroker.seeding.seeds import Seeds

_REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with
"""Where a program on this machine finds a broker that listens on all interfaces."""

_LAST_PORT: Final = 65_535

__tracebackhide__ = is_the_callers

Setting = str | int | float | bool | Sequence[str]
"""A value of the configuration, as Python programs write it."""


class AsyncBroker(AsyncOperations):
    """A broker on the running event loop, for as long as an `async with` block lasts.

        async with AsyncBroker() as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    A client that blocks would wait for itself there: for such clients there is `Broker`, whose arguments these are.
    When the loop stands still for over a second while a client waits, a RuntimeWarning names the line that holds it up.

    Attributes:
        owns_loop: nothing else runs on the event loop, so nobody looks whether it stands still.
    """

    @by_name
    def __init__(  # noqa: PLR0913 - what a broker can be given, all of it by name
        self,
        *,
        listen: str = "127.0.0.1:0",
        data_dir: str | None = None,
        advertise: str | None = None,
        config: Mapping[str, Setting] | None = None,
        topics: Iterable[str] = (),
        seed_data: str | None = None,
        clock: Clock | None = None,
        brokers: int = 1,
        also_listen: Iterable[str] = (),
        listeners: str | None = None,
        security: "Security | None" = None,
        journal: bool | int = False,
        control: str | None = None,
        control_token: str | None = None,
        timeout: float = PATIENCE,
    ) -> None:
        properties = {name: _text(name, each) for name, each in (config or {}).items()}
        self._security = security  # whose certificates last as long as it does
        if security is not None:
            properties = {**security.settings(), **properties}
        self._config = BrokerConfig.from_properties(properties)
        if isinstance(topics, str):
            raise TypeError(f"topics: {topics!r} is one string where a list of topics belongs, such as [{topics!r}]")
        if not isinstance(brokers, int):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise TypeError(f"brokers: {brokers!r} is no number of brokers")
        if brokers < 1:
            raise ValueError(f"brokers: {brokers} is not at least 1")
        self._brokers = brokers
        told = None if advertise is None else _with_room(_advertised(advertise), brokers, "advertise")
        if listeners is not None:
            self._listeners = served_listeners(properties, listeners, "listeners")
            if told is not None:
                self._listeners[0] = self._listeners[0]._replace(advertised=told)
            check_room(self._listeners, brokers)
        else:
            protocol = PLAINTEXT if security is None else security.protocol
            host, port = _with_room(parse_address(listen, "listen"), brokers, "listen")
            if told is None and (by_list := advertised_addresses(properties).get(protocol)) is not None:
                told = _with_room(by_list, brokers, "advertised.listeners")
            self._listeners = [ServedListener(protocol, protocol, host, port, told)]
        self._listeners += [_further(text, number) for number, text in enumerate(also_listen, 2)]
        self._unserved = _unserved(properties) if listeners is None and security is None else []
        self._topics = [TopicSpec.parse(text) for text in topics]
        for name, count in Counter(spec.name for spec in self._topics).items():
            if count > 1:
                raise ValueError(f"topic {name!r} is given {count} times")
        self._seeds = None if seed_data is None else _seeds(seed_data)
        self._clock = clock
        if journal is not True and journal < 0:
            raise ValueError(f"journal: {journal} is below 0")
        self._journal = journal
        self._control = None if control is None else _control_address(control, control_token)
        self._control_token = control_token
        self._plane: ControlPlane | None = None
        if not timeout >= 0:  # nor is "not a number"
            raise ValueError(f"timeout: {timeout} s is below 0")
        self._timeout = timeout
        self._temporary = data_dir is None
        self._data_dir = data_dir
        self._server: Server | None = None
        self._watch: LoopWatch | None = None
        self.owns_loop = False

    def remarks(self) -> list[str]:
        """What is worth a warning in the configuration."""
        return self._config.remarks() + self._config.remarks_on_replicas(self._brokers) + self._unserved

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration; of several brokers all of them, with commas in between."""
        return ",".join(map(_reachable, self._running.addresses))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The same for those who come by another listener than the first. ValueError for one that there is not."""
        if all(each.name != listener for each in self._listeners):
            raise ValueError(f"there is no listener {listener!r}; there are {', '.join(self.listener_names)}")
        return ",".join(map(_reachable, self._running.addresses_of(listener)))

    @property
    def security(self) -> "Security":
        """What it was given, which knows what clients have to say. RuntimeError if it was given none."""
        if self._security is None:
            raise RuntimeError("the broker was given no security")
        return self._security

    @property
    def listener_names(self) -> list[str]:
        """The names of its listeners."""
        return [each.name for each in self._listeners]

    @property
    def advertised(self) -> list[tuple[str, int]]:
        """Where clients of the first broker are told to find it, where that is not what they have dialled."""
        return [each.advertised for each in self._listeners if each.advertised is not None]

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the first broker listens on. RuntimeError unless it runs."""
        return self._running.address

    @property
    def data_dir(self) -> str:
        """Where the logs are. RuntimeError before the broker has run with a temporary directory."""
        if self._data_dir is None:
            raise NotRunningError("the broker is not running")
        return self._data_dir

    @property
    def control_url(self) -> str:
        """Where the control plane is. RuntimeError unless there is one, and the broker runs."""
        if self._plane is None:
            raise RuntimeError("there is no control plane")
        return self._plane.url

    @property
    def services(self) -> Services:
        """What its handlers share. RuntimeError unless it runs."""
        return self._running.services

    @property
    def patience(self) -> float:
        """Seconds that methods wait which are given no `timeout`."""
        return self._timeout

    @property
    def is_running(self) -> bool:
        """Has it been started, and not been stopped since?"""
        return self._server is not None

    @property
    def _running(self) -> Server:
        if self._server is None:
            raise NotRunningError("the broker is not running")
        return self._server

    async def start(self) -> None:
        """Start; when it returns, clients can connect and the given topics are there. RuntimeError if it runs."""
        if self._server is not None:
            raise RuntimeError("the broker is running")
        if self._temporary:
            self._data_dir = temporary.make()
        server: Server | None = None
        try:
            if self._control is not None:
                from minibroker.control import open_plane  # noqa: PLC0415 - most brokers have none

                self._plane = open_plane(self._control, self._control_token)
            server = Server(
                self._config,
                self.data_dir,
                self._listeners,
                self._clock,
                brokers=self._brokers,
            )
            self._make_topics(server.services)
            self._keep_journal(server.services)
            await server.start()
        except BaseException:
            self._server = server
            await self.stop()
            raise
        self._server = server
        if self._plane is not None:
            self._plane.start(self, asyncio.get_running_loop())
        if not self.owns_loop:
            from minibroker.loop_watch import LoopWatch  # noqa: PLC0415 - most brokers have a loop of their own

            self._watch = LoopWatch(server.has_waiting_clients)

    def make_topics(self) -> None:
        """Create the topics that the broker was given and that are not there, and fill those that have seeds."""
        if self._topics or self._seeds is not None:  # else the topics file would be written anew for nothing
            self._make_topics(self.services)

    def _make_topics(self, services: Services) -> None:
        core = services.core
        create_topics(core, [_plan(core, spec) for spec in self._topics if core.topics.get(spec.name) is None])
        if self._seeds is not None:
            from minibroker.seeding.seeds import plant  # noqa: PLC0415 - most brokers have none

            plant(services, self._seeds)

    def _keep_journal(self, services: Services) -> None:
        if self._journal:
            from minibroker.inspection.journal import DEFAULT_CAPACITY  # noqa: PLC0415 - most brokers keep none
            from minibroker.taps import keep_journal  # noqa: PLC0415 - the same

            keep_journal(services, DEFAULT_CAPACITY if self._journal is True else self._journal)

    async def stop(self) -> None:
        """Stop; connections are closed, logs are closed, a temporary directory is removed."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        plane, self._plane = self._plane, None
        if plane is not None:
            await plane.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(keep=not self._temporary)
        if self._temporary and self._data_dir is not None:
            temporary.remove(self._data_dir)
            self._data_dir = None

    def __enter__(self) -> NoReturn:
        """TypeError: it takes `async with`."""
        raise TypeError("an AsyncBroker takes `async with AsyncBroker()`; for `with` there is `Broker()`")

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Never called; Python looks for it before it calls `__enter__`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _reachable(address: tuple[str, int]) -> str:
    host, port = address
    host = _REACHABLE.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _with_room(address: tuple[str, int], brokers: int, source: str) -> tuple[str, int]:
    """The address of the first of several brokers. ValueError when there are too few ports behind it for the others."""
    host, port = address
    if port + brokers - 1 > _LAST_PORT:
        raise ValueError(f"{source}: {brokers} brokers need the ports from {port} on, but the last one is {_LAST_PORT}")
    return host, port


def _seeds(path: str) -> "Seeds":
    from minibroker.seeding.seed_file import read_seeds  # noqa: PLC0415 - most brokers have none

    return read_seeds(path)


def _control_address(text: str, token: str | None) -> tuple[str, int]:
    """Where the control plane listens. ValueError for what is no address, or one that needs a token."""
    from minibroker.control import check_token  # noqa: PLC0415 - most brokers have none

    address = parse_address(text, "control")
    check_token(address, token)
    return address


def _text(name: str, value: object) -> str:
    """A value of the configuration as a properties file has it. ConfigError for what none can have."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    shown = repr(value)
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if all(isinstance(item, str) for item in items):
            return ",".join(map(str, items))
    raise refused(name, shown, "Expected a text, a number, True, False or a list of texts")


def _plan(core: Core, spec: TopicSpec) -> TopicPlan:
    try:
        return plan_topic(core, spec.name, spec.partitions, configs=spec.configs)
    except TopicError as error:
        raise TopicError(error.code, f"topic {spec.name!r}: {error}") from None


def parse_address(text: str, source: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT or [IPV6]:PORT; an empty host means all interfaces. ValueError that names `source`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise ValueError(f"{source}: {text!r} is not HOST:PORT, with a port of 0 to 65535")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # noqa: S104 - ":9092" means all interfaces


def _unserved(properties: Mapping[str, str]) -> list[str]:
    """What to say of `listeners` that ask clients for more than the address that was given in their place."""
    listed = properties.get("listeners")
    if not listed:
        return []
    try:
        asked = served_listeners(properties, listed, "listeners")
    except ListenerError:
        return []
    if all(each.protocol == PLAINTEXT for each in asked):
        return []
    said = (
        f"listeners={listed} is passed over, since another address was given: clients are served there in plain text "
        "and need not log in. `minibroker serve` without --listen has the list served, and so has Broker(listeners=...)"
    )
    return [said]


def _further(text: str, number: int) -> ServedListener:
    """A further listener in plaintext, written as HOST:PORT or HOST:PORT=ADVERTISED. ValueError."""
    listen, equals, advertised = text.partition("=")
    host, port = parse_address(listen, "also_listen")
    return ServedListener(f"{PLAINTEXT}-{number}", PLAINTEXT, host, port, _advertised(advertised) if equals else None)


def _advertised(text: str) -> tuple[str, int]:
    """(host, port) that clients can be told. ValueError for one that leads nowhere."""
    host, port = parse_address(text, "advertise")
    if host in _REACHABLE or port == 0:
        raise ValueError(f"advertise: {text!r} leads clients nowhere: they need a host and a port that is not 0")
    return host, port
