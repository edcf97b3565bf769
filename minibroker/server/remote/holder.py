"""The holder's side of the link: brokers of other processes become nodes of this cluster.

A member registers its broker and keeps that connection open. The node is up until the connection ends, or until no
heartbeat arrives for `broker.session.timeout.ms`, as with Kafka's controller (`ClusterControlManager`). Its clients
arrive over connections of their own, and are served like those of this process.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.listeners import PLAINTEXT, WILDCARDS
from minibroker.cluster.node import ListenerEndpoint, Node
from minibroker.server.connection import Connection
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas
from minibroker.server.node_listener import NodeListener
from minibroker.server.remote import link
from minibroker.server.remote.link import (
    ClusterState,
    Connect,
    Endpoint,
    Heartbeat,
    LinkError,
    Register,
    RegistrationError,
)
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.files import read_file

with lazy:
    from minibroker.security import listener_security

if TYPE_CHECKING:
    from minibroker.security.listener_security import ListenerSecurity
    from minibroker.server.server import Server

_FIRST_GENERATED_ID: Final = 1001
"""Kafka's first generated broker id, after `reserved.broker.max.id`."""
_GREETING_TIMEOUT_S: Final = 10.0
_MAX_SILENT_CONNECTIONS: Final = 100
"""A further connection without a greeting closes the oldest one."""
ServeLink = Callable[[link.Message, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves a connection of the link after its first message."""


class RelayedConnection(Connection):
    """A client's connection that a member passes on.

    Args:
        connect: The member's message about the client.
        others: The arguments of `Connection`.
    """

    def __init__(self, connect: Connect, *others: Any) -> None:
        super().__init__(*others)
        self._connect = connect
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all resources of the closed connection."""
        super().connection_lost(exc)
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The address that the client has connected to, and the client's own."""
        return self._connect.dialed, self._connect.peer

    def client_certificate(self) -> bytes | None:
        """Return the certificate that the client has sent to the member, in DER."""
        return bytes.fromhex(self._connect.certificate) or None


@dataclass(eq=False)
class _Registration:
    """A registered member.

    Attributes:
        address: The member's address.
        incarnation: The id of its process.
        transport: The connection that keeps its node up.
        changed: Set when there is a new state of the cluster to send, or when the connection has ended.
        heard: The next heartbeat, or the end of the connection. The result says whether it was a heartbeat.
    """

    address: str
    incarnation: str
    transport: asyncio.WriteTransport
    changed: asyncio.Event
    heard: asyncio.Future[bool]


class Holder:
    """Accepts the brokers of other processes as nodes of the cluster.

    Args:
        server: The server of this process.
    """

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._core = server.services.core
        self._security: dict[str, ListenerSecurity | None] = {}
        self._registered: dict[int, _Registration] = {}
        """The registered members by node id."""
        for name, endpoint in self._core.cluster.first.endpoints.items():
            if endpoint.advertised is None:  # The address that a client of a member has connected to is the member's.
                endpoint.advertised = endpoint.given = self._bound_address(name)
        self._core.durability.on_write = self._notify
        self._core.hooks.leader_moved.subscribe(lambda _: self._notify())

    def _notify(self) -> None:
        for registration in self._registered.values():
            registration.changed.set()

    async def serve(self, message: link.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a member, or one of its clients.

        Raises:
            LinkError: The request is refused.
        """
        if isinstance(message, Register):
            await self._serve_member(message, reader, writer)
        elif isinstance(message, Connect):
            await self._relay(message, writer)
        else:
            raise LinkError(f"{type(message).__name__} is not a request")

    async def _serve_member(
        self, message: Register, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Keep a member's node up for the duration of its connection.

        Raises:
            RegistrationError: The member cannot join this cluster.
        """
        while (earlier := self._registered.get(message.node_id)) is not None:
            if earlier.incarnation == message.incarnation:
                self._end(message.node_id, earlier)
            elif await earlier.heard:
                raise RegistrationError(
                    f"node.id {message.node_id} is registered by {earlier.address}; each broker must have its own"
                )
        node, listener = self._add_node(message)
        host, port = writer.get_extra_info("peername")[:2]
        registration = _Registration(
            f"{host}:{port}", message.incarnation, writer.transport, asyncio.Event(), asyncio.Future()
        )
        self._registered[node.id] = registration
        listening = asyncio.ensure_future(self._read_heartbeats(reader, registration))
        listening.add_done_callback(lambda _: self._end(node.id, registration))
        try:
            self._core.cluster.start_node(node.id)
            self._core.cluster.elect_preferred_leaders()
            self._notify()
            sent: dict[str, bytes] = {}
            while not registration.transport.is_closing():
                registration.changed.clear()
                writer.write(link.encode(self._state(node, sent)))
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(registration.changed.wait(), self.heartbeat_s)
        finally:
            listening.cancel()
            self._end(node.id, registration)
            await listener.end()

    def _end(self, node_id: int, registration: _Registration) -> None:
        """Stop a member's node, if this is its present registration. Its clients lose their connections."""
        registration.transport.abort()  # The member may not read, so that a write would never end.
        registration.changed.set()
        if not registration.heard.done():
            registration.heard.set_result(False)
        if self._registered.get(node_id) is registration:
            del self._registered[node_id]
            self._core.cluster.stop_node(node_id)
            self._notify()

    @property
    def heartbeat_s(self) -> float:
        """The interval of heartbeats in both directions, in seconds."""
        return self._core.config.integer("broker.heartbeat.interval.ms") / 1000

    async def _read_heartbeats(self, reader: asyncio.StreamReader, registration: _Registration) -> None:
        """Read heartbeats until one is late or the connection ends."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while True:
                async with asyncio.timeout(self._core.config.integer("broker.session.timeout.ms") / 1000):
                    message = await link.read_message(reader)
                if not isinstance(message, Heartbeat):
                    return
                registration.heard.set_result(True)
                registration.heard = asyncio.Future()

    def _add_node(self, message: Register) -> tuple[Node, NodeListener]:
        """Return the node of a member, which is added if it is new, and the listener for its clients.

        Raises:
            RegistrationError: The holder has the id, or a listener cannot be served.
        """
        cluster = self._core.cluster
        node_id = message.node_id if message.node_id >= 0 else self._free_id()
        if node_id == cluster.first.id:
            raise RegistrationError(
                f"node.id {node_id} is that of the broker with the logs; each broker must have its own"
            )
        for name, endpoint in message.endpoints.items():
            self._security_of(name, endpoint.protocol)
        node = cluster.nodes.get(node_id) or cluster.add_node(node_id, message.rack)
        cluster.nodes_file.keep_node(node_id, message.rack)
        node.endpoints.clear()
        for name, endpoint in message.endpoints.items():
            node.endpoints[name] = ListenerEndpoint((endpoint.host, endpoint.port), endpoint.port)
        quotas = ConnectionQuotas(self._server.services, node_id, tuple(message.endpoints))
        listener = node.listener = NodeListener(_refuse, quotas, self._core.clock, self._core.advice)
        return node, listener

    def _free_id(self) -> int:
        node_id = _FIRST_GENERATED_ID
        while node_id in self._core.cluster.nodes:
            node_id += 1
        return node_id

    def _security_of(self, name: str, protocol: str) -> "ListenerSecurity | None":
        """Return the security of a member's listener, from the configuration of this process.

        Raises:
            RegistrationError: This process lacks settings for the listener.
        """
        if name not in self._security:
            security = None
            if protocol != PLAINTEXT:
                services = self._server.services
                try:
                    # The member terminates TLS.
                    security = listener_security.ListenerSecurity(
                        self._core, lambda: services.security, name, protocol, has_tls=False
                    )
                except (ValueError, OSError) as error:
                    raise RegistrationError(
                        f"the broker with the logs cannot serve the listener {name}: {error}"
                    ) from None
            self._security[name] = security
        return self._security[name]

    def _state(self, member: Node, sent: dict[str, bytes]) -> ClusterState:
        """Return the state of the cluster, with the files that differ from those in `sent`, which is updated."""
        core, files = self._core, dict[str, str]()
        for path in core.durability.paths:
            with contextlib.suppress(FileNotFoundError):
                name, data = path.rpartition("/")[2], read_file(path)
                if sent.get(name) != data:
                    sent[name] = data
                    files[name] = data.decode()
        nodes: dict[str, tuple[str | None, dict[str, Endpoint]]] = {}
        for node in core.cluster.nodes.values():
            endpoints = {
                name: Endpoint(*endpoint.advertised, PLAINTEXT)
                for name, endpoint in node.endpoints.items()
                if endpoint.advertised is not None
            }
            nodes[str(node.id)] = node.rack, endpoints
        return ClusterState(core.cluster.cluster_id, member.id, core.cluster.first.id, nodes, files)

    def _bound_address(self, listener: str) -> tuple[str, int]:
        """Return the address of a listener of this process that has no advertised address."""
        host, port = self._server.addresses_of(listener)[0]
        return socket.gethostname() if host in WILDCARDS else host, port

    async def _relay(self, connect: Connect, writer: asyncio.StreamWriter) -> None:
        """Serve a client that a member passes on.

        Raises:
            LinkError: The member is not registered, or the client is over a limit.
        """
        node = self._core.cluster.nodes.get(connect.node_id)
        listener = None if node is None else node.listener
        if node is None or not node.is_up or not isinstance(listener, NodeListener) or node is self._core.cluster.first:
            raise LinkError(f"node {connect.node_id} is not registered")
        if connect.listener not in node.endpoints:
            raise LinkError(f"node {connect.node_id} has no listener {connect.listener}")
        permit = listener.quotas.enter(connect.listener, connect.peer[0])
        if not isinstance(permit, ConnectionPermit):
            raise LinkError(f"{connect.peer[0]} has too many connections")
        connection = RelayedConnection(
            connect, self._server.services, self._server.pool, listener.connections, node, connect.listener, permit,
            self._security.get(connect.listener),
        )  # fmt: skip
        transport = writer.transport
        writer.write(link.ACCEPTED)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        await connection.ended


def _refuse(*_: object) -> Connection:
    raise AssertionError("the listeners of this node are in another process")


class LinkPort:
    """A port for the other processes of a cluster. A client without their greeting gets no answer.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        serve: Serves a connection after its first message. None sends nothing to anybody.

    Attributes:
        port: The port that is open.
    """

    def __init__(self, host: str, port: int, serve: ServeLink | None) -> None:
        self._host = host
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._writers: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self.port = port

    async def open(self) -> None:
        """Start listening.

        Raises:
            OSError: The address is not available.
        """
        self._server = await asyncio.start_server(self._handle, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = asyncio.current_task()
        self._silent[writer] = None
        if len(self._silent) > _MAX_SILENT_CONNECTIONS:
            next(iter(self._silent)).transport.abort()
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
                if self._serve is not None and await reader.readexactly(len(link.GREETING)) == link.GREETING:
                    self._silent.pop(writer, None)
                    await self._serve_message(self._serve, reader, writer)
                else:
                    while await reader.read(1 << 16):
                        pass
        finally:
            self._silent.pop(writer, None)
            del self._writers[writer]
            writer.close()

    async def _serve_message(
        self, serve: ServeLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(_GREETING_TIMEOUT_S):
                message = await link.read_message(reader, link.MAX_REQUEST_BYTES)
            await serve(message, reader, writer)
        except LinkError as error:
            writer.write(link.encode(link.Refusal(str(error), isinstance(error, RegistrationError))))
            await writer.drain()

    async def close(self) -> None:
        """Stop listening, and wait until all connections have ended."""
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        if serving := [task for task in self._writers.values() if task is not None]:
            await asyncio.wait(serving)
