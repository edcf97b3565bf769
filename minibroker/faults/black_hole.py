"""The end of a connection's service without its end: what comes is read and forgotten."""

import asyncio
from typing import Final

_ROOM: Final = 1 << 16


class BlackHole(asyncio.BufferedProtocol):
    """Takes the place of `connection` on its transport; only the end is passed on to it."""

    def __init__(self, connection: asyncio.BaseProtocol) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(_ROOM))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where asyncio puts unread bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come, and are gone."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has given up, or the broker stops."""
        self._connection.connection_lost(exc)
