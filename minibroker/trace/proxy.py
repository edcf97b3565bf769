"""The proxy: a listening port for each broker, bound when a response first names the broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Final

from minibroker.config.addresses import LAST_PORT, written
from minibroker.trace.relay import CONNECT_S, ClientSide, unreachable

if TYPE_CHECKING:
    import ssl

    from minibroker.trace.conversation import Sink

MOST_BROKERS: Final = 1000
_BACKLOG: Final = 1024
_ATTEMPTS: Final = 100
"""Ports that are tried for one broker."""

Address = tuple[str, int]


class Proxy:
    """A proxy before one cluster.

    Args:
        to: a broker of the cluster.
        listen: for that broker; others get the ports behind it, or any port if it is 0.
        context: TLS towards the brokers; None for none.
        sink: learns of all exchanges.
    """

    def __init__(self, to: Address, listen: Address, context: ssl.SSLContext | None, sink: Sink) -> None:
        self.context = context
        self.sink = sink
        self._to = to
        self._listen = listen
        self._next_port = listen[1]
        self._ports: dict[Address, int] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._sides: set[ClientSide] = set()
        self._family = socket.AF_INET

    @property
    def address(self) -> Address:
        """The address that clients bootstrap from."""
        return self._listen[0], self._ports[self._to]

    async def start(self) -> None:
        """Listen, once the broker answers. ValueError for a broker that cannot be reached, OSError for a taken port."""
        await self._probe()
        loop = asyncio.get_running_loop()
        host, port = self._listen
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror as error:
            raise ValueError(f"--listen: {host} is not an address of this machine: {error.strerror}") from None
        self._family = found[0][0]
        self._listen = str(found[0][4][0]), port
        try:
            listening = self._bound(port)
        except OSError as error:
            raise ValueError(f"--listen: {written(self._listen)} cannot be bound: {error.strerror}") from None
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
        """End all connections and listen no longer."""
        for server in self._servers:
            server.close()
        for side in tuple(self._sides):
            side.abort()
            side.conversation.close("the proxy ended")

    def opened(self, side: ClientSide) -> None:
        """A client has connected."""
        self._sides.add(side)

    def closed(self, side: ClientSide) -> None:
        """The connection of a client is over."""
        self._sides.discard(side)

    def translate(self, host: str, port: int, our_host: str) -> Address | None:
        """The address for clients of a broker at HOST:PORT, which have connected to `our_host`; None for no broker."""
        if not host or not 0 < port <= LAST_PORT:
            return None
        broker = host, port
        ours = self._ports.get(broker)
        if ours is None:
            if port in self._ports.values() and host in {our_host, self._listen[0]}:
                return None  # the broker advertises the proxy
            ours = self._open(broker)
        return None if ours is None else (our_host, ours)

    def _open(self, broker: Address) -> int | None:
        """Listen for a broker; returns the port, None if that fails."""
        if len(self._ports) >= MOST_BROKERS:
            self.sink.complain(f"there are over {MOST_BROKERS} brokers, so the address of {written(broker)} passes")
            return None
        error: OSError | None = None
        for _ in range(_ATTEMPTS):
            if self._listen[1]:
                self._next_port += 1
            if self._next_port > LAST_PORT:
                break
            try:
                listening = self._bound(self._next_port)
            except OSError as failure:
                error = failure
                continue
            self._ports[broker] = listening.getsockname()[1]
            task = asyncio.get_running_loop().create_task(self._serve(listening, broker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return self._ports[broker]
        reason = "no port is left" if error is None else error.strerror
        self.sink.complain(f"no port for the broker at {written(broker)}, so its address passes: {reason}")
        return None

    def _bound(self, port: int) -> socket.socket:
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
