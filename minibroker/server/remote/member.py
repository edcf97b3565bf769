"""The member's side of the link: a broker whose logs are in another process, the holder.

While the holder answers, all bytes of clients are passed on to it. While it does not, a server of this process answers
them from the last state of the cluster: Metadata names all brokers but no leaders, and what needs a leader, a
coordinator or the controller gets the retriable error of Kafka, so that clients wait for the holder.
"""

import asyncio
import contextlib
import logging
import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, cast

from minibroker.cluster.listeners import ServedListener
from minibroker.cluster.node import ListenerEndpoint
from minibroker.cluster.nodes_file import NodesFile
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config import BrokerConfig
from minibroker.config.broker import RunTime
from minibroker.server.connection import ConnectionSet
from minibroker.server.connection_quotas import ConnectionPermit
from minibroker.server.faults import registry
from minibroker.server.faults.fault import Fault
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
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.files import write_atomically

if TYPE_CHECKING:
    from minibroker.server.connection import Connection

FindHolder = Callable[[], Awaitable[Address]]
"""Waits until a holder is known, and returns the address of its link."""

_RETRY_S: Final = 0.2
_CONNECT_TIMEOUT_S: Final = 2.0
"""Seconds to reach the holder. It may have another address after a restart, and its old one may not answer at all."""
_ANSWERED: Final = frozenset(
    {
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER,
    }
)  # fmt: skip
"""APIs that need no leader, coordinator or controller."""
_ERRORS: Final = {
    **dict.fromkeys((
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_PRODUCERS, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE,
    ), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    **dict.fromkeys((
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT,
    ), ErrorCode.NOT_COORDINATOR),
    ApiKey.FIND_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # Kafka's older producers try again after no other error.
    ApiKey.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}  # fmt: skip
"""The errors of other APIs, for which NOT_CONTROLLER would not make clients try again."""
_logger: Final = logging.getLogger(__name__)


class Relay(asyncio.Protocol):
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
        self._holder = holder
        self._connections = connections
        self._permit = permit
        self._node_id = node_id
        self._listener = listener
        self._client: asyncio.Transport | None = None
        self._upstream: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client is connected."""
        return cast("Connection", self) in self._connections

    def fileno(self) -> int:
        """Return the descriptor of the client's socket, or -1 after it was closed."""
        return -1 if self._client is None else cast("int", self._client.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reach the holder before the first byte of the client is read."""
        self._client = cast("asyncio.Transport", transport)
        self._client.pause_reading()
        self._connections.add(cast("Connection", self))
        self._permit.abort = self.abort
        self._permit.active_ms = float("inf")  # The holder closes idle connections.
        task = asyncio.ensure_future(self._reach_holder(self._client))
        task.add_done_callback(self._on_reached)

    async def _reach_holder(self, client: asyncio.Transport) -> None:
        tls = client.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
        peer, dialed = client.get_extra_info("peername")[:2], client.get_extra_info("sockname")[:2]
        message = Connect(self._node_id, self._listener, peer, dialed, (certificate or b"").hex())
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: _Upstream(self), *self._holder)
        if not self.is_open:  # The client has left in the meantime.
            transport.abort()
            return
        transport.write(link.GREETING + link.encode(message))
        self._upstream = transport

    def _on_reached(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or task.exception() is not None:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Pass the client's bytes on."""
        if self._upstream is not None:
            self._upstream.write(data)

    def accepted(self) -> None:
        """Let the client's bytes flow, because the holder takes them."""
        if self._client is not None:
            self._client.resume_reading()

    def answer(self, data: bytes) -> None:
        """Send the holder's bytes to the client."""
        if self._client is not None:
            self._client.write(data)

    def pause_writing(self) -> None:
        """Stop reading from the holder until the client has read its bytes."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the holder."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def pause_client(self) -> None:
        """Stop reading from the client until the holder has read its bytes."""
        if self._client is not None:
            self._client.pause_reading()

    def end(self) -> None:
        """Send the client what is left, and close its connection."""
        if self._client is not None:
            self._client.close()

    def abort(self) -> None:
        """Abort the connection."""
        if self._client is not None:
            self._client.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """End the connection to the holder."""
        self._connections.discard(cast("Connection", self))
        self._permit.release()
        if self._upstream is not None:
            self._upstream.close()


class _Upstream(asyncio.Protocol):
    """The connection to the holder on behalf of one client."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._is_accepted = False

    def data_received(self, data: bytes) -> None:
        """Take the holder's acceptance, then its bytes for the client."""
        if not self._is_accepted:
            if not data.startswith(link.ACCEPTED):
                self._relay.abort()
                return
            self._is_accepted = True
            self._relay.accepted()
            data = data[len(link.ACCEPTED) :]
        if data:
            self._relay.answer(data)

    def pause_writing(self) -> None:
        """Stop reading from the client."""
        self._relay.pause_client()

    def resume_writing(self) -> None:
        """Resume reading from the client."""
        self._relay.accepted()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Close the client's connection, which may be in the middle of a response."""
        self._relay.end()


class Member:
    """A broker of a cluster whose logs are in another process.

    Args:
        config: The configuration of this broker, of which its listeners count.
        node_id: The id of this broker, or None if the holder gives it one.
        listeners: The listeners.
        endpoints: The addresses that clients get, by listener.
        find_holder: See `FindHolder`.

    Attributes:
        node_id: The id of this broker, or -1 until the holder has given it one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node_id: int | None,
        listeners: Sequence[ServedListener],
        endpoints: Mapping[str, Endpoint],
        find_holder: FindHolder,
    ) -> None:
        self._config = config
        self._listeners = listeners
        self._endpoints = dict(endpoints)
        self._find_holder = find_holder
        self.node_id = -1 if node_id is None else node_id
        self._incarnation = uuid.uuid4().hex
        self._files: dict[str, str] = {}
        self._state: ClusterState | None = None
        self._server: Server | None = None
        self._is_attached = False
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """The (host, port) of each listener by name; empty before the first registration."""
        if self._server is None:
            return {}
        return {listener.name: self._server.addresses_of(listener.name)[0] for listener in self._listeners}

    async def run(self, on_joined: Callable[[], None]) -> NoReturn:
        """Stay in the cluster until the task is cancelled.

        Args:
            on_joined: Called after the first registration, when clients can connect.

        Raises:
            RegistrationError: The holder refuses this broker.
            OSError: A listener's address is not available.
        """
        try:
            while True:
                try:
                    await self._stay_registered(await self._find_holder(), on_joined)
                except RegistrationError:
                    raise
                except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                    _logger.info("The link to the broker with the logs has ended: %s", error or type(error).__name__)
                if self._is_attached:
                    await self._detach()
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
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*holder)
        beating: asyncio.Task[None] | None = None
        try:
            rack = self._config.optional_text("broker.rack")
            request = Register(self.node_id, rack, self._endpoints, self._incarnation)
            writer.write(link.GREETING + link.encode(request))
            async with asyncio.timeout(timeout_s):
                self._take(await link.read_message(reader))
            beating = asyncio.ensure_future(self._beat(writer))
            is_first = self._server is None
            if is_first:
                await self._start_server()
            assert self._server is not None
            self._is_attached = True
            self._server.relay_to(cast("Callable[..., Connection]", partial(Relay, holder)))
            if is_first:
                assert self._state is not None
                on_joined()
            while True:
                async with asyncio.timeout(timeout_s):
                    self._take(await link.read_message(reader))
        finally:
            if beating is not None:
                beating.cancel()
            writer.transport.abort()

    def _take(self, message: link.Message) -> None:
        """Remember the state of the cluster.

        Raises:
            LinkError: The message is another one.
        """
        if not isinstance(message, ClusterState):
            raise LinkError(f"the broker with the logs answers {type(message).__name__}")
        self._state = message
        self._files |= message.files
        self.node_id = message.node_id

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        interval_s = self._config.integer("broker.heartbeat.interval.ms") / 1000
        while True:
            writer.write(link.encode(Heartbeat()))
            await asyncio.sleep(interval_s)

    async def _detach(self) -> None:
        """Answer clients from the last state, until the holder is back."""
        self._is_attached = False
        await self._close()
        await self._start_server()
        assert self._server is not None
        assert self._state is not None
        core = self._server.services.core
        for topic in core.topics:
            for partition in topic.partitions:
                partition.leader = None
            topic.mark_changed()
        core.cluster.controller = None
        faults = registry.faults_of(self._server.services)
        for key in (route.key for route in ROUTES):
            if key not in _ANSWERED:
                error = _ERRORS.get(key, ErrorCode.NOT_CONTROLLER)
                # The error of a Fetch belongs to its partitions, so that consumers ask for their leaders again.
                pattern = "*" if error == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
                with contextlib.suppress(ValueError):  # Some APIs have no response that could carry an error.
                    faults.add(Fault(api=key.message, topic=pattern, error=error))

    async def _start_server(self) -> None:
        """Start a server on the state of the cluster, without records.

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
        server = Server(config, self._directory.name, self._listeners)
        for node_id, (_, endpoints) in state.nodes.items():
            node = server.services.core.cluster.nodes[int(node_id)]
            node.is_up = True
            for name, endpoint in endpoints.items():
                node.endpoints[name] = ListenerEndpoint((endpoint.host, endpoint.port), endpoint.port)
        await server.start()
        self._server = server

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(keep=False)
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
