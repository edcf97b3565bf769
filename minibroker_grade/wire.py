"""A connection from the grader to a broker. It records all requests and responses for the report."""

import contextlib
import socket
import struct
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.messages import key_of, messages_of
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import schema_of

CLIENT_ID: Final = "grade"
_HEADER: Final = struct.Struct(">hhih")
_LENGTH: Final = struct.Struct(">i")
_MAX_FRAME_BYTES: Final = 1 << 28

Address = tuple[str, int]
"""Host and port."""


@dataclass(slots=True)
class Exchange:
    """A request and its response, as bytes including the length prefix.

    Attributes:
        key: The API key.
        version: The version of the response. It equals the request's, except after a KIP-511 downgrade.
        sent: The request's frame.
        received: The bytes of the response so far.
        response: The decoded response. None until it has arrived, or if decoding fails.
    """

    key: int
    version: int
    sent: bytes
    received: bytes = b""
    response: Any = None


class BrokenAnswerError(Exception):
    """The response is missing or malformed. The message gives the reason.

    Args:
        message: The reason.
        expected: A phrase for what was expected.
        byte: The position of the first wrong byte, if known.
        where: Text after the position, such as ", in header.correlation_id".
        field: The path of the field.
    """

    def __init__(
        self,
        message: str,
        expected: str = "a whole response that can be read",
        byte: int | None = None,
        where: str = "",
        field: str = "",
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.byte = byte
        self.where = where
        self.field = field


class Wire:
    """A connection to the broker.

    Args:
        address: The address of the broker.
        exchanges: The list to which each request is added.
        deadline: The time limit, as a `time.monotonic` time.
    """

    def __init__(self, address: Address, exchanges: list[Exchange], deadline: float) -> None:
        """Connect to the broker.

        Raises:
            OSError: The connection failed.
        """
        self._exchanges = exchanges
        self._waiting: list[tuple[Exchange, Any]] = []
        self._deadline = deadline
        self._number = 0
        self._socket = socket.create_connection(address, timeout=self._remaining_s())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        """Send a request.

        Raises:
            BrokenAnswerError: The broker has closed the connection.
        """
        self._number += 1
        self.send_frame(encode_request(request, version, self._number), request, version)

    def send_bytes(self, data: bytes, *, is_request: bool = False) -> None:
        """Send raw bytes. The report shows them only if they are a request without a response.

        Raises:
            BrokenAnswerError: The broker has closed the connection.
        """
        if is_request:
            self._exchanges.append(Exchange(-1, 0, data))
        with self._time_limit("bytes could not be sent"):
            self._socket.sendall(data)

    def send_frame(self, frame: bytes, request: Any, version: int, *, already: int = 0) -> None:
        """Send arbitrary bytes as the frame of this request. The first `already` bytes have been sent before."""
        exchange = Exchange(key_of(request.__class__), version, bytes(frame))
        self._exchanges.append(exchange)
        self._waiting.append((exchange, request))
        with self._time_limit("the request could not be sent"):
            self._socket.sendall(frame[already:])

    def receive(self) -> Any:
        """Return the response to the oldest request that is still waiting for one.

        Raises:
            BrokenAnswerError: The response is missing or malformed.
        """
        exchange, request = self._waiting.pop(0)
        expected_id = struct.unpack_from(">i", exchange.sent, 8)[0]
        exchange.received = frame = self.receive_frame(exchange)
        if len(frame) < 8:  # noqa: PLR2004 - a length and a correlation id
            raise BrokenAnswerError(
                "the response is shorter than its header", byte=len(frame), where=": nothing is there"
            )
        (correlation_id,) = struct.unpack_from(">i", frame, 4)
        if correlation_id != expected_id:
            position = next(position for position in range(4, 8) if frame[position] != exchange.sent[position + 4])
            raise BrokenAnswerError(
                f"the correlation id is {correlation_id}, that of the request was {expected_id}",
                f"{expected_id} in header.correlation_id",
                position,
                f", in header.correlation_id: {frame[position]:02x} instead of {exchange.sent[position + 4]:02x}",
                "header.correlation_id",
            )
        exchange.response = _decode_response(exchange, request)
        return exchange.response

    def receive_frame(self, exchange: Exchange) -> bytes:
        """Return the next frame with its length prefix. The exchange keeps the bytes of an incomplete frame.

        Raises:
            BrokenAnswerError: The frame is incomplete, or its length is invalid.
        """
        head = self._receive(4, exchange)
        (length,) = _LENGTH.unpack(head)
        if not 0 <= length <= _MAX_FRAME_BYTES:
            note = f": that is the text {head.decode()!r}" if head.isascii() and head.decode().isprintable() else ""
            raise BrokenAnswerError(
                f"the length of the response is {length}{note}",
                f"a length from 0 to {_MAX_FRAME_BYTES}",
                0,
                ", where the length begins",
            )
        return head + self._receive(length, exchange)

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing arrives for this many seconds. False if a byte arrives or the connection ends."""
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except OSError:
            return False
        return False

    def is_closed(self) -> bool:
        """Wait until the broker acts, and return whether it closes the connection without sending another byte.

        Raises:
            BrokenAnswerError: The connection is still open and silent at the check's time limit.
        """
        self._socket.settimeout(self._remaining_s())
        try:
            return self._socket.recv(1) == b""
        except TimeoutError:
            raise BrokenAnswerError(
                "the connection stays open up to the check's limit", "the end of the connection"
            ) from None
        except ConnectionResetError:
            return True

    def _receive(self, size: int, exchange: Exchange) -> bytes:
        data = bytearray()
        while len(data) < size:
            with self._time_limit("no answer came"):
                chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                received_bytes = len(exchange.received)
                if not received_bytes:
                    raise BrokenAnswerError("the broker closed the connection without an answer", "an answer")
                raise BrokenAnswerError(
                    f"the broker closed the connection after {received_bytes} bytes of an answer",
                    byte=received_bytes,
                    where=": it did not come",
                )
            data += chunk
            exchange.received += chunk
        return bytes(data)

    @contextlib.contextmanager
    def _time_limit(self, failure: str) -> Generator[None]:
        self._socket.settimeout(self._remaining_s())
        try:
            yield
        except TimeoutError:
            raise BrokenAnswerError(f"{failure} within the check's limit", "an answer") from None
        except (ConnectionResetError, BrokenPipeError) as error:
            raise BrokenAnswerError(f"the broker closed the connection ({error.strerror})", "an answer") from None

    def _remaining_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)


def accepts_connections(address: Address, seconds: float) -> bool:
    """Return whether a process accepts connections at this address within this many seconds."""
    try:
        socket.create_connection(address, timeout=seconds).close()
    except OSError:
        return False
    return True


def answers_api_versions(address: Address, seconds: float) -> bool:
    """Return whether the broker at this address answers ApiVersions within this many seconds."""
    try:
        with contextlib.closing(Wire(address, [], time.monotonic() + seconds)) as wire:
            wire.send(ApiVersionsRequest(), 0)
            wire.receive()
    except (OSError, BrokenAnswerError):
        return False
    return True


def _decode_response(exchange: Exchange, request: object) -> Any:
    cls = type(request)
    data = memoryview(exchange.received)
    version, position = exchange.version, 8
    is_api_versions = exchange.key == ApiKey.API_VERSIONS
    if is_api_versions and (bytes(data[8:10]) == b"\0\x23" or version not in schema_of(cls).versions):
        version = exchange.version = 0  # Brokers answer an unsupported version of ApiVersions in version 0 (KIP-511).
    try:
        if not is_api_versions and version in schema_of(cls).flexible:
            position = skip_tagged_fields(data, position)
        response, end = decode(messages_of(key_of(cls)).response, data, version, position)
    except (ProtocolError, IndexError) as error:
        raise BrokenAnswerError(f"the response cannot be read: {error}") from None
    if end != len(data):
        surplus = len(data) - end
        raise BrokenAnswerError(
            f"{surplus} {'byte is' if surplus == 1 else 'bytes are'} left over behind the response",
            f"a response of {end} bytes, as the schema of version {version} has it",
            end,
            ", behind the last field",
        )
    return response


def encode_request(request: object, version: int, correlation_id: int) -> bytes:
    """Return a request's bytes with its length prefix and header."""
    cls = type(request)
    body = bytearray(_HEADER.pack(key_of(cls), version, correlation_id, len(CLIENT_ID)) + CLIENT_ID.encode())
    if version in schema_of(cls).flexible:
        body.append(0)
    encode(request, version, body, [])
    return _LENGTH.pack(len(body)) + body
