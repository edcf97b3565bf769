"""Containers that are one cluster in a Compose file: one has the broker, the others pass connections on to it.

A follower connects to the link of the lead, which has the port of a KRaft controller, and names a listener in one line.
The lead answers with one line; from then on the bytes are those of the client and of that listener, whatever they are.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from minibroker.config.addresses import parse_address

_GREETING: Final = b"minibroker link "
_ACCEPTED: Final = b"ok\n"
_NO_LISTENER: Final = "-"
_CHUNK: Final = 1 << 16
_PAUSE_S: Final = 0.2
_logger: Final = logging.getLogger("minibroker")


class LinkPort:
    """The lead's side. For a client that does not greet, it is a port that stays silent.

    Args:
        address: HOST:PORT to listen on. ValueError for another form.
        listeners: where the broker listens, by the names of its listeners.
    """

    def __init__(self, address: str, listeners: Mapping[str, tuple[str, int]]) -> None:
        self._host, self._port = parse_address(address, "--link")
        self._listeners = listeners
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The port that is open."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def open(self) -> None:
        """Listen. OSError."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_CHUNK)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _served(self._writers, writer), contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
            line = await reader.readuntil(b"\n")
            if not line.startswith(_GREETING):
                await _drain(reader)
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

    def close(self) -> None:
        """Close the port and its connections."""
        _close(self._server, self._writers)


class Follower:
    """A container whose listeners pass their connections on.

    Args:
        lead: (host, port) of the lead's link.
        listeners: (name, host, port) of each listener.
    """

    def __init__(self, lead: tuple[str, int], listeners: Sequence[tuple[str, str, int]]) -> None:
        self._lead = lead
        self._listeners = listeners
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def ports(self) -> list[int]:
        """The ports that are open."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def open(self) -> None:
        """Listen on all ports. OSError."""
        for name, host, port in self._listeners:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: str = name) -> None:
                await self._serve(asked, reader, writer)

            self._servers.append(await asyncio.start_server(serve, host, port, limit=_CHUNK))

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _served(self._writers, writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            lead_reader, lead = await asyncio.open_connection(*self._lead, limit=_CHUNK)
            with contextlib.closing(lead):
                lead.write(_GREETING + name.encode("ascii") + b"\n")
                if await lead_reader.readexactly(len(_ACCEPTED)) == _ACCEPTED:
                    await _join(reader, writer, lead_reader, lead)

    def close(self) -> None:
        """Close the ports and their connections."""
        for server in self._servers:
            _close(server, self._writers)


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


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other: asyncio.StreamWriter,
) -> None:
    """Pass bytes on in both directions until either side ends."""
    pumps = [asyncio.ensure_future(_pump(reader, other)), asyncio.ensure_future(_pump(other_reader, writer))]
    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    for each in pumps:
        each.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(_CHUNK):
        pass


@contextlib.contextmanager
def _served(writers: set[asyncio.StreamWriter], writer: asyncio.StreamWriter) -> Generator[None]:
    """Keep a connection among those that are open, and close it in the end."""
    writers.add(writer)
    try:
        yield
    finally:
        writers.discard(writer)
        writer.close()


def _close(server: asyncio.Server | None, writers: set[asyncio.StreamWriter]) -> None:
    if server is not None:
        server.close()
    for writer in writers:
        writer.transport.abort()
