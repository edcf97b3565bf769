"""Ports of a container other than the broker's listeners: silent ports, and ports that forward to another container.

Health checks and Spring Boot's readiness check treat a port as ready if it accepts a connection and keeps it open. The
ports of a controller and of JMX therefore accept connections and send nothing.

If several containers form a cluster in a Compose file, one of them, the lead, runs the broker and the others, the
followers, forward connections to it. A follower connects to the lead's link, which listens on the port of a KRaft
controller, and sends a line with the name of a listener. The lead replies with a line. After that, the connection
carries arbitrary bytes between the client and that listener.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from minibroker.cli.kafka_lines import write_broker_lines, write_controller_lines
from minibroker.config.addresses import parse_address
from minibroker_container import health

MAX_CONNECTIONS: Final = 100
"""The maximum number of connections of a silent port. A new connection closes the oldest."""
_GREETING: Final = b"minibroker link "
_ACCEPTED: Final = b"ok\n"
_NO_LISTENER: Final = "-"
_CHUNK_BYTES: Final = 1 << 16
_PAUSE_S: Final = 0.2
_logger: Final = logging.getLogger("minibroker")
_Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Ports:
    """Ports and their connections."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: list[dict[asyncio.StreamWriter, None]] = []

    @property
    def ports(self) -> list[int]:
        """The numbers of the open ports."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def _listen(self, host: str, port: int, serve: _Serve, *, most: int | None = None) -> None:
        """Serve connections at an address, and close each connection after it is served.

        Raises:
            OSError: the address is not available.
        """
        connections: dict[asyncio.StreamWriter, None] = {}

        async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections[writer] = None
            if most is not None and len(connections) > most:
                next(iter(connections)).close()
            try:
                with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                    await serve(reader, writer)
            finally:
                connections.pop(writer, None)
                writer.close()

        self._servers.append(await asyncio.start_server(serve_connection, host, port, limit=_CHUNK_BYTES))
        self._connections.append(connections)

    def close(self) -> None:
        """Close the ports and their connections."""
        for server in self._servers:
            server.close()
        for connections in self._connections:
            for writer in connections:
                writer.transport.abort()


class SilentPorts(_Ports):
    """Ports that accept connections and send nothing, for addresses of the form HOST:PORT.

    Raises:
        ValueError: an address has another form.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()
        self._addresses = [(address, parse_address(address, "--silent-port")) for address in addresses]

    async def open(self) -> None:
        """Start listening. An address that cannot be opened is logged and skipped, because no Kafka client needs it."""
        for address, (host, port) in self._addresses:
            try:
                await self._listen(host, port, _discard_input, most=MAX_CONNECTIONS)
            except OSError as error:
                _logger.warning("--silent-port %s cannot be opened: %s", address, error.strerror or error)


