"""A listening socket whose clients have to speak TLS before they are connections.

asyncio's own server says neither why a handshake has failed nor that one is under way, so it is neither advised upon
nor ended with the broker. Here both is known, and a handshake has a bounded time.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from minibroker.commands.advice import about_tls_failure, advise
from minibroker.connection import Connection

_logger: Final = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 30.0
"""What a client has from the connection to the end of the handshake."""

_GOODBYE_SECONDS: Final = 1.0
"""How long the client's side of the end is waited for."""
_NO_ROOM: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_TRY_AGAIN_SECONDS: Final = 1.0


class TlsServer:
    """Takes connections at bound sockets, which it owns, as `asyncio.Server` does.

    Args:
        make: a new connection.
        told: what was advised before.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        make: Callable[[], Connection],
        context: ssl.SSLContext,
        told: set[str],
        backlog: int,
    ) -> None:
        self.sockets = sockets
        self._make = make
        self._context = context
        context.sslobject_class = _WatchedObject
        self._told = told
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        for each in sockets:
            each.setblocking(False)
            each.listen(backlog)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Take no more, and end the handshakes that are under way."""
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()
        self.sockets = []
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """The handshakes that were under way have come to their end."""
        while self._handshakes:
            await asyncio.wait(self._handshakes)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._backlog):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _logger.warning("Connections have to wait: %s", error.strerror)
                self._loop.remove_reader(listening)
                self._loop.call_later(_TRY_AGAIN_SECONDS, self._go_on, listening)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._shake_hands(accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            handshake = _Handshake(self._context, accepted.dup())
        except OSError as error:  # no descriptor is left
            accepted.close()
            _logger.warning("A connection could not be taken: %s", error.strerror)
            return
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                accepted,
                ssl=cast("ssl.SSLContext", handshake),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_GOODBYE_SECONDS,
            )
        except OSError as error:  # as those of TLS are
            reason = (error.reason if isinstance(error, ssl.SSLError) else None) or str(error) or type(error).__name__
            _logger.info("A client did not get through the TLS handshake: %s", reason)
            advice = about_tls_failure(reason)
            if advice is not None:
                advise(self._told, advice, advice)
        finally:
            handshake.close()


class _WatchedObject(ssl.SSLObject):
    """Tells when its handshake fails."""

    on_failure: Callable[[], None]

    def do_handshake(self) -> None:
        """Go on with it."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.on_failure()
            raise


class _Handshake:
    """What asyncio takes for the context of one connection.

    It knows what TLS has to say when the handshake fails, which asyncio keeps to itself: without that alert a client
    sees a connection that ends, and tries again.
    """

    def __init__(self, context: ssl.SSLContext, line: socket.socket) -> None:
        self._context = context
        self._line = line

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **others: Any) -> ssl.SSLObject:
        """Begin."""
        begun = self._context.wrap_bio(incoming, outgoing, **others)
        cast("_WatchedObject", begun).on_failure = partial(self._say_why, outgoing)
        return begun

    def _say_why(self, outgoing: ssl.MemoryBIO) -> None:
        """Send the alert; a client that does not take it at once does without."""
        if outgoing.pending:
            with contextlib.suppress(OSError):
                self._line.send(outgoing.read())

    def close(self) -> None:
        """It is over, one way or the other."""
        self._line.close()
