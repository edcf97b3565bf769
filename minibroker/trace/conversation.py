"""The requests and responses of one connection, matched; and the addresses in the responses.

A broker answers the requests of a connection in their order, and each response has its request's correlation id. Tokens
of SASL after SaslHandshake 0 have neither header nor correlation id: whatever is no request then is a token, up to the
first request. A client of Kafka 0.9 begins with tokens of GSSAPI, whose first byte is 0x60.
"""

from __future__ import annotations

import importlib
import struct
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from minibroker.trace.exchange import Exchange, Kind
from minibroker_protocol.addresses import with_addresses
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.primitives import read_uvarint, skip_tagged_fields
from minibroker_protocol.schema import schema_of

if TYPE_CHECKING:
    from minibroker_protocol.addresses import Translate

MOST_HELD: Final = 1 << 26
"""Bytes of a response that is held to change addresses in it; a longer one passes as it is."""

_HEADER: Final = struct.Struct(">hhi")
_HEADER_END: Final = 12
_CLIENT_ID: Final = struct.Struct(">h")
_BODY: Final = 8
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NEWEST_VERSION: Final = 100
"""No API has a version near that."""
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
"""The first versions whose responses have addresses that clients connect to."""


class _Acks(NamedTuple):
    """The `acks` of the Produce requests of a version that have these bytes behind the correlation id.

    They end with `acks`, and say themselves where that stands. None where it cannot be read.
    """

    version: int
    head: bytes
    acks: int | None


_UNKNOWN_ACKS: Final = _Acks(-1, b"", None)


class Sink(Protocol):
    """The owner of a conversation: it shows exchanges, gives them their times and reports what went wrong."""

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """A request has come."""
        ...

    def end(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        """Nothing more will come of it; `frame` is the response, empty for none."""
        ...

    def complain(self, text: str) -> None:
        """Print a text for the user, once."""
        ...


class Conversation:
    """One connection.

    Args:
        translate: is asked for the address that clients see in the place of a broker's; None leaves addresses as they
            are.
        is_torn: its beginning is not known, so the first frames may be tokens of SASL.
    """

    def __init__(
        self, client: str, broker: str, sink: Sink, translate: Translate | None, *, is_torn: bool = False
    ) -> None:
        self._client = client
        self._broker = broker
        self._sink = sink
        self._translate = translate
        self._pending: deque[Exchange] = deque()
        self._may_be_tokens: bool | None = is_torn or None  # None before the first request
        self._known_acks = _UNKNOWN_ACKS

    @property
    def pending(self) -> int:
        """The number of requests that wait for a response."""
        return len(self._pending)

    def request(self, frame: bytes | bytearray, size: int) -> None:
        """A request was received; see `streams.Listener`."""
        exchange = Exchange(_REQUEST, self._client, self._broker)
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
            api_key, version, exchange.correlation_id = _HEADER.unpack_from(frame, 4)
            exchange.api_key, exchange.version = api_key, version
            if api_key == _PRODUCE:
                known = self._known_acks
                if version != known.version or not frame.startswith(known.head, _HEADER_END):
                    known = self._known_acks = _acks(frame, version)
                exchange.expects_response = known.acks != 0
            elif api_key == _SASL_HANDSHAKE:
                self._may_be_tokens = version == 0
        self._sink.begin(exchange, frame)
        if exchange.expects_response and (exchange.kind is _REQUEST or exchange.kind is not Kind.UNREADABLE):
            self._pending.append(exchange)
        else:
            self._sink.end(exchange, b"")

    def holds(self, head: bytes, size: int) -> bool:
        """Whether a response may have addresses; see `streams.Listener`."""
        exchange = self._find(head)
        if exchange is None or not _has_addresses(exchange):
            return False
        if size <= MOST_HELD:
            return True
        name = ApiKey(exchange.api_key).message
        self._sink.complain(f"a response to {name} has {size} bytes, so its addresses pass as they are")
        return False

    def response(self, frame: bytes | bytearray, size: int) -> bytes | bytearray:
        """A response was received; returns the bytes that the client gets."""
        exchange = self._find(frame)
        pending = self._pending
        if exchange is None:
            exchange = Exchange(Kind.UNASKED, self._client, self._broker)
            self._sink.begin(exchange, b"")
        elif pending[0] is exchange:  # as nearly always
            pending.popleft()
        else:
            while pending[0] is not exchange and pending[0].kind is Kind.TOKEN:
                self._sink.end(pending.popleft(), b"")  # the last token of GSSAPI has no answer
            pending.remove(exchange)
        exchange.bytes_out = size
        passed = frame
        if self._translate is not None and size == len(frame) and _has_addresses(exchange):
            passed = self._with_our_addresses(exchange, frame)
        self._sink.end(exchange, frame)
        return passed

    def close(self, failure: str) -> None:
        """The connection is over."""
        while self._pending:
            exchange = self._pending.popleft()
            exchange.failure = failure
            self._sink.end(exchange, b"")

    def _find(self, head: bytes | bytearray) -> Exchange | None:
        """The request of a response with this head: nearly always the first one that waits."""
        if not self._pending:
            return None
        first = self._pending[0]
        if len(head) >= _BODY:
            correlation_id: int = _INT32.unpack_from(head, 4)[0]
            for each in self._pending:
                if each.correlation_id == correlation_id and each.kind is _REQUEST:
                    return each
        return first if first.kind is Kind.TOKEN else None

    def _with_our_addresses(self, exchange: Exchange, frame: bytes | bytearray) -> bytes | bytearray:
        translate_address = self._translate
        if translate_address is None:
            return frame
        cls, version = response_with_addresses(exchange.api_key), exchange.version
        view = memoryview(frame)
        replaced: dict[str, str] = {}

        def translate(host: str, port: int) -> tuple[str, int] | None:
            other = translate_address(host, port)
            if other is not None:
                replaced[f"{host}:{port}"] = f"{other[0]}:{other[1]}"
            return other

        try:
            position = skip_tagged_fields(view, _BODY) if version in schema_of(cls).flexible else _BODY
            changed = with_addresses(cls, version, view, position, translate)
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
    """Whether the response may have addresses that clients connect to."""
    return exchange.version >= _WITH_ADDRESSES.get(exchange.api_key, _NEWEST_VERSION)


@cache
def response_with_addresses(api_key: int) -> type[Any]:
    """The class of the responses of an API whose responses have addresses."""
    key = ApiKey(api_key)
    module = importlib.import_module(f"minibroker_protocol.messages.{key.name.lower()}")
    found: type[Any] = getattr(module, f"{key.message}Response")
    return found


def _is_request(frame: bytes | bytearray, size: int) -> bool:
    """Whether a frame, which may be a token of SASL, looks like a request."""
    if len(frame) < _HEADER_END:
        return False
    api_key, version, _ = _HEADER.unpack_from(frame, 4)
    if not 0 <= api_key <= _LAST_API or not 0 <= version < _NEWEST_VERSION or len(frame) < _HEADER_END + 2:
        return False
    length: int = _CLIENT_ID.unpack_from(frame, _HEADER_END)[0]
    return -1 <= length <= size - _HEADER_END - _CLIENT_ID.size


def _acks(frame: bytes | bytearray, version: int) -> _Acks:
    """The field `acks` of a Produce request, and what stands before it."""
    try:
        position = _HEADER_END + _CLIENT_ID.size + max(_CLIENT_ID.unpack_from(frame, _HEADER_END)[0], 0)
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
