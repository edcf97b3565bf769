"""Ports of a container beside those of a broker: silent ones, and those that pass connections on to another container.

Health checks and Spring Boot's readiness check take a port for ready if it accepts a connection and keeps it open. So
the ports of what Kafka has beside its broker, a controller and JMX, accept connections and say nothing.

Of containers that are one cluster in a Compose file one has the broker, and the others pass connections on to it. A
follower connects to the link of the lead, which has the port of a KRaft controller, and names a listener in one line.
The lead answers with one line; from then on the bytes are those of the client and of that listener, whatever they are.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from minibroker.cli.kafka_lines import write_broker_lines, write_controller_lines
from minibroker.config.addresses import parse_address

MOST_CONNECTIONS: Final = 100
"""Connections that one silent port keeps; the oldest goes when another one comes."""
_GREETING: Final = b"minibroker link "
_ACCEPTED: Final = b"ok\n"
_NO_LISTENER: Final = "-"
_CHUNK: Final = 1 << 16
_PAUSE_S: Final = 0.2
_logger: Final = logging.getLogger("minibroker")
_Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Ports(ABC):
    """Ports and their connections."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: list[dict[asyncio.StreamWriter, None]] = []

    @property
    def ports(self) -> list[int]:
        """The ports that are open."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    @abstractmethod
    async def open(self) -> None:
        """Listen."""

    async def _listen(self, host: str, port: int, serve: _Serve, *, most: int | None = None) -> None:
        """Serve connections at an address, and close them in the end. OSError."""
        connections: dict[asyncio.StreamWriter, None] = {}

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections[writer] = None
            if most is not None and len(connections) > most:
                next(iter(connections)).close()
            try:
                with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                    await serve(reader, writer)
            finally:
                connections.pop(writer, None)
                writer.close()

        self._servers.append(await asyncio.start_server(served, host, port, limit=_CHUNK))
        self._connections.append(connections)

    def close(self) -> None:
        """Close the ports and their connections."""
        for server in self._servers:
            server.close()
        for connections in self._connections:
            for writer in connections:
                writer.transport.abort()


class SilentPorts(_Ports):
    """Ports for a list of addresses, each HOST:PORT. The constructor raises ValueError for another form."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()
        self._addresses = [(address, parse_address(address, "--silent-port")) for address in addresses]

    async def open(self) -> None:
        """Listen. An address that cannot be opened is logged and left out, since no client of Kafka needs it."""
        for address, (host, port) in self._addresses:
            try:
                await self._listen(host, port, _drain, most=MOST_CONNECTIONS)
            except OSError as error:
                _logger.warning("--silent-port %s cannot be opened: %s", address, error.strerror or error)


