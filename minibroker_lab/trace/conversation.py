"""Matches requests and responses of one connection, and replaces addresses in responses.

A broker answers the requests of a connection in order, and each response has the correlation id of its request. SASL
tokens after SaslHandshake 0 have neither a header nor a correlation id. After such a handshake, every frame that does
not look like a request is a token, until the first request. A Kafka 0.9 client starts with GSSAPI tokens, which begin
with the byte 0x60.

The streams split bytes into frames as they pass. Requests are forwarded immediately, and `RequestStream` keeps a copy
of their start. Responses are forwarded immediately too, except those that a conversation holds to change them.
`ResponseStream` forwards a held response when it is complete. A negative length is invalid in Kafka's protocol: the
bytes from that length on are forwarded unchanged.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.server.inspection.exchanges import Exchange, Kind, Origin
from minibroker_protocol.addresses import replace_addresses
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages import messages_of
from minibroker_protocol.primitives import read_uvarint, skip_tagged_fields
from minibroker_protocol.schema import schema_of

if TYPE_CHECKING:
    from minibroker_lab.trace.lines import LineWriter
    from minibroker_protocol.addresses import Translate

MAX_HELD_BYTES: Final = 1 << 26
"""The largest response, in bytes, that is held to replace its addresses. Larger responses are forwarded unchanged."""

PREFIX: Final = 4
HEAD: Final = 8
"""The size of a response's length and correlation id, which identify its request."""
_HEADER: Final = struct.Struct(">hhi")
_HEADER_END: Final = 12
_BODY: Final = 8
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NEWEST_VERSION: Final = 100
"""A limit above the versions of all APIs."""
_LAST_API: Final = max(ApiKey)
_GSSAPI: Final = b"\x60"
_PRODUCE: Final = int(ApiKey.PRODUCE)
_REQUEST: Final = Kind.REQUEST
_SASL_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_FLEXIBLE_PRODUCE: Final = 9
_FIRST_TRANSACTIONAL_PRODUCE: Final = 3

_WITH_ADDRESSES: Final = {
    int(ApiKey.PRODUCE): 10,
    int(ApiKey.FETCH): 16,
    int(ApiKey.METADATA): 0,
    int(ApiKey.FIND_COORDINATOR): 0,
    int(ApiKey.DESCRIBE_CLUSTER): 0,
    int(ApiKey.SHARE_FETCH): 1,
    int(ApiKey.SHARE_ACKNOWLEDGE): 1,
}
"""The first versions whose responses contain addresses that clients connect to."""


class _Acks(NamedTuple):
    """The `acks` field of Produce requests with this version whose bytes after the correlation id start with `head`.

    `head` ends with `acks` and determines the field's position, so requests with equal heads have equal `acks`. `acks`
    is None if the field cannot be decoded.
    """

    version: int
    head: bytes
    acks: int | None


_UNKNOWN_ACKS: Final = _Acks(-1, b"", None)


