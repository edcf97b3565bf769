"""A broker in a cluster of several processes, which either holds the logs or passes its clients on to the holder."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.cli.kafka_lines import write_ready_lines
from minibroker.cluster.node import NodesFile
from minibroker.config.addresses import format_address, format_reachable, parse_address
from minibroker.server.remote.holder import Holder, LinkPort
from minibroker.server.remote.link import Endpoint
from minibroker.server.remote.member import Member
from minibroker_container import health
from minibroker_container.meeting import Place, Registrar, Voters, find_holder
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing

with lazy:
    from minibroker_container import zookeeper_meeting

if TYPE_CHECKING:
    from minibroker.broker import Broker
    from minibroker_registry.server import RegistryServer

_ZOOKEEPER: Final = "zookeeper://"
_logger: Final = logging.getLogger("minibroker")


async def meet(
    broker: "Broker",
    places: Sequence[str],
    link_address: str | None,
    admin_ports: Sequence[str],
    stop: asyncio.Event,
    on_joined: Callable[[str], None],
) -> AbstractAsyncContextManager[None] | None:
    """Find the holder of the logs. If it is another broker, pass clients on to it until `stop` is set.

    Args:
        broker: The broker, which has not been started.
        places: `[ID@]HOST:PORT` of each process that is asked, or one `zookeeper://CONNECT`.
        link_address: HOST:PORT of this broker's link, or None for a free port.
        admin_ports: HOST:PORT of the vendors' admin APIs. A member passes their clients on to the same port of the
            holder.
        stop: The event that ends all waiting.
        on_joined: Called with the bootstrap address once clients are passed on.

    Returns:
        A context for the time in which this broker runs and holds the logs, or None once `stop` is set.

    Raises:
        ClaimError: Another broker holds logs of the cluster as well, or has the id of this one.
        RegistrationError: The holder refuses this broker.
        OSError: An address is not available, or the data directory cannot be written.
        ValueError: An address is invalid.
    """
    joining = asyncio.ensure_future(_Cluster(broker, link_address, on_joined).join(places, admin_ports))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (joining, stopping):
        task.cancel()
    await asyncio.wait([joining])
    return None if joining.cancelled() else joining.result()


@contextlib.asynccontextmanager
async def _open_admin_ports(addresses: Sequence[str], member: Member) -> AsyncGenerator[None]:
    """Open the ports whose clients are passed on to the holder. A port that is taken is logged and skipped."""
    with contextlib.ExitStack() as opened:
        for address in addresses:
            host, port = parse_address(address, "--admin-api")
            try:
                opened.callback((await asyncio.start_server(partial(member.relay_port, port), host, port)).close)
            except OSError as error:
                _logger.warning("--admin-api %s cannot be opened: %s", address, error.strerror)
        yield


class _Cluster:
    """The role of a broker in its cluster."""

    def __init__(self, broker: "Broker", link_address: str | None, on_joined: Callable[[str], None]) -> None:
        self._broker = broker.asynchronous
        self._on_joined = on_joined
        options = self._broker.checked_options
        self._nodes_file = NodesFile(options.data_dir)
        configured_id = options.config.integer("node.id")
        self._node_id = self._nodes_file.node_id if configured_id < 0 else configured_id
        self._registrar = Registrar(
            -1 if self._node_id is None else self._node_id, is_holder=self._nodes_file.is_holder
        )
        host, port = (None, 0) if link_address is None else parse_address(link_address, "--link")
        self._link = LinkPort(host, port, self._registrar.serve)
        self._announcing: asyncio.Future[None] | None = None
        self._registry: RegistryServer | None = None
        self._relay: asyncio.Future[asyncio.Server] | None = None
        self._reason = ""
        self._ends = contextlib.AsyncExitStack()  # It closes all that other processes see of this one.

    async def join(self, places: Sequence[str], admin_ports: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Stay a member until this broker must hold the logs. Return the context for holding them."""
        try:
            await self._link.open()
            self._ends.push_async_callback(self._link.close)
            self._registrar.port = self._link.port
            options = self._broker.checked_options
            self._registry = options.open_registry()
            self._ends.push_async_callback(self._close_registry)
            place = self._create_place(places)
            self._ends.callback(place.close)
            find = partial(find_holder, place, self._nodes_file)
            member = Member(options.config, self._node_id, options.listeners, find, options.topics)
            async with _open_admin_ports(admin_ports, member):
                await member.run(lambda: self._begin_membership(place, member))
            await self._close_registry()
            # The broker must find this in its data directory when it opens it.
            self._nodes_file.keep_holder(self._registrar.holder_id, self._registrar.holder_id)
        except BaseException:
            await self._ends.aclose()
            raise
        return self._hold_logs(place)

    def _create_place(self, places: Sequence[str]) -> Place:
        if not places[0].startswith(_ZOOKEEPER):
            return Voters(places, self._registrar, self._report)
        try:
            create = zookeeper_meeting.ZooKeeper
        except ModuleNotFoundError:
            raise ValueError(f"--meet {places[0]}: {missing('kazoo', 'zookeeper')}") from None
        config = self._broker.checked_options.config
        return create(places[0].removeprefix(_ZOOKEEPER), config, self._registrar, self._report)

    def _report(self, reason: str) -> None:
        """Log why the broker has to wait, and tell the health check, once for each reason."""
        if reason != self._reason:
            self._reason = reason
            health.report(f"waiting: this broker {reason}\n")
            _logger.warning("this broker %s", reason)

    def _begin_membership(self, place: Place, member: Member) -> None:
        """Report the ports to the health check. The first time, also print the ready line and announce this broker."""
        addresses = [(listener.name, format_reachable((listener.host, listener.port))) for listener in member.listeners]
        protocols = self._broker.listener_protocols
        health.report_ports((protocols[name], address) for name, address in addresses)
        registry = ""
        if self._registry is not None:
            registry = f" registry={self._registry.url}"
            self._relay = self._relay or asyncio.ensure_future(self._registry.relay(member.relay_registry))
        is_late, self._reason = bool(self._reason), ""
        if self._announcing is not None:
            if is_late:
                _logger.warning("broker %d is here again", member.holder_id)
            return
        self._nodes_file.keep_holder(member.holder_id, member.node_id)
        self._announce(place, member.node_id, member.endpoints)
        first = member.listeners[0]
        advertised = member.endpoints[first.name]
        bootstrap = format_address((advertised.host, advertised.port)) if first.advertised else addresses[0][1]
        data_dir = self._broker.checked_options.data_dir
        self._on_joined(bootstrap)
        ready = f"bootstrap={bootstrap} data-dir={data_dir} pid={os.getpid()}{registry}"
        print(f"minibroker ready: {ready} node-id={member.node_id} holder={member.holder_id}", flush=True)  # noqa: T201 - programs wait for this line
        bound = [(listener.name, format_address((listener.host, listener.port))) for listener in member.listeners]
        write_ready_lines(member.node_id, bound)
        options = self._broker.checked_options
        if options.has_page:
            _logger.warning("the lab is at broker %d, which holds the logs", member.holder_id)
        if options.seeds is not None:
            _logger.warning("--seed-data has an effect only at broker %d, which holds the logs", member.holder_id)

    def _announce(self, place: Place, node_id: int, endpoints: Mapping[str, Endpoint]) -> None:
        self._announcing = asyncio.ensure_future(place.announce(node_id, endpoints))
        self._ends.callback(self._announcing.cancel)

    @contextlib.asynccontextmanager
    async def _hold_logs(self, place: Place) -> AsyncGenerator[None]:
        """Let other brokers join this one, which holds the logs and runs."""
        server = self._broker.server
        if users := await place.read_users():
            server.services.security.scram.alter(users)
        self._registrar.begin(Holder(server))
        endpoints = {listener.name: Endpoint.of(listener) for listener in server.listeners}
        self._announce(place, self._registrar.holder_id, endpoints)
        try:
            yield
        finally:
            await self._ends.aclose()

    async def _close_registry(self) -> None:
        if self._relay is not None:
            (await self._relay).close()
        if self._registry is not None:
            await self._registry.stop()
