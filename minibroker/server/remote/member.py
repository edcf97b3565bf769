"""The member's side of the link: a broker whose logs are in another process, the holder.

While the holder answers, all bytes from clients are passed on to it. Otherwise, a server in this process answers from
the last state of the cluster: Metadata names all brokers but no leaders, and requests that need a leader, a coordinator
or the controller get Kafka's retriable error, so that clients wait for the holder.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from minibroker.cluster.listeners import ServedListener
from minibroker.cluster.node import ListenerEndpoint, NodesFile
from minibroker.cluster.topic_admin import TopicSpec
from minibroker.config import BrokerConfig
from minibroker.config.addresses import is_local
from minibroker.config.broker import RunTime
from minibroker.server.connection import ConnectionSet
from minibroker.server.connection_quotas import ConnectionPermit
from minibroker.server.remote import link
from minibroker.server.remote.link import (
    Address,
    ClusterState,
    Connect,
    Endpoint,
    Heartbeat,
    LinkError,
    Register,
    RegistrationError,
)
from minibroker.server.server import Server
from minibroker_storage.files import write_atomically

if TYPE_CHECKING:
    from minibroker.server.connection import Connection

FindHolder = Callable[[], Awaitable[Address | None]]
"""Waits until the holder is known. Returns the address of its link, or None if it is this broker."""

_RETRY_S: Final = 0.2
_CONNECT_TIMEOUT_S: Final = 2.0
"""Seconds to reach the holder. It may have another address after a restart, and its old one may not answer at all."""
_logger: Final = logging.getLogger(__name__)


class Relay(asyncio.StreamReaderProtocol):
    """A client's connection, whose bytes are passed on to the holder.

    Args:
        holder: The address of the holder's link.
        connections: The set of open connections, to which this one belongs while it is open.
        permit: The connection's permit, which is released at its end.
        node_id: The id of this broker.
        listener: The name of the listener.
    """

    waiting = None
    """A relay delays no request; see `Connection.waiting`."""

    def __init__(
        self, holder: Address, connections: ConnectionSet, permit: ConnectionPermit, node_id: int, listener: str
    ) -> None:
        super().__init__(asyncio.StreamReader(), self._relay)
        self._holder = holder
        self._connections = connections
        self._permit = permit
        self._node_id = node_id
        self._listener = listener
        self._client: asyncio.Transport | None = None
        self._relaying: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client is connected."""
        return cast("Connection", self) in self._connections

    def fileno(self) -> int:
        """Return the descriptor of the client's socket, or -1 after it was closed."""
        return -1 if self._client is None else cast("int", self._client.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start passing the client on."""
        self._client = cast("asyncio.Transport", transport)
        self._connections.add(cast("Connection", self))
        self._permit.abort = self.abort
        self._permit.active_ms = float("inf")  # The holder closes idle connections.
        super().connection_made(transport)

    async def _relay(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Forward bytes in both directions until either side closes its connection."""
        tls = client.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        # A client that has left already has no address.
        peer, dialed = (client.get_extra_info(name) or ("", 0) for name in ("peername", "sockname"))
        message = Connect(self._node_id, self._listener, peer[:2], dialed[:2], (certificate or b"").hex())
        self._relaying = asyncio.current_task()
        try:
            if not client.is_closing():
                await _pass_on(self._holder, message, client_reader, client)
        except (OSError, asyncio.CancelledError):
            pass  # The client connects again.
        finally:
            client.close()
            self._connections.discard(cast("Connection", self))

    def abort(self) -> None:
        """Abort the connection."""
        if self._client is not None:
            self._client.abort()
        if self._relaying is not None:
            self._relaying.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the permit. The connection to the holder ends, too."""
        super().connection_lost(exc)
        self._permit.release()


async def _pass_on(
    holder: Address, connect: Connect, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter
) -> None:
    """Forward the bytes of a client to the holder and back, if the holder accepts it.

    Raises:
        OSError: The holder cannot be reached.
    """
    reader, writer = await asyncio.open_connection(*holder)
    with contextlib.closing(writer):
        writer.write(link.GREETING + link.encode(connect))
        if await reader.read(len(link.ACCEPTED)) == link.ACCEPTED:
            await asyncio.gather(link.forward(client_reader, writer), link.forward(reader, client))


class Member:
    """A broker of a cluster whose logs are in another process.

    Args:
        config: The configuration of this broker.
        node_id: The id of this broker, or None if the holder gives it one.
        listeners: The listeners.
        find_holder: See `FindHolder`.
        topics: The topics to create, unless they exist.

    Attributes:
        listeners: The listeners, with the ports that are open after the first registration.
        node_id: The id of this broker, or -1 until the holder has given it one.
        holder_id: The id of the holder, or -1 before the first registration.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node_id: int | None,
        listeners: Sequence[ServedListener],
        find_holder: FindHolder,
        topics: Sequence[TopicSpec] = (),
    ) -> None:
        self._config = config
        self.listeners = listeners
        self._find_holder = find_holder
        self._topics = topics
        self.node_id = -1 if node_id is None else node_id
        self.holder_id = -1
        self._incarnation = uuid.uuid4().hex
        self._files: dict[str, str] = {}
        self._state: ClusterState | None = None
        self._server: Server | None = None
        self._is_attached = False
        self._holder: Address = "", 0
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The addresses that clients get, by listener. A port is 0 until it is open."""
        return {listener.name: Endpoint.of(listener) for listener in self.listeners}

    async def run(self, on_joined: Callable[[], None]) -> None:
        """Stay in the cluster until the task is cancelled, or until this broker must hold the logs itself.

        Args:
            on_joined: Called after each registration, when clients are passed on.

        Raises:
            RegistrationError: The holder refuses this broker.
            OSError: A listener's address is not available.
        """
        try:
            while (holder := await self._find_holder()) is not None:
                try:
                    await self._stay_registered(holder, on_joined)
                except RegistrationError:
                    raise
                except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                    _logger.info("The link to the broker with the logs has ended: %s", error or type(error).__name__)
                if self._is_attached:  # Answer clients from the last state, until the holder is back.
                    self._is_attached = False
                    await self._close()
                    await self._start_server()
                await asyncio.sleep(_RETRY_S)
        finally:
            await self._close()

    async def _stay_registered(self, holder: Address, on_joined: Callable[[], None]) -> None:
        """Register, and pass clients on until the link ends.

        Raises:
            RegistrationError: The holder refuses this broker.
            OSError: The link has ended.
            TimeoutError: The holder has been silent for too long.
        """
        timeout_s = self._config.integer("broker.session.timeout.ms") / 1000
        self._holder = holder
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*holder)
        beating: asyncio.Task[None] | None = None
        try:
            endpoints = self.endpoints
            rack = self._config.optional_text("broker.rack")
            request = Register(self.node_id, rack, endpoints, self._incarnation, self._topics)
            writer.write(link.GREETING + link.encode(request))
            async with asyncio.timeout(timeout_s):
                self._save_state(await link.read_message(reader))
            self._topics = ()  # A topic that was deleted stays so when this broker registers again.
            beating = asyncio.ensure_future(self._send_heartbeats(writer))
            if self._server is None:
                await self._start_server()
                if self.endpoints != endpoints:
                    return  # Register again with the ports that are open now.
            assert self._server is not None
            self._is_attached = True
            self._server.relay_to(cast("Callable[..., Connection]", partial(Relay, holder)))
            on_joined()
            while True:
                async with asyncio.timeout(timeout_s):
                    self._save_state(await link.read_message(reader))
        finally:
            if beating is not None:
                beating.cancel()
            writer.transport.abort()

    async def relay_port(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a client on to the same port of the latest holder, unless that is this port itself."""
        with contextlib.closing(writer), contextlib.suppress(OSError):
            if self._holder[0] and not is_local(self._holder):
                holder_reader, holder_writer = await asyncio.open_connection(self._holder[0], port)
                with contextlib.closing(holder_writer):
                    await asyncio.gather(link.forward(reader, holder_writer), link.forward(holder_reader, writer))

    async def relay_registry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a client on to the schema registry of the latest holder."""
        peer, dialed = (writer.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        try:
            await _pass_on(self._holder, Connect(self.node_id, link.REGISTRY, peer, dialed), reader, writer)
        except OSError as error:
            _logger.info("A client of the schema registry is dropped: %s", error)
        finally:
            writer.close()

    def _save_state(self, message: link.Message) -> None:
        """Remember the state of the cluster.

        Raises:
            LinkError: The message is not a ClusterState.
        """
        if not isinstance(message, ClusterState):
            raise LinkError(f"the broker with the logs answers {type(message).__name__}")
        self._state = message
        self._files |= message.files
        self.node_id, self.holder_id = message.node_id, message.holder_id

    async def _send_heartbeats(self, writer: asyncio.StreamWriter) -> None:
        interval_s = self._config.integer("broker.heartbeat.interval.ms") / 1000
        while True:
            writer.write(link.encode(Heartbeat()))
            await asyncio.sleep(interval_s)

    async def _start_server(self) -> None:
        """Start a server that answers clients from the state of the cluster, without leaders and controller.

        Raises:
            OSError: An address is not available.
        """
        state = self._state
        assert state is not None
        self._directory = tempfile.TemporaryDirectory(prefix="minibroker-member-")
        for name, text in self._files.items():
            write_atomically(os.path.join(self._directory.name, name), text.encode())
        nodes_file = NodesFile(self._directory.name)
        nodes_file.keep_holder(state.holder_id, state.node_id)
        for node_id, (rack, _) in state.nodes.items():
            if int(node_id) != state.node_id:
                nodes_file.keep_node(int(node_id), rack)
        settings = {
            "broker.id": str(state.node_id),
            "node.id": str(state.node_id),
            "minibroker.cluster.id": state.cluster_id,
            "auto.create.topics.enable": "false",
        }
        config = self._config.altered(RunTime({}, {}), settings)
        server = Server(config, self._directory.name, self.listeners)
        for node_id, (_, endpoints) in state.nodes.items():
            node = server.services.core.cluster.nodes[int(node_id)]
            node.is_up = True
            for name, endpoint in endpoints.items():
                node.endpoints[name] = ListenerEndpoint((endpoint.host, endpoint.port), endpoint.port)
        for topic in server.services.core.topics:
            for partition in topic.partitions:
                partition.leader = None
            topic.mark_changed()
        server.services.core.cluster.controller = None
        server.services.is_detached = True
        await server.start()
        self._server = server
        self.listeners = server.listeners  # From now on, a port that the system selected stays the same.

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(keep=False)
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