class Conversation:
    """The exchanges of one connection.

    Args:
        client: The address of the client.
        broker: The address of the broker.
        sink: Receives all exchanges.
        translate: Returns the address that clients see in place of a broker's. None leaves addresses unchanged.
    """

    def __init__(self, client: str, broker: str, sink: LineWriter, translate: Translate | None) -> None:
        self._origin = Origin(client, broker)
        self._sink = sink
        self._translate = translate
        self._pending: deque[Exchange] = deque()
        self._may_be_tokens: bool | None = None  # None until the first request arrives.
        self._known_acks = _UNKNOWN_ACKS

    @property
    def pending(self) -> int:
        """The number of requests that are waiting for a response."""
        return len(self._pending)

    def request(self, frame: bytes | bytearray, size: int) -> None:
        """Begin an exchange.

        Args:
            frame: The request frame, which may be truncated.
            size: The size of the whole frame, including its length prefix.
        """
        exchange = Exchange(_REQUEST, self._origin)
        exchange.bytes_in = size
        may_be_tokens = self._may_be_tokens
        if may_be_tokens is None:
            may_be_tokens = self._may_be_tokens = frame[4:5] == _GSSAPI
        if may_be_tokens and not _is_request(frame, size):
            exchange.kind = Kind.TOKEN
        elif len(frame) < _HEADER_END:
            exchange.kind = Kind.UNREADABLE
        else:
            self._may_be_tokens = False
            exchange.header = api_key, version, _ = _HEADER.unpack_from(frame, 4)
            if api_key == _PRODUCE:
                known_acks = self._known_acks
                if version != known_acks.version or not frame.startswith(known_acks.head, _HEADER_END):
                    known_acks = self._known_acks = _read_acks(frame, version)
                exchange.expects_response = known_acks.acks != 0
            elif api_key == _SASL_HANDSHAKE:
                self._may_be_tokens = version == 0
        self._sink.begin(exchange, frame)
        # The first comparison is for speed: looking up an enum member on every request is slow.
        if exchange.expects_response and (exchange.kind is _REQUEST or exchange.kind is not Kind.UNREADABLE):
            self._pending.append(exchange)
        else:
            self._sink.end(exchange, b"")

    def holds(self, head: bytes, size: int) -> bool:
        """Return whether a response must be held until it is complete, because it can contain addresses.

        Args:
            head: The first bytes of the response, at most `HEAD`.
            size: The size of the response.
        """
        exchange = self._find(head)
        if exchange is None or not _has_addresses(exchange):
            return False
        if size <= MAX_HELD_BYTES:
            return True
        name = ApiKey(exchange.api_key).message
        self._sink.complain(f"a response to {name} has {size} bytes, so its addresses pass as they are")
        return False

    def response(self, frame: bytes | bytearray, size: int) -> bytes | bytearray:
        """End an exchange, and return the bytes for the client.

        If the response was not held, it was already forwarded, and the caller ignores the result.
        """
        exchange = self._find(frame)
        pending = self._pending
        if exchange is None:
            exchange = Exchange(Kind.UNASKED, self._origin)
            self._sink.begin(exchange, b"")
        elif pending[0] is exchange:  # This is the common case, because responses nearly always arrive in order.
            pending.popleft()
        else:
            while pending[0] is not exchange and pending[0].kind is Kind.TOKEN:
                self._sink.end(pending.popleft(), b"")  # The last GSSAPI token has no response.
            pending.remove(exchange)
        forwarded = frame
        if self._translate is not None and size == len(frame) and _has_addresses(exchange):
            forwarded = self._replace_addresses(exchange, frame, self._translate)
        self._sink.end(exchange, frame, size)
        return forwarded

    def lose(self, correlation_id: int, failure: str) -> None:
        """End the newest exchange, if it waits for a response: it will get none, although its connection stays open."""
        if self._pending and self._pending[-1].correlation_id == correlation_id:
            exchange = self._pending.pop()
            exchange.failure = failure
            self._sink.end(exchange, b"")

    def close(self, failure: str) -> None:
        """End all pending exchanges without a response, because the connection was closed."""
        while self._pending:
            exchange = self._pending.popleft()
            exchange.failure = failure
            self._sink.end(exchange, b"")

    def _find(self, head: bytes | bytearray) -> Exchange | None:
        """Return the request that matches the head of a response. It is nearly always the first pending request."""
        if not self._pending:
            return None
        first = self._pending[0]
        if len(head) >= _BODY:
            correlation_id: int = _INT32.unpack_from(head, 4)[0]
            for exchange in self._pending:
                if exchange.correlation_id == correlation_id and exchange.kind is _REQUEST:
                    return exchange
        return first if first.kind is Kind.TOKEN else None

    def _replace_addresses(
        self, exchange: Exchange, frame: bytes | bytearray, translate_address: Translate
    ) -> bytes | bytearray:
        cls, version = messages_of(ApiKey(exchange.api_key)).response, exchange.version
        view = memoryview(frame)
        replaced: dict[str, str] = {}

        def translate(host: str, port: int) -> tuple[str, int] | None:
            replacement = translate_address(host, port)
            if replacement is not None:
                replaced[f"{host}:{port}"] = f"{replacement[0]}:{replacement[1]}"
            return replacement

        try:
            position = skip_tagged_fields(view, _BODY) if version in schema_of(cls).flexible else _BODY
            changed = replace_addresses(cls, version, view, position, translate)
        except (DecodeError, ValueError) as error:
            reason = f"cannot be read: {error}" if isinstance(error, DecodeError) else "is unknown"
            name = ApiKey(exchange.api_key).message
            self._sink.complain(f"a response to {name} v{version} {reason}. Its addresses pass as they are")
            return frame
        if changed is None:
            return frame
        exchange.replaced = replaced
        _INT32.pack_into(changed, 0, len(changed) - _INT32.size)
        return changed


def _has_addresses(exchange: Exchange) -> bool:
    """Return whether the response can contain addresses that clients connect to."""
    return exchange.version >= _WITH_ADDRESSES.get(exchange.api_key, _NEWEST_VERSION)


def _is_request(frame: bytes | bytearray, size: int) -> bool:
    """Return whether a frame looks like a request rather than a SASL token."""
    if len(frame) < _HEADER_END:
        return False
    api_key, version, _ = _HEADER.unpack_from(frame, 4)
    if not 0 <= api_key <= _LAST_API or not 0 <= version < _NEWEST_VERSION or len(frame) < _HEADER_END + 2:
        return False
    length: int = _INT16.unpack_from(frame, _HEADER_END)[0]
    return -1 <= length <= size - _HEADER_END - _INT16.size


