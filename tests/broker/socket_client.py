"""A blocking client over a plain socket, which can also send invalid bytes."""

import selectors
import socket
import struct
from types import TracebackType
from typing import Any, Final, Self

from tests.broker.harness import frame_of, response_of
from tests.patience import PATIENCE_S

Address = tuple[str, int]
"""A host and a port."""
_MOMENT_S: Final = 0.1


def address_of(bootstrap: str) -> Address:
    """Parse an address of the form HOST:PORT."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def framed(frame: bytes | bytearray | memoryview) -> bytes:
    """Return a frame with its length prefix."""
    return struct.pack(">i", len(frame)) + frame


class SocketClient:
    """A connection to a broker."""

    def __init__(self, address: Address, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self._number = 0
        self._asked: dict[int, tuple[Any, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> int:
        """Send a request, and return its correlation id."""
        self._number += 1
        self._asked[self._number] = (request, version)
        frame = frame_of(request, version, self._number)
        self.send_bytes(framed(frame))
        return self._number

    def send_bytes(self, data: bytes) -> None:
        """Send arbitrary bytes."""
        self.socket.sendall(data)

    def receive(self) -> tuple[int, Any]:
        """Receive the next response, and return it with its correlation id.

        Raises:
            ConnectionError: the broker closed the connection.
        """
        head = self.receive_bytes(8)
        length, number = struct.unpack(">ii", head)
        request, version = self._asked.pop(number)
        return number, response_of(request, version, head + self.receive_bytes(length - 4), number)

    def receive_frame(self) -> bytes:
        """Receive a frame, and return it without its length field."""
        (size,) = struct.unpack(">i", self.receive_bytes(4))
        return self.receive_bytes(size)

    def receive_bytes(self, count: int) -> bytes:
        """Receive exactly `count` bytes.

        Raises:
            ConnectionError: the connection ended earlier.
        """
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and receive its response."""
        number = self.send(request, version)
        answered, response = self.receive()
        assert answered == number
        return response

    def is_closed(self) -> bool:
        """Wait until the broker sends a byte or closes the connection, and return whether it closed it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_silent(self) -> bool:
        """Return whether nothing arrives for a moment and the connection stays open."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            return not selector.select(_MOMENT_S)
