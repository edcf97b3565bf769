"""The listeners of one node: sockets and connections, opened and closed together."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from minibroker.clock import Clock
from minibroker.cluster.advice import AdviceLog
from minibroker.server.acceptor import Acceptor
from minibroker.server.connection import Connection, ConnectionSet
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.server import tls_server

_logger = logging.getLogger(__name__)
_BACKLOG: Final = 1024


def cannot_listen(host: str, port: int, error: OSError) -> OSError:
    """Return an error that explains in minibroker's own words why an address cannot be bound."""
    # The text of asyncio's errors contains the address as a tuple, so the text of the errno is used. For an unknown
    # host, the errno is negative.
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    hint = ""
    if error.errno == errno.EADDRINUSE:
        hint = f". Port 0 picks a free one: --listen {host}:0, in Python Broker(listen='{host}:0')"
    return OSError(error.errno, f"cannot listen on {host}:{port}: {reason}{hint}")


def check_free(host: str, port: int) -> None:
    """Check that an address is free. This is done before the data directory is changed. `listen` can still fail later.

    Raises:
        OSError: The address is in use or not permitted.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise cannot_listen(host, port, error) from None
    try:
        for family, kind, protocol, _, address in addresses:
            _bound_socket(family, kind, protocol, address).close()
    except OSError as error:
        # asyncio skips an address that fails with another error, such as an unsupported family.
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            raise cannot_listen(host, port, error) from None


class Kind(NamedTuple):
    """The name of a listener, and the function that returns its TLS context, or None without TLS."""

    name: str
    tls: Callable[[], ssl.SSLContext] | None = None


class NodeListener:
    """The listeners of a node.

    A stopped node keeps its ports: they stay bound without listening, so clients are refused and no other program
    gets the ports.

    Args:
        make: Creates a connection, given the set of connections, the listener's name and a permit.
        quotas: The connection quotas of the node.
        clock: The clock that times delays.
        advised: The advice already given (`Core.advice`).

    Attributes:
        connections: The open connections.
    """

    def __init__(
        self,
        make: Callable[[ConnectionSet, str, ConnectionPermit], Connection],
        quotas: ConnectionQuotas,
        clock: Clock,
        advised: AdviceLog,
    ) -> None:
        self.connections = ConnectionSet()
        self.quotas = quotas
        self._clock = clock
        self._make = make
        self._advised = advised
        self._loop = asyncio.get_running_loop()
        self._acceptors: list[tuple[Kind, Acceptor]] = []
        self._held: list[tuple[Kind, socket.socket]] = []
        self._changes: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The (host, port) of the node's first listener, even while the node is stopped."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """The (host, port) of each listener by name. With several sockets, that of the first one."""
        addresses: dict[str, tuple[str, int]] = {}
        listening = [(kind, bound) for kind, acceptor in self._acceptors for bound in acceptor.sockets]
        for kind, bound in listening or self._held:
            host, port = bound.getsockname()[:2]
            addresses.setdefault(kind.name, (host, port))
        return addresses

    def descriptors(self) -> list[int]:
        """Return the descriptors of all open sockets, both listening and connected ones."""
        listening = [source.fileno() for _, acceptor in self._acceptors for source in acceptor.sockets]
        connected = [source.fileno() for source in tuple(self.connections)]
        return [source for source in listening + connected if source >= 0]

    async def listen(self, kind: Kind, host: str, port: int) -> int:
        """Listen at one more address, and return the port. Port 0 picks a free one.

        Raises:
            OSError: The address cannot be bound.
        """
        try:
            acceptor = await self._create_acceptor(kind, host, port)
        except OSError as error:
            raise cannot_listen(host, port, error) from None
        self._acceptors.append((kind, acceptor))
        bound_port: int = acceptor.sockets[0].getsockname()[1]
        return bound_port

    async def _create_acceptor(
        self, kind: Kind, host: str = "", port: int = 0, bound_before: socket.socket | None = None
    ) -> Acceptor:
        bound = [bound_before] if bound_before is not None else await self._bind(host, port)
        make = partial(self._make, self.connections, kind.name)
        others = bound, kind.name, make, self.quotas, self._clock, _BACKLOG
        if kind.tls is None:
            return Acceptor(*others)
        return tls_server.TlsAcceptor(kind.tls, self._advised, *others)

    async def _bind(self, host: str, port: int) -> list[socket.socket]:
        """Return sockets bound to all addresses of a host.

        Raises:
            OSError: An address cannot be bound.
        """
        # asyncio resolves the host and binds the sockets. An `Acceptor` accepts the connections.
        server = await self._loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        bound: list[socket.socket] = []
        try:
            for opened in server.sockets:
                bound.append(socket.socket(fileno=os.dup(opened.fileno())))  # noqa: PERF401 - those before an error are closed
        except OSError:
            for opened in bound:
                opened.close()
            raise
        finally:
            server.close()
        return bound

    async def end(self) -> None:
        """Close all sockets and connections, also those that were accepted but are not set up yet."""
        await self.wait_until_settled()
        await self._accept_no_more()
        for _, bound in self._held:
            with contextlib.suppress(OSError):
                bound.close()
        self._held.clear()
        await self.connections.wait_aborted()
        self.quotas.stop()

    def reconfigure(self) -> None:
        """Apply a changed configuration."""
        self.quotas.reconfigure()

    def close(self) -> None:
        """Stop accepting connections, and abort the open ones. `wait_until_settled` waits until this is complete."""
        for _, acceptor in self._acceptors:
            acceptor.stop()
        self.connections.abort()
        self._schedule(self._close)

    def open(self) -> None:
        """Listen at the same addresses again. `wait_until_settled` waits until this is complete."""
        self._schedule(self._open)

    async def wait_until_settled(self) -> None:
        """Wait until all earlier calls of `close` and `open` are complete."""
        while self._changes is not None and not self._changes.done():
            await asyncio.wait([self._changes])

    def _schedule(self, change: Callable[[], Coroutine[object, object, None]]) -> None:
        """Schedule a change after the earlier ones."""
        before = self._changes

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await change()

        self._changes = self._loop.create_task(run())

    async def _close(self) -> None:
        addresses = [
            (kind, listening.family, listening.getsockname())
            for kind, acceptor in self._acceptors
            for listening in acceptor.sockets
        ]
        await self._accept_no_more()
        self.connections.abort()  # Abort connections that were accepted earlier but finished opening only now.
        for kind, family, address in addresses:
            try:
                bound = _bound_socket(family, socket.SOCK_STREAM, 0, address)
            except OSError as error:
                _logger.error("%s:%d cannot be kept: %s", *address[:2], error)  # noqa: TRY400 - no traceback
            else:
                self._held.append((kind, bound))

    async def _open(self) -> None:
        bound_sockets, self._held = self._held, []
        for kind, bound in bound_sockets:
            self._acceptors.append((kind, await self._create_acceptor(kind, bound_before=bound)))

    async def _accept_no_more(self) -> None:
        """Close the listening sockets, and wait until the connections accepted so far are set up."""
        for _, acceptor in self._acceptors:
            acceptor.close()
        for _, acceptor in self._acceptors:
            await acceptor.wait_closed()
        self._acceptors.clear()


def _bound_socket(family: int, kind: int, protocol: int, address: tuple[Any, ...]) -> socket.socket:
    """Return a socket bound to an address, even if the address was in use until just now.

    Raises:
        OSError: The address cannot be bound.
    """
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
