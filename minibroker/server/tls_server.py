"""TLS listeners, whose connections begin after the TLS handshake.

asyncio's own server reports neither why a handshake failed nor that one is in progress. With it, a broker could
give no advice, and could not end handshakes when it stops. Here both are possible, and a handshake has a timeout.
asyncio needs some 0.3 MB for a handshake. This memory is not allocated until the client has sent its first message.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from minibroker.cluster.advice import SECURITY, AdviceLog, explain_tls_failure
from minibroker.server.acceptor import Acceptor
from minibroker.server.connection import Connection

_logger: Final = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 30.0
"""The timeout of the handshake in seconds, after which the connection is closed."""

_CLOSE_NOTIFY_TIMEOUT_S: Final = 1.0
"""The time that the client has to answer the broker's close_notify, in seconds."""
_MIN_TIMEOUT_S: Final = 0.001
_RECORD_HEADER_BYTES: Final = 5
"""The size of a record header in bytes: its content type, a version and a length of two bytes."""
_HANDSHAKE: Final = b"\x16\x03"
_MAX_RECORD_BYTES: Final = 1 << 14


class TlsAcceptor(Acceptor):
    """Accepts the TLS connections of a listener.

    Args:
        tls: Returns the context for the next connection.
        advised: The advice already given.
        others: The other arguments, which are those of `Acceptor`.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext], advised: AdviceLog, *others: Any) -> None:
        self._tls = tls
        self._advised = advised
        super().__init__(*others)

    def close(self) -> None:
        """Stop accepting connections, and cancel the handshakes in progress."""
        super().close()
        for task in self.entering:
            task.cancel()

    async def open(self, accepted: socket.socket, connection: Connection) -> None:
        """Perform the TLS handshake of a connection."""
        try:
            begin = self.loop.time()
            try:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._wait_for_hello(accepted)
            except BaseException:
                accepted.close()
                raise
            remaining_s = max(_MIN_TIMEOUT_S, HANDSHAKE_SECONDS - (self.loop.time() - begin))
            await self._shake_hands(accepted, connection, remaining_s)
        except OSError as error:  # This includes TLS errors, because ssl.SSLError is a subclass of OSError.
            reason = (error.reason if isinstance(error, ssl.SSLError) else None) or str(error) or type(error).__name__
            _logger.info("A client did not get through the TLS handshake: %s", reason)
            advice = explain_tls_failure(reason)
            if advice is not None:
                self._advised.advise(SECURITY, advice, advice)

    async def _wait_for_hello(self, accepted: socket.socket) -> None:
        """Wait until the client's first message has arrived, or bytes that cannot be one.

        The kernel buffers the message and signals when it is complete.

        Raises:
            OSError: The client has disconnected.
        """
        start = await self._peek(accepted, _RECORD_HEADER_BYTES)
        length = int.from_bytes(start[3:])
        if len(start) == _RECORD_HEADER_BYTES and start.startswith(_HANDSHAKE) and length <= _MAX_RECORD_BYTES:
            await self._peek(accepted, _RECORD_HEADER_BYTES + length)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _peek(self, accepted: socket.socket, size: int) -> bytes:
        """Return the first bytes that the client sent, once there are `size` of them or the stream has ended."""
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        readable = asyncio.Event()
        self.loop.add_reader(accepted, readable.set)
        try:
            await readable.wait()
        finally:
            self.loop.remove_reader(accepted)
        start = accepted.recv(_RECORD_HEADER_BYTES, socket.MSG_PEEK)
        if not start:
            raise ConnectionAbortedError("the client has gone")
        return start

    async def _shake_hands(self, accepted: socket.socket, connection: Connection, seconds: float) -> None:
        try:
            handshake = _Handshake(self._tls(), accepted.dup())
        except OSError as error:  # dup() fails if no descriptor is free.
            accepted.close()
            _logger.warning("A connection could not be taken: %s", error.strerror)
            return
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=cast("ssl.SSLContext", handshake),
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=_CLOSE_NOTIFY_TIMEOUT_S,
            )
        finally:
            handshake.close()


class _WatchedObject(ssl.SSLObject):
    """An SSLObject that reports when its handshake fails."""

    on_failure: Callable[[], None]

    def do_handshake(self) -> None:
        """Continue the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.on_failure()
            raise


class _Handshake:
    """A wrapper of a TLS context for the handshake of one connection, passed to asyncio in its place.

    It sends the alert after a failed handshake. asyncio would discard the alert, and the client would only get a
    closed connection and try again.
    """

    def __init__(self, context: ssl.SSLContext, line: socket.socket) -> None:
        context.sslobject_class = _WatchedObject
        self._context = context
        self._line = line

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **others: Any) -> ssl.SSLObject:
        """Begin the handshake."""
        ssl_object = self._context.wrap_bio(incoming, outgoing, **others)
        cast("_WatchedObject", ssl_object).on_failure = partial(self._send_alert, outgoing)
        return ssl_object

    def _send_alert(self, outgoing: ssl.MemoryBIO) -> None:
        """Send the TLS alert without waiting. The alert is lost if the socket cannot take it immediately."""
        if outgoing.pending:
            with contextlib.suppress(OSError):
                self._line.send(outgoing.read())

    def close(self) -> None:
        """Close the socket after the handshake."""
        self._line.close()
