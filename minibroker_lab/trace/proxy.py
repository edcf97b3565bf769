"""The proxy: its connections, and one listening port per broker, opened when a response first names that broker.

Each side of a connection is read only while the other side accepts data. A slow client or broker therefore costs no
memory: the sockets fill up, as they would without a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from minibroker.config.addresses import LAST_PORT, format_address
from minibroker_lab.trace.conversation import Conversation, RequestStream, ResponseStream
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_lab.trace import faults as trace_faults

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from minibroker_lab.trace.faults import ProxyFaults
    from minibroker_lab.trace.lines import LineWriter

MAX_PENDING: Final = 10_000
"""The number of unanswered requests at which a connection stops reading from its client."""
MAX_KEPT_BYTES: Final = 1 << 22
"""The number of bytes of a frame that are kept for display."""
CONNECT_S: Final = 30.0
"""The timeout for connecting to a broker, including the TLS handshake."""
MAX_BROKERS: Final = 1000
_BACKLOG: Final = 1024
_ATTEMPTS: Final = 100
"""The number of ports tried for one broker."""

Address = tuple[str, int]


class Proxy:
    """A proxy in front of one cluster.

    Args:
        to: The address of a broker of the cluster.
        listen: The listening address for that broker. Other brokers get the next ports, or free ports if the port is 0.
        context: The TLS context for connections to brokers, or None.
        sink: Receives all exchanges.
        faults: What happens to requests and responses, or None.

    Attributes:
        sides: The open connections of clients.
        detached: The connections to brokers for late requests, whose clients are gone.
    """

    def __init__(
        self,
        to: Address,
        listen: Address,
        context: ssl.SSLContext | None,
        sink: LineWriter,
        faults: ProxyFaults | None = None,
    ) -> None:
        self.context = context
        self.faults = faults
        self.sink = sink
        self._to = to
        self._listen = listen
        self._next_port = listen[1]
        self._ports: dict[Address, int] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.sides: set[ClientSide] = set()
        self.detached: set[_BrokerSide] = set()
        self._family = socket.AF_INET

    @property
    def address(self) -> Address:
        """The address from which clients bootstrap."""
        return self._listen[0], self._ports[self._to]

    async def start(self) -> None:
        """Check that the broker can be reached, then start listening.

        Raises:
            ValueError: The broker cannot be reached, or the listening address is invalid or in use.
        """
        await self._probe()
        loop = asyncio.get_running_loop()
        host, port = self._listen
        try:
            addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror as error:
            raise ValueError(f"--listen: {host} is not an address of this machine: {error.strerror}") from None
        self._family = addresses[0][0]
        self._listen = str(addresses[0][4][0]), port
        try:
            listening = self._bind(port)
        except OSError as error:
            raise ValueError(f"--listen: {format_address(self._listen)} cannot be bound: {error.strerror}") from None
        self._ports[self._to] = listening.getsockname()[1]
        await self._serve(listening, self._to)

    async def _probe(self) -> None:
        host, port = self._to
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(
                    host, port, ssl=self.context, server_hostname=host if self.context else None
                )
        except OSError as error:
            raise ValueError(f"--to: {unreachable(self._to, error)}") from None
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def close(self) -> None:
        """Abort all connections and stop listening."""
        for server in self._servers:
            server.close()
        for side in tuple(self.sides):
            side.abort()
            side.conversation.close("the proxy ended")
        for broker in tuple(self.detached):
            broker.abort()

    def translate(self, host: str, port: int, our_host: str) -> Address | None:
        """Return the address that clients see in place of a broker's, or None to leave the address unchanged.

        The address is left unchanged if it is not a broker's, or if no port can be opened for it.

        Args:
            host: The broker's host.
            port: The broker's port.
            our_host: The host that the client has connected to.
        """
        if not host or not 0 < port <= LAST_PORT:
            return None
        broker = host, port
        our_port = self._ports.get(broker)
        if our_port is None:
            if port in self._ports.values() and host in {our_host, self._listen[0]}:
                return None  # The broker already advertises the proxy, so the address needs no replacement.
            our_port = self._listen_for(broker)
        return None if our_port is None else (our_host, our_port)

    def _listen_for(self, broker: Address) -> int | None:
        """Start listening for a broker. Return the port, or None if that fails."""
        if len(self._ports) >= MAX_BROKERS:
            self.sink.complain(
                f"there are over {MAX_BROKERS} brokers, so the address of {format_address(broker)} passes"
            )
            return None
        error: OSError | None = None
        for _ in range(_ATTEMPTS):
            if self._listen[1]:
                self._next_port += 1
            if self._next_port > LAST_PORT:
                break
            try:
                listening = self._bind(self._next_port)
            except OSError as failure:
                error = failure
                continue
            self._ports[broker] = listening.getsockname()[1]
            task = asyncio.get_running_loop().create_task(self._serve(listening, broker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return self._ports[broker]
        reason = "no port is left" if error is None else error.strerror
        self.sink.complain(f"no port for the broker at {format_address(broker)}, so its address passes: {reason}")
        return None

    def _bind(self, port: int) -> socket.socket:
        listening = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self._listen[0], port))
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
        return listening

    async def _serve(self, listening: socket.socket, broker: Address) -> None:
        server = await asyncio.get_running_loop().create_server(lambda: ClientSide(self, broker), sock=listening)
        self._servers.append(server)


class _Side(asyncio.Protocol):
    """One side of a connection. It is read only while `_holds`, the set of reasons not to, is empty."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self._holds: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def hold(self, reason: str) -> None:
        """Stop reading from this side until `release` removes the reason."""
        if not self._holds and self.transport is not None:
            self.transport.pause_reading()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Remove a reason to hold this side, and resume reading if no reason is left."""
        if reason in self._holds:
            self._holds.remove(reason)
            if not self._holds and self.transport is not None and not self.transport.is_closing():
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.hold("full")

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.release("full")

    def abort(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()

    def eof_received(self) -> bool:
        """Forward the end of the peer's data.

        If the transport supports half-closed connections, data for the peer is still forwarded afterwards.
        """
        other = None if self.other is None else self.other.transport
        if other is None or other.is_closing():
            return False
        if other.can_write_eof():
            other.write_eof()
        else:
            other.close()
        return self.transport is not None and self.transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        other = None if self.other is None else self.other.transport
        if other is not None:
            if exc is None:
                other.close()
            else:
                other.abort()


class ClientSide(_Side):
    """The client's side of a connection. `target` is the address of the broker."""

    def __init__(self, owner: Proxy, target: tuple[str, int]) -> None:
        super().__init__()
        self._owner = owner
        self._target = target
        self._connecting: asyncio.Task[None] | None = None
        self.ended_by = "broker"
        self.faulty: trace_faults.FaultyConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the broker before reading anything from the client."""
        super().connection_made(transport)
        self.hold("connecting")
        asyncio.get_running_loop().call_soon(self._pause_again)
        peer, own_address = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.conversation = Conversation(
            format_address(peer[:2]),
            format_address(self._target),
            self._owner.sink,
            lambda host, port: self._owner.translate(host, port, own_address[0]),
        )
        self._stream = RequestStream(self.conversation, MAX_KEPT_BYTES)
        if self._owner.faults is not None:
            self.faulty = trace_faults.FaultyConnection(self._owner.faults, self)
        self._owner.sides.add(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def _pause_again(self) -> None:
        """Pause reading again. In Python 3.11.2, a transport reads after `connection_made` even if it is paused."""
        if self._holds and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            self.transport.pause_reading()

    async def _connect(self) -> None:
        host, port = self._target
        context = self._owner.context
        try:
            async with asyncio.timeout(CONNECT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: _BrokerSide(self), host, port, ssl=context, server_hostname=host if context else None
                )
        except OSError as error:
            self._owner.sink.complain(unreachable(self._target, error))
            assert self.transport is not None
            self.transport.abort()
        else:
            self.release("connecting")

    def data_received(self, data: bytes) -> None:
        """Forward the client's bytes to the broker."""
        if self.faulty is not None:
            self.faulty.feed_requests(data)
        else:
            self._stream.feed(data)
            self.forward(data)
        if self.conversation.pending > MAX_PENDING:
            self.hold("pending")

    def forward(self, data: bytes) -> None:
        """Send bytes to the broker, unless the connection has ended."""
        assert self.transport is not None
        if self.other is not None and self.other.transport is not None and not self.transport.is_closing():
            self.other.transport.write(data)

    def write(self, data: bytes | bytearray) -> None:
        """Send bytes to the client."""
        assert self.transport is not None
        self.transport.write(data)

    def end(self) -> None:
        """Close the connection once all that was written has been sent."""
        assert self.transport is not None
        self.transport.close()

    @property
    def is_closing(self) -> bool:
        """Whether the connection has ended, or ends once all that was written has been sent."""
        assert self.transport is not None
        return self.transport.is_closing()

    def detach_broker(self, *, is_answered: bool) -> Callable[[bytes], None]:
        """Close the connection to the client only. Return a function that sends the broker a last request.

        Args:
            is_answered: Whether the broker answers the request.
        """
        broker = self.other
        assert isinstance(broker, _BrokerSide)
        self.other = None
        self.end()
        self._owner.detached.add(broker)
        return partial(broker.send_last, is_answered=is_answered)

    def eof_received(self) -> bool:
        """Record that the client has sent all its data, and forward the end of the data."""
        self.ended_by = "client"
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the conversation and the connection to the broker."""
        super().connection_lost(exc)
        if self._connecting is not None:
            self._connecting.cancel()
        self.conversation.close("the client closed the connection")
        self._owner.sides.discard(self)

    def discard(self, broker: _BrokerSide) -> None:
        """Forget a detached connection to a broker, which has ended."""
        self._owner.detached.discard(broker)

    def abort(self) -> None:
        """Abort the connections to the client and to the broker."""
        super().abort()
        if self.other is not None:
            self.other.abort()


class _BrokerSide(_Side):
    """The broker's side of a connection."""

    def __init__(self, client: ClientSide) -> None:
        super().__init__()
        self._client = client
        self.other = client
        self._stream = ResponseStream(client.conversation, MAX_KEPT_BYTES)
        self._is_last = False

    def send_last(self, data: bytes, *, is_answered: bool) -> None:
        """Send a request whose client is gone, and close the connection after its response, if it gets one."""
        assert self.transport is not None
        self._is_last = True
        if not self.transport.is_closing():
            self.transport.write(data)
            if not is_answered:
                self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.other = self

    def data_received(self, data: bytes) -> None:
        if self._client.other is None:
            if self._is_last and self.transport is not None:
                self.transport.close()
            return
        if self._client.faulty is not None:
            self._client.faulty.feed_responses(data)
        else:
            for part in self._stream.feed(data):
                self._client.write(part)
        if self._client.conversation.pending <= MAX_PENDING:
            self._client.release("pending")

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.discard(self)
        self._client.conversation.close(f"the {self._client.ended_by} closed the connection")
        super().connection_lost(exc)


def unreachable(target: tuple[str, int], error: OSError) -> str:
    """Return the message for a broker that cannot be reached."""
    reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return f"the broker at {format_address(target)} cannot be reached: {reason}"
