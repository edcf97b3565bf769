"""The listening side of one node: its sockets, the connections that they have taken, and how both come and go."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from minibroker.connection import Connection, ConnectionSet

if TYPE_CHECKING:
    # Most brokers speak no TLS.
    from minibroker.network.tls_server import TlsServer

_logger = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_ACCEPTING_ROUNDS: Final = 3
"""Of the event loop: one for the task that asyncio makes of an accepted socket, one for its callback, one to spare."""


class Kind(NamedTuple):
    """What a listener makes of whoever comes: its name, and its TLS if it has any."""

    name: str
    context: ssl.SSLContext | None = None


class _Opened(NamedTuple):
    kind: Kind
    server: "asyncio.Server | TlsServer"

    @property
    def sockets(self) -> "Sequence[socket.socket]":
        return cast("Sequence[socket.socket]", self.server.sockets)  # asyncio's look like sockets


class NodeListener:
    """The sockets that a node listens on.

    A node that is taken down keeps its ports: they are bound, but nobody listens there, so that clients are refused
    and no other program is given them.

    Args:
        make: a connection in a set, by the listener of that name.
        told: what was advised before (`BrokerState.advised`).

    Attributes:
        connections: the open ones.
    """

    def __init__(self, make: Callable[[ConnectionSet, str], Connection], told: set[str]) -> None:
        self.connections = ConnectionSet()
        self._make = make
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._servers: list[_Opened] = []
        self._held: list[tuple[Kind, socket.socket]] = []
        self._changes: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the node listens on, or would, by its first listener."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """(host, port) of each listener by its name; of several sockets of one the first."""
        found: dict[str, tuple[str, int]] = {}
        open_ones = [(opened.kind, each) for opened in self._servers for each in opened.sockets]
        for kind, each in open_ones or self._held:
            host, port = each.getsockname()[:2]
            found.setdefault(kind.name, (host, port))
        return found

    async def listen(self, kind: Kind, host: str, port: int) -> int:
        """Listen at one more address; port 0 picks a free one. Returns the port. OSError when it cannot be had."""
        try:
            opened = await self._serve(kind, host, port)
        except OSError as error:
            # asyncio's own words hold the address as a tuple; a name that is not found has an errno of its own kind.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error
        self._servers.append(opened)
        number: int = opened.sockets[0].getsockname()[1]
        return number

    async def _serve(self, kind: Kind, host: str = "", port: int = 0, held: socket.socket | None = None) -> _Opened:
        make = partial(self._make, self.connections, kind.name)
        serve = partial(self._loop.create_server, make, backlog=_BACKLOG, start_serving=kind.context is None)
        server = await (serve(host, port) if held is None else serve(sock=held))
        if kind.context is None:
            return _Opened(kind, server)
        from minibroker.network.tls_server import TlsServer  # noqa: PLC0415 - most brokers speak no TLS

        # asyncio has found the addresses and bound the sockets; what comes there is taken otherwise.
        bound = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
        server.close()
        return _Opened(kind, TlsServer(bound, make, kind.context, self._told, _BACKLOG))

    async def end(self) -> None:
        """Close everything; what has been accepted has come through and gone when this returns."""
        await self.settled()
        await self._accept_no_more()
        self._release()
        await self.connections.abort()

    # A node that is taken down, and up again

    def close(self) -> None:
        """Take no more connections and abort those that there are; see `settled` for when that is through."""
        self._stop_accepting()
        self._abort()
        self._after(self._close)

    def open(self) -> None:
        """Listen where it was; see `settled` for when that is through."""
        self._after(self._open)

    async def settled(self) -> None:
        """What was begun with `close` or `open` is through."""
        while self._changes is not None and not self._changes.done():
            await asyncio.wait([self._changes])

    def _after(self, change: Callable[[], Coroutine[object, object, None]]) -> None:
        """Have a change made once those before it are through, in their order."""
        before = self._changes

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await change()

        self._changes = self._loop.create_task(run())

    async def _close(self) -> None:
        addresses = [
            (opened.kind, each.family, each.getsockname()) for opened in self._servers for each in opened.sockets
        ]
        await self._accept_no_more()
        self._abort()  # what had been accepted before and has come through since
        for kind, family, address in addresses:
            held = socket.socket(family, socket.SOCK_STREAM)
            try:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                held.bind(address)
            except OSError as error:
                held.close()
                _logger.error("%s:%d cannot be kept: %s", *address[:2], error)  # noqa: TRY400 - it says all
            else:
                self._held.append((kind, held))

    async def _open(self) -> None:
        held, self._held = self._held, []
        for kind, each in held:
            self._servers.append(await self._serve(kind, held=each))

    async def _accept_no_more(self) -> None:
        """Close the sockets once the connections that they have accepted have come through.

        asyncio takes two rounds of the loop for that. If a socket is closed in between it loses the connection
        (an assertion in `Server._attach`), whose socket stays open until it is collected.
        """
        self._stop_accepting()
        for _ in range(_ACCEPTING_ROUNDS):
            await asyncio.sleep(0)
        for opened in self._servers:
            opened.server.close()
            if opened.kind.context is not None:
                await opened.server.wait_closed()
        self._servers.clear()

    def _stop_accepting(self) -> None:
        for opened in self._servers:
            for each in opened.sockets:
                self._loop.remove_reader(each)

    def _abort(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()

    def _release(self) -> None:
        for _, each in self._held:
            with contextlib.suppress(OSError):
                each.close()
        self._held.clear()