class LinkPort(_Ports):
    """The lead's side. For a client that does not greet, it is a port that stays silent.

    Args:
        address: HOST:PORT to listen on. ValueError for another form.
        listeners: where the broker listens, by the names of its listeners.
    """

    def __init__(self, address: str, listeners: Mapping[str, tuple[str, int]]) -> None:
        super().__init__()
        self._address = parse_address(address, "--link")
        self._listeners = listeners

    async def open(self) -> None:
        """Listen. OSError."""
        await self._listen(*self._address, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\n")
        if not line.startswith(_GREETING):
            await _drain(reader, writer)
            return
        name = line.removeprefix(_GREETING).strip().decode("ascii")
        if name == _NO_LISTENER:
            writer.write(_ACCEPTED)
            await writer.drain()
        elif name in self._listeners:
            inner_reader, inner = await asyncio.open_connection(*self._listeners[name], limit=_CHUNK)
            with contextlib.closing(inner):
                writer.write(_ACCEPTED)
                await _join(reader, writer, inner_reader, inner)
        else:
            _logger.warning("a container asks for the listener %s, which this broker does not have", name)


class Follower(_Ports):
    """A container whose listeners pass their connections on.

    Args:
        lead: (host, port) of the lead's link.
        listeners: (name, host, port) of each listener.
    """

    def __init__(self, lead: tuple[str, int], listeners: Sequence[tuple[str, str, int]]) -> None:
        super().__init__()
        self._lead = lead
        self._listeners = listeners

    async def open(self) -> None:
        """Listen on all ports. OSError."""
        for name, host, port in self._listeners:
            await self._listen(host, port, partial(self._serve, name))

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lead_reader, lead = await asyncio.open_connection(*self._lead, limit=_CHUNK)
        with contextlib.closing(lead):
            lead.write(_GREETING + name.encode("ascii") + b"\n")
            if await lead_reader.readexactly(len(_ACCEPTED)) == _ACCEPTED:
                await _join(reader, writer, lead_reader, lead)


@contextlib.asynccontextmanager
async def kept_open(*ports: _Ports) -> AsyncGenerator[None]:
    """Open ports, and close them in the end. OSError."""
    try:
        for each in ports:
            await each.open()
        yield
    finally:
        for each in ports:
            each.close()


def answers(lead: tuple[str, int], patience_s: float) -> bool:
    """Whether a lead answers at its link; others are asked again until the time is over."""
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(lead, timeout=patience_s) as connection:
            connection.settimeout(max(deadline - time.monotonic(), _PAUSE_S))
            connection.sendall(_GREETING + _NO_LISTENER.encode("ascii") + b"\n")
            if connection.recv(len(_ACCEPTED)) == _ACCEPTED:
                return True
        if time.monotonic() + _PAUSE_S > deadline:
            return False
        time.sleep(_PAUSE_S)


def hold(node: str, addresses: Sequence[str]) -> int:
    """Be a KRaft controller and no broker until SIGTERM or SIGINT: silent ports. ValueError for an address or node."""
    if not node.strip().isdigit():
        raise ValueError(f"KAFKA_NODE_ID: {node!r} is not a node id; give a number from 0 on")
    silent = SilentPorts(addresses)

    def tell() -> None:
        sys.stderr.write(
            f"minibroker container: controller {int(node)} has nothing to do here, since minibroker's brokers need "
            f"none; these ports accept connections: {', '.join(map(str, silent.ports)) or 'none'}\n"
        )
        write_controller_lines(int(node))

    return asyncio.run(_keep(tell, silent))


def written(address: str, name: str = "", protocol: str = "") -> str:
    """A listener as an argument of `follow`, PROTOCOL:NAME=HOST:PORT; a port that stays silent has no name."""
    return f"{protocol}:{name}={address}"


def follow(node: str, lead: str, listeners: Sequence[str]) -> int:
    """Pass connections on until SIGTERM or SIGINT; returns the exit status. OSError for a port that is taken."""
    entries: list[tuple[str, str, int]] = []
    silent: list[str] = []
    for text in listeners:
        named, _, address = text.partition("=")
        name = named.partition(":")[2]
        if name:
            entries.append((name, *parse_address(address, "KAFKA_LISTENERS")))
        else:
            silent.append(address)

    def tell() -> None:
        sys.stderr.write(
            f"minibroker container: broker {int(node)} passes its connections on to {lead}: the containers of this "
            "cluster share one broker, which is the first of KAFKA_CONTROLLER_QUORUM_VOTERS\n"
        )
        write_broker_lines(int(node), [(name, f"{host}:{port}") for name, host, port in entries])

    follower = Follower(parse_address(lead, "KAFKA_CONTROLLER_QUORUM_VOTERS"), entries)
    return asyncio.run(_keep(tell, follower, SilentPorts(silent)))


async def _keep(tell: Callable[[], None], *ports: _Ports) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with kept_open(*ports):
        tell()
        await stop.wait()
    return 0


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other: asyncio.StreamWriter,
) -> None:
    """Pass bytes on in both directions until either side ends."""
    pumps = [asyncio.ensure_future(_pump(reader, other)), asyncio.ensure_future(_pump(other_reader, writer))]
    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _drain(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(_CHUNK):
        pass