class LinkPort(_Ports):
    """The lead's port for followers. A client that does not send a follower's greeting gets no answer.

    Args:
        address: HOST:PORT to listen on.
        listeners: the addresses of the broker by listener name.

    Raises:
        ValueError: the address has another form.
    """

    def __init__(self, address: str, listeners: Mapping[str, tuple[str, int]]) -> None:
        super().__init__()
        self._address = parse_address(address, "--link")
        self._listeners = listeners

    async def open(self) -> None:
        """Start listening.

        Raises:
            OSError: the address is not available.
        """
        await self._listen(*self._address, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\n")
        if not line.startswith(_GREETING):
            await _discard_input(reader, writer)
            return
        name = line.removeprefix(_GREETING).strip().decode("ascii")
        if name == _NO_LISTENER:
            writer.write(_ACCEPTED)
            await writer.drain()
        elif name in self._listeners:
            inner_reader, broker_writer = await asyncio.open_connection(*self._listeners[name], limit=_CHUNK_BYTES)
            with contextlib.closing(broker_writer):
                writer.write(_ACCEPTED)
                await _relay(reader, writer, inner_reader, broker_writer)
        else:
            _logger.warning("a container asks for the listener %s, which this broker does not have", name)


class Follower(_Ports):
    """A container that forwards the connections of its listeners to the lead.

    Args:
        lead: host and port of the lead's link.
        listeners: name, host and port of each listener.
    """

    def __init__(self, lead: tuple[str, int], listeners: Sequence[tuple[str, str, int]]) -> None:
        super().__init__()
        self._lead = lead
        self._listeners = listeners

    async def open(self) -> None:
        """Start listening on all ports.

        Raises:
            OSError: an address is not available.
        """
        for name, host, port in self._listeners:
            await self._listen(host, port, partial(self._serve, name))

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lead_reader, lead = await asyncio.open_connection(*self._lead, limit=_CHUNK_BYTES)
        with contextlib.closing(lead):
            lead.write(_GREETING + name.encode("ascii") + b"\n")
            if await lead_reader.readexactly(len(_ACCEPTED)) == _ACCEPTED:
                await _relay(reader, writer, lead_reader, lead)


@contextlib.asynccontextmanager
async def open_ports(*ports: SilentPorts | LinkPort | Follower) -> AsyncGenerator[None]:
    """Open ports, and close them when the block ends.

    Raises:
        OSError: an address is not available.
    """
    try:
        for group in ports:
            await group.open()
        yield
    finally:
        for group in ports:
            group.close()


def answers(lead: tuple[str, int], timeout_s: float) -> bool:
    """Return whether a lead answers at its link. Retry for up to `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(lead, timeout=timeout_s) as connection:
            connection.settimeout(max(deadline - time.monotonic(), _PAUSE_S))
            connection.sendall(_GREETING + _NO_LISTENER.encode("ascii") + b"\n")
            if connection.recv(len(_ACCEPTED)) == _ACCEPTED:
                return True
        if time.monotonic() + _PAUSE_S > deadline:
            return False
        time.sleep(_PAUSE_S)


def hold_ports(node: str, addresses: Sequence[str]) -> None:
    """Keep silent ports open in place of a KRaft controller, until SIGTERM or SIGINT.

    Raises:
        ValueError: the node or an address is invalid.
    """
    if not node.strip().isdigit():
        raise ValueError(f"KAFKA_NODE_ID: {node!r} is not a node id; give a number from 0 on")
    silent = SilentPorts(addresses)

    def announce() -> None:
        sys.stderr.write(
            f"minibroker container: controller {int(node)} has nothing to do here, since minibroker's brokers need "
            f"none; these ports accept connections: {', '.join(map(str, silent.ports)) or 'none'}\n"
        )
        health.report_ports([("", address) for address in addresses])
        write_controller_lines(int(node))

    asyncio.run(_run_until_stopped(announce, silent))


def format_listener(address: str, name: str = "", protocol: str = "") -> str:
    """Format a listener as an argument of `forward_connections`: PROTOCOL:NAME=HOST:PORT. A silent port has no name."""
    return f"{protocol}:{name}={address}"


def forward_connections(node: str, lead: str, listeners: Sequence[str]) -> None:
    """Forward connections until SIGTERM or SIGINT.

    Raises:
        OSError: a port is not available.
    """
    entries: list[tuple[str, str, int]] = []
    silent: list[str] = []
    opened: list[tuple[str, str]] = []
    for text in listeners:
        named, _, address = text.partition("=")
        protocol, _, name = named.partition(":")
        opened.append((protocol, address))
        if name:
            entries.append((name, *parse_address(address, "KAFKA_LISTENERS")))
        else:
            silent.append(address)

    def announce() -> None:
        sys.stderr.write(
            f"minibroker container: broker {int(node)} passes its connections on to {lead}: the containers of this "
            "cluster share one broker, which is the first of KAFKA_CONTROLLER_QUORUM_VOTERS\n"
        )
        health.report_ports(opened)
        write_broker_lines(int(node), [(name, f"{host}:{port}") for name, host, port in entries])

    follower = Follower(parse_address(lead, "KAFKA_CONTROLLER_QUORUM_VOTERS"), entries)
    asyncio.run(_run_until_stopped(announce, follower, SilentPorts(silent)))


async def _run_until_stopped(announce: Callable[[], None], *ports: SilentPorts | Follower) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with open_ports(*ports):
        announce()
        await stop.wait()


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other: asyncio.StreamWriter,
) -> None:
    """Forward bytes in both directions until either side ends."""
    pumps = [asyncio.ensure_future(_copy_stream(*streams)) for streams in ((reader, other), (other_reader, writer))]
    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def _discard_input(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(_CHUNK_BYTES):
        pass