def _read_acks(frame: bytes | bytearray, version: int) -> _Acks:
    """Return the `acks` field of a Produce request and the bytes before it."""
    try:
        position = _HEADER_END + _INT16.size + max(_INT16.unpack_from(frame, _HEADER_END)[0], 0)
        if version >= _FLEXIBLE_PRODUCE:
            view = memoryview(frame)
            length, position = read_uvarint(view, skip_tagged_fields(view, position))
            position += max(length - 1, 0)
        elif version >= _FIRST_TRANSACTIONAL_PRODUCE:
            position += _INT16.size + max(_INT16.unpack_from(frame, position)[0], 0)
        acks: int = _INT16.unpack_from(frame, position)[0]
    except (struct.error, DecodeError):
        return _UNKNOWN_ACKS
    return _Acks(version, bytes(frame[_HEADER_END : position + _INT16.size]), acks)


class RequestStream:
    """The bytes sent by a client. At most `most_kept` bytes of each frame are passed to the conversation."""

    def __init__(self, conversation: Conversation, most_kept: int) -> None:
        self._conversation = conversation
        self._most_kept = most_kept
        self._kept = bytearray()
        self._size = 0  # The size of the frame including its length field, or 0 while the size is unknown.
        self._seen = 0
        self.is_opaque = False

    def feed(self, data: bytes) -> None:
        """Pass each request that ends within `data` to the conversation."""
        size = len(data)
        if not self._seen and size > PREFIX and int.from_bytes(data[:PREFIX], "big") + PREFIX == size:
            self._conversation.request(data[: self._most_kept], size)
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        position = 0
        while position < len(data) and not self.is_opaque:
            goal = self._size or PREFIX
            part = data[position : position + goal - self._seen]
            position += len(part)
            self._seen += len(part)
            if (room := self._most_kept - len(self._kept)) > 0:
                self._kept += part[:room]
            if self._seen < goal:
                return
            if not self._size:
                length = int.from_bytes(self._kept, "big", signed=True)
                self._size = PREFIX + length
                self.is_opaque = length < 0
            if self._seen == self._size:
                frame, self._kept, self._seen, self._size = self._kept, bytearray(), 0, 0
                self._conversation.request(frame, PREFIX + int.from_bytes(frame[:PREFIX], "big"))


class ResponseStream:
    """The bytes sent by a broker."""

    def __init__(self, conversation: Conversation, most_kept: int) -> None:
        self._conversation = conversation
        self._most_kept = most_kept
        self._held = bytearray()  # The held frame, or the first bytes of the next frame.
        self._held_size = 0  # The size of the held frame.
        self._kept = bytearray()  # The start of the frame that is being forwarded.
        self._left = 0
        self._size = 0
        self.is_opaque = False

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Return the bytes that can be forwarded now, in order."""
        forwarded: list[bytes | bytearray] = []
        position = 0
        if self._held and not self._held_size:
            data = bytes(self._held) + data
            self._held.clear()
        while position < len(data):
            if self.is_opaque:
                forwarded.append(data[position:])
                break
            if self._left:
                position = self._forward(data, position, forwarded)
            elif self._held_size:
                position = self._hold(data, position, forwarded)
            else:
                position = self._begin(data, position, forwarded)
        return forwarded

    def _begin(self, data: bytes, position: int, forwarded: list[bytes | bytearray]) -> int:
        """Process the start of a frame at `position`, and return the position after the processed bytes."""
        head = data[position : position + HEAD]
        size = PREFIX + int.from_bytes(head[:PREFIX], "big", signed=True) if len(head) >= PREFIX else HEAD
        if size < PREFIX:
            self.is_opaque = True
        elif len(head) < min(HEAD, size):
            self._held += head
            position = len(data)
        elif position + size <= len(data):
            forwarded.append(self._conversation.response(data[position : position + size], size))
            position += size
        elif self._conversation.holds(head, size):
            self._held_size = size
        else:
            self._left = self._size = size
        return position

    def _hold(self, data: bytes, position: int, forwarded: list[bytes | bytearray]) -> int:
        part = data[position : position + self._held_size - len(self._held)]
        self._held += part
        if len(self._held) == self._held_size:
            frame, self._held, self._held_size = self._held, bytearray(), 0
            forwarded.append(self._conversation.response(frame, len(frame)))
        return position + len(part)

    def _forward(self, data: bytes, position: int, forwarded: list[bytes | bytearray]) -> int:
        part = data[position : position + self._left]
        forwarded.append(part)
        self._left -= len(part)
        if (room := self._most_kept - len(self._kept)) > 0:
            self._kept += part[:room]
        if not self._left:
            frame, self._kept = self._kept, bytearray()
            self._conversation.response(frame, self._size)
        return position + len(part)
