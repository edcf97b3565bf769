"""The listening side of one node: its sockets, the connections that they have taken, and how both come and go."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Final

from minibroker.connection import Connection, ConnectionSet

_logger = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_ACCEPTING_ROUNDS: Final = 3
"""Of the event loop: one for the task that asyncio makes of an accepted socket, one for its callback, one to spare."""


class NodeListener:
    """The sockets that a node listens on.

    A node that is taken down keeps its ports: they are bound, but nobody listens there, so that clients are refused
    and no other program is given them.

    Attributes:
        connections: the open ones.
    """

    def __init__(self, make: Callable[[ConnectionSet], Connection]) -> None:
        self.connections = ConnectionSet()
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._held: list[socket.socket] = []
        self._changes: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the node listens on, or would."""
        sockets = [each for server in self._servers for each in server.sockets] or self._held
        host, port = sockets[0].getsockname()[:2]
        return host, port

    @property
    def newest_port(self) -> int:
        """Of the address that was last given to `listen`."""
        port: int = self._servers[-1].sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        """Listen for the first time, or at one more address; port 0 picks a free one. OSError when it cannot be had."""
        try:
            self._servers.append(await self._loop.create_server(self._connection, host, port, backlog=_BACKLOG))
        except OSError as error:
            # asyncio's own words hold the address as a tuple; a name that is not found has an errno of its own kind.
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error

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
        addresses = [(each.family, each.getsockname()) for server in self._servers for each in server.sockets]
        await self._accept_no_more()
        self._abort()  # what had been accepted before and has come through since
        for family, address in addresses:
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
                self._held.append(held)

    async def _open(self) -> None:
        held, self._held = self._held, []
        for each in held:
            self._servers.append(await self._loop.create_server(self._connection, sock=each, backlog=_BACKLOG))

    async def _accept_no_more(self) -> None:
        """Close the sockets once the connections that they have accepted have come through.

        asyncio takes two rounds of the loop for that. If a socket is closed in between it loses the connection
        (an assertion in `Server._attach`), whose socket stays open until it is collected.
        """
        self._stop_accepting()
        for _ in range(_ACCEPTING_ROUNDS):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _stop_accepting(self) -> None:
        for server in self._servers:
            for each in server.sockets:
                self._loop.remove_reader(each)

    def _connection(self) -> Connection:
        return self._make(self.connections)

    def _abort(self) -> None:
        for connection in tuple(self.connections):
            connection.abort()

    def _release(self) -> None:
        for each in self._held:
            with contextlib.suppress(OSError):
                each.close()
        self._held.clear()
