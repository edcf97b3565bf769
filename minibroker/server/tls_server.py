"""TLS listeners: a connection begins after its TLS handshake.

asyncio's own server says neither why a handshake has failed nor that one is under way, so it is neither advised upon
nor ended with the broker. Here both is known, and a handshake has a bounded time. What asyncio needs for one, some 0.3
MB, is not spent on clients that have not yet said hello.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from minibroker.cluster.advice import SECURITY, Advised, about_tls_failure
from minibroker.server.acceptor import Acceptor
from minibroker.server.connection import Connection

_logger: Final = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 30.0
"""The time from the connection to the end of the handshake; after it the connection is closed."""

_GOODBYE_SECONDS: Final = 1.0
"""The time that the client has to answer the broker's close_notify."""
_LEAST_SECONDS: Final = 0.001
_HEAD: Final = 5
"""Bytes of a record's header: what is in it, a version, and a length of two bytes."""
_HANDSHAKE: Final = b"\x16\x03"
_LONGEST_RECORD: Final = 1 << 14


class TlsAcceptor(Acceptor):
    """Takes connections whose clients speak TLS.

    Args:
        tls: returns the context of the next connection.
        advised: what was advised before.
        others: the arguments of `Acceptor`.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext], advised: Advised, *others: Any) -> None:
        self._tls = tls
        self._advised = advised
        super().__init__(*others)

    def close(self) -> None:
        """Take no more, and end the handshakes that are under way."""
        super().close()
        for task in self.entering:
            task.cancel()

    async def open(self, accepted: socket.socket, connection: Connection) -> None:
        """Shake hands."""
        try:
            begin = self.loop.time()
            try:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._hello(accepted)
            except BaseException:
                accepted.close()
                raise
            left = max(_LEAST_SECONDS, HANDSHAKE_SECONDS - (self.loop.time() - begin))
            await self._shake_hands(accepted, connection, left)
        except OSError as error:  # as those of TLS are
            reason = (error.reason if isinstance(error, ssl.SSLError) else None) or str(error) or type(error).__name__
            _logger.info("A client did not get through the TLS handshake: %s", reason)
            advice = about_tls_failure(reason)
            if advice is not None:
                self._advised.advise(SECURITY, advice, advice)

    async def _hello(self, accepted: socket.socket) -> None:
        """Wait until the client's first message is there, or something that cannot be one. OSError.

        The kernel keeps it: it says when there is enough.
        """
        start = await self._peek(accepted, _HEAD)
        length = int.from_bytes(start[3:])
        if len(start) == _HEAD and start.startswith(_HANDSHAKE) and length <= _LONGEST_RECORD:
            await self._peek(accepted, _HEAD + length)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _peek(self, accepted: socket.socket, size: int) -> bytes:
        """The first bytes that the client has sent, once there are `size` of them, or no more will come."""
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        readable = self.loop.create_future()
        self.loop.add_reader(accepted, _settle, readable)
        try:
            await readable
        finally:
            self.loop.remove_reader(accepted)
        start = accepted.recv(_HEAD, socket.MSG_PEEK)
        if not start:
            raise ConnectionAbortedError("the client has gone")
        return start

    async def _shake_hands(self, accepted: socket.socket, connection: Connection, seconds: float) -> None:
        try:
            handshake = _Handshake(self._tls(), accepted.dup())
        except OSError as error:  # no descriptor is left
            accepted.close()
            _logger.warning("A connection could not be taken: %s", error.strerror)
            return
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=cast("ssl.SSLContext", handshake),
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=_GOODBYE_SECONDS,
            )
        finally:
            handshake.close()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class _WatchedObject(ssl.SSLObject):
    """Reports when its handshake fails."""

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
    """The context of one connection, as asyncio takes it.

    It knows what TLS has to say when the handshake fails, which asyncio keeps to itself: without that alert a client
    sees a connection that ends, and tries again.
    """

    def __init__(self, context: ssl.SSLContext, line: socket.socket) -> None:
        context.sslobject_class = _WatchedObject
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
