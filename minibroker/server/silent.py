"""Ports that accept connections and say nothing, in the place of what Kafka has beside its broker.

Health checks and Spring Boot's readiness check take a port for ready if it accepts a connection and keeps it open.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from minibroker.config.addresses import parse_address

MOST_CONNECTIONS: Final = 100
"""Connections that one port keeps; the oldest goes when another one comes."""

_logger: Final = logging.getLogger("minibroker")


class SilentPorts:
    """Servers for a list of addresses, each HOST:PORT. The constructor raises ValueError for another form."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = [(address, parse_address(address, "--silent-port")) for address in addresses]
        self._servers: list[asyncio.Server] = []
        self._connections: list[deque[asyncio.BaseTransport]] = []

    @property
    def ports(self) -> list[int]:
        """The ports that are open."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def open(self) -> None:
        """Listen. An address that cannot be opened is logged and left out, since no client of Kafka needs it."""
        loop = asyncio.get_running_loop()
        for address, (host, port) in self._addresses:
            connections: deque[asyncio.BaseTransport] = deque()
            try:
                server = await loop.create_server(lambda kept=connections: _Silence(kept), host, port)  # type: ignore[misc] # mypy cannot infer a lambda's default
            except OSError as error:
                _logger.warning("--silent-port %s cannot be opened: %s", address, error.strerror or error)
                continue
            self._servers.append(server)
            self._connections.append(connections)

    def close(self) -> None:
        """Close the ports and their connections."""
        for server in self._servers:
            server.close()
        for connections in self._connections:
            for transport in list(connections):
                if isinstance(transport, asyncio.Transport):
                    transport.abort()


class _Silence(asyncio.Protocol):
    """One connection: what arrives is dropped."""

    def __init__(self, connections: deque[asyncio.BaseTransport]) -> None:
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.append(transport)
        if len(self._connections) > MOST_CONNECTIONS:
            self._connections.popleft().close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        if self._transport is not None and self._transport in self._connections:
            self._connections.remove(self._transport)
