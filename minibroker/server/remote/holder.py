"""The holder's side of the link: brokers of other processes become nodes of this cluster.

A member registers its broker and keeps that connection open. The node is up until the connection ends, or until no
heartbeat arrives for `broker.session.timeout.ms`, as with Kafka's controller (`ClusterControlManager`). Its clients
arrive over connections of their own, and are served like those of this process.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from minibroker.cluster.listeners import PLAINTEXT
from minibroker.cluster.node import ListenerEndpoint, Node
from minibroker.cluster.topic_admin import TopicError, create_missing_topics
from minibroker.server.connection import Connection
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas
from minibroker.server.node_listener import NodeListener, cannot_listen
from minibroker.server.remote import link
from minibroker.server.remote.link import ClusterState, Connect, Endpoint, LinkError, Register, RegistrationError
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.files import read_file

with lazy:
    from minibroker.security import listener_security

if TYPE_CHECKING:
    from minibroker.security.listener_security import ListenerSecurity
    from minibroker.server.server import Server

_FIRST_GENERATED_ID: Final = 1001
"""Kafka's first generated broker id, after `reserved.broker.max.id`."""
_PAUSE_S: Final = 0.05
"""Seconds between two states that members get because something has changed."""
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
        node: Its node.
        incarnation: The id of its process.
        writer: The connection that keeps its node up.
        heard: The next heartbeat, or the end of the connection. The result says whether it was a heartbeat.
        sent: The content of each metadata file that the member has, by name.
    """

    node: Node
    incarnation: str
    writer: asyncio.StreamWriter
    heard: asyncio.Future[bool] = field(default_factory=asyncio.Future[bool])
    sent: dict[str, str] = field(default_factory=dict[str, str])


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
        self._generated: dict[str, int] = {}
        """The ids of members that have none of their own, by incarnation. The answer to a registration may be lost."""
        self._sending: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        hosts = {listener.name: Endpoint.of(listener).host for listener in server.listeners}
        for node in self._core.cluster.nodes.values():
            for name, endpoint in node.endpoints.items():
                if endpoint.advertised is None:  # The address that a member's client has connected to is the member's.
                    endpoint.advertised = endpoint.given = hosts[name], endpoint.port
        self._core.durability.on_write = self._notify
        self._core.hooks.leader_moved.subscribe(lambda _: self._notify())

    def _notify(self) -> None:
        """Schedule the new state for all members. Changes that follow each other closely are sent together."""
        if self._sending is None and self._registered:
            self._sending = asyncio.get_running_loop().call_at(self._sent_at + _PAUSE_S, self._send_states)

    def _send_states(self) -> None:
        self._sending, self._sent_at = None, asyncio.get_running_loop().time()
        for registration in self._registered.values():
            self._send_state(registration)

    async def serve(self, message: link.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a member, or one of its clients.

        Raises:
            LinkError: The request is refused.
        """
        if isinstance(message, Register):
            await self._serve_member(message, reader, writer)
        elif isinstance(message, Connect) and message.listener == link.REGISTRY:
            await self._relay_to_registry(reader, writer)
        elif isinstance(message, Connect):
            await self._relay(message, writer)
        else:
            raise LinkError(f"{type(message).__name__} is not a request")

    async def _serve_member(
        self, message: Register, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Keep a member's node up until its connection ends or a heartbeat is late.

        Raises:
            RegistrationError: The member cannot join this cluster.
        """
        node_id = message.node_id
        if node_id < 0:
            free_ids = (
                number for number in itertools.count(_FIRST_GENERATED_ID) if number not in self._core.cluster.nodes
            )
            node_id = self._generated.setdefault(message.incarnation, next(free_ids))
        while (earlier := self._registered.get(node_id)) is not None:
            if earlier.incarnation == message.incarnation:
                earlier.writer.transport.abort()
            heard = earlier.heard
            await asyncio.wait([heard])
            if heard.result() and earlier.incarnation != message.incarnation:
                host, port = earlier.writer.get_extra_info("peername")[:2]
                raise RegistrationError(
                    f"node.id {node_id} is registered by {host}:{port}; each broker must have its own"
                )
        try:
            create_missing_topics(self._core, message.topics)
        except TopicError as error:
            raise RegistrationError(str(error)) from None
        node, listener = self._add_node(node_id, message)
        registration = self._registered[node.id] = _Registration(node, message.incarnation, writer)
        timeout_s = self._core.config.integer("broker.session.timeout.ms") / 1000
        try:
            self._core.cluster.start_node(node.id)
            self._core.cluster.add_missing_replicas()
            self._core.cluster.elect_preferred_leaders()
            self._notify()
            while True:
                self._send_state(registration)
                async with asyncio.timeout(timeout_s):
                    await writer.drain()
                    await link.read_message(reader, link.MAX_REQUEST_BYTES)
                registration.heard.set_result(True)
                registration.heard = asyncio.Future()
        finally:
            writer.transport.abort()  # A write never ends if the member has stopped reading.
            del self._registered[node.id]
            registration.heard.set_result(False)
            self._core.cluster.stop_node(node.id)
            self._notify()
            await listener.end()

    def _add_node(self, node_id: int, message: Register) -> tuple[Node, NodeListener]:
        """Return the node of a member, which is added if it is new, and the listener for its clients.

        Raises:
            RegistrationError: The holder has the id, or a listener cannot be served.
        """
        cluster = self._core.cluster
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

    def _send_state(self, registration: _Registration) -> None:
        """Send a member the state of the cluster, with the metadata files that it does not have yet."""
        core, files = self._core, dict[str, str]()
        # Reading them takes 50 us with 1,000 topics. A snapshot that is restored replaces them without a notification.
        for path in core.durability.paths:
            with contextlib.suppress(FileNotFoundError):
                name, content = os.path.basename(path), read_file(path).decode()
                if registration.sent.get(name) != content:
                    registration.sent[name] = files[name] = content
        nodes: dict[str, tuple[str | None, dict[str, Endpoint]]] = {}
        for node in core.cluster.nodes.values():
            endpoints = {
                name: Endpoint(*endpoint.advertised, PLAINTEXT)
                for name, endpoint in node.endpoints.items()
                if endpoint.advertised is not None
            }
            nodes[str(node.id)] = node.rack, endpoints
        cluster = core.cluster
        state = ClusterState(cluster.cluster_id, registration.node.id, cluster.first.id, nodes, files)
        registration.writer.write(link.encode(state))

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

    async def _relay_to_registry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a member's client with the schema registry.

        Raises:
            LinkError: There is no registry here.
        """
        url = self._server.services.registry_url
        if url is None:
            raise LinkError("the broker with the logs has no schema registry")
        registry_reader, registry_writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        with contextlib.closing(registry_writer):
            writer.write(link.ACCEPTED)
            await asyncio.gather(link.forward(reader, registry_writer), link.forward(registry_reader, writer))


def _refuse(*_: object) -> Connection:
    raise AssertionError("the listeners of this node are in another process")


class LinkPort:
    """A port for the other processes of a cluster. A client that does not send their greeting gets no answer.

    Args:
        host: The address to listen on, or None for all addresses, of IPv4 and IPv6.
        port: The port; 0 selects a free one.
        serve: Serves a connection after its first message. None never answers.

    Attributes:
        port: The port that is open.
    """

    def __init__(self, host: str | None, port: int, serve: ServeLink | None) -> None:
        self._host = host
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._entering = 0
        """The number of accepted connections that are not served yet."""
        self.port = port

    async def open(self) -> None:
        """Start listening.

        Raises:
            OSError: The address is not available.
        """
        loop = asyncio.get_running_loop()
        if self._host is None:
            has_both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if has_both else socket.AF_INET
            opened = socket.create_server(("", self.port), family=family, dualstack_ipv6=has_both)
            self._server = await loop.create_server(self._accept, sock=opened)
        else:
            try:
                self._server = await loop.create_server(self._accept, self._host, self.port)
            except OSError as error:
                raise cannot_listen(self._host, self.port, error) from None
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self) -> asyncio.StreamReaderProtocol:
        self._entering += 1
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._handle)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._entering -= 1
        task = asyncio.current_task()
        self._tasks.add(task)
        self._silent[writer] = None
        if len(self._silent) > _MAX_SILENT_CONNECTIONS:
            next(iter(self._silent)).transport.abort()
        try:
            if self._serve is not None and await reader.readexactly(len(link.GREETING)) == link.GREETING:
                del self._silent[writer]
                async with asyncio.timeout(_GREETING_TIMEOUT_S):
                    message = await link.read_message(reader, link.MAX_REQUEST_BYTES)
                await self._serve(message, reader, writer)
            else:
                while await reader.read(1 << 16):
                    pass
        except LinkError as error:
            writer.write(link.encode(link.Refusal(str(error), isinstance(error, RegistrationError))))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The connection ends in any case.
        finally:
            self._silent.pop(writer, None)
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """Stop listening, and wait until all connections have ended."""
        if self._server is not None:
            # asyncio never closes a connection that it has just accepted when its server is closed.
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            await asyncio.sleep(0)
            while self._entering:  # noqa: ASYNC110 - they enter within a few rounds of the loop
                await asyncio.sleep(0)
            self._server.close()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
