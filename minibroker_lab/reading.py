"""A decoded exchange: messages, targets and errors, in the form of a broker's journal.

Messages of an unknown API or version, truncated frames, and messages with more than 20,000 elements are not decoded.
Bytes that can contain a secret are not shown.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.inspection.exchanges import Exchange, Kind
from minibroker.server.inspection.journal import error_codes_of
from minibroker.server.inspection.message_forms import holds_secrets
from minibroker.server.inspection.message_json import detach
from minibroker.server.inspection.request_lines import records_of, subjects_of
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.targets import targets_by_name
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.primitives import ZERO_UUID, skip_tagged_fields
from minibroker_protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker.cluster.core import Core
    from minibroker.server.requests.declarations import Target
    from minibroker.server.requests.endpoints import Endpoint

MAX_ELEMENTS: Final = 20_000
MAX_SHOWN_BYTES: Final = 1024
"""The number of bytes shown of a message that was not decoded."""

_PREFIX: Final = 4
_RESPONSE_BODY: Final = 8
_ERROR_CODE: Final = slice(8, 10)
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_MAX_TOPICS: Final = 100_000
_UNREADABLE: Final = (DecodeError, ValueError)


class RawBytes(NamedTuple):
    """The bytes of a message that was not decoded.

    Attributes:
        size: The size of the frame with its length prefix.
        shown: The first bytes of the frame after its length prefix, or None if they can contain a secret.
    """

    size: int
    shown: bytes | None


class Reading(NamedTuple):
    """A decoded exchange.

    Attributes:
        api: The name of the API, such as "Produce", or "API 999" if it is unknown.
        request: The request without secrets, or None if there is none or it was not decoded. Its fields can be views of
            the frame.
        response: The response without secrets, or None if there is none or it was not decoded. Its fields can be views
            of the frame.
        response_version: The version of the response: 0 if the broker does not support the version of an ApiVersions
            request, otherwise the request's version.
        request_bytes: The bytes of a request that was not decoded.
        response_bytes: The bytes of a response that was not decoded.
        errors: The sorted names of the errors in the response, such as "error 999" for an unknown error.
    """

    exchange: Exchange
    api: str
    client_id: str | None = None
    request: Any = None
    response: Any = None
    response_version: int = 0
    request_bytes: RawBytes | None = None
    response_bytes: RawBytes | None = None
    targets: Sequence[Target] = ()
    errors: Sequence[str] = ()

    @property
    def about(self) -> str:
        """The subject of the request: topics, groups and records, or an empty string."""
        if self.request is None:
            return ""
        words = [*subjects_of(self.targets)]
        if records := records_of(self.request):
            words.append(f"({records})")
        session = getattr(self.request, "session_id", 0)
        return " ".join(words) if words or not session else f"fetch session {session}"

    @property
    def outcome(self) -> str:
        """The outcome of the request: its errors or "ok", and the records in the response."""
        if self.exchange.loss is not None:
            return self.exchange.loss
        if not self.exchange.bytes_out:
            return "no response"
        if self.response is None:
            return "bytes"
        return ", ".join(filter(None, (" ".join(self.errors) or "ok", records_of(self.response))))


class _Topic(NamedTuple):
    name: str


class KnownTopics:
    """The names of topics by id, collected from responses."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, _Topic] = {}
        self.topics = self  # `targets_by_name` expects this attribute, as `Core` has it.

    def with_id(self, topic_id: bytes) -> _Topic | None:
        """Return the topic with this id, or None if no response contained both its id and its name."""
        return self._by_id.get(topic_id)

    def learn(self, response: Any) -> None:
        """Store the topics of a response that have both a name and an id."""
        topics: Sequence[Any] = getattr(response, "topics", None) or ()
        for topic in topics:
            topic_id, name = getattr(topic, "topic_id", ZERO_UUID), getattr(topic, "name", None)
            if topic_id != ZERO_UUID and name and len(self._by_id) < _MAX_TOPICS:
                self._by_id[topic_id] = _Topic(name)


def read(exchange: Exchange, topics: KnownTopics) -> Reading:
    """Decode an exchange. Bytes that cannot be decoded are kept as `RawBytes` and are not an error."""
    if exchange.kind is not Kind.REQUEST:
        api = {Kind.TOKEN: "SASL token", Kind.UNREADABLE: "unreadable", Kind.UNASKED: "response to no request"}
        hides = exchange.kind is Kind.TOKEN
        return Reading(
            exchange,
            api[exchange.kind],
            request_bytes=_keep_raw(exchange.request_frame, exchange.bytes_in, hides=hides),
            response_bytes=_keep_raw(exchange.response_frame, exchange.bytes_out, hides=hides),
        )
    served = _find_endpoint(exchange.api_key)
    hides = has_secrets(exchange.api_key)
    client_id, request = _decode_request(exchange, served)
    version, response = _decode_response(exchange, served)
    if response is not None:
        topics.learn(response)
    return Reading(
        exchange,
        name_of(exchange.api_key),
        client_id,
        detach(request) if hides else request,
        detach(response) if hides else response,
        version,
        _keep_raw(exchange.request_frame, exchange.bytes_in, hides=hides) if request is None else None,
        _keep_raw(exchange.response_frame, exchange.bytes_out, hides=hides) if response is None else None,
        # targets_by_name() only looks up names by id, which Core and KnownTopics both support.
        targets_by_name(served.names, request, cast("Core", topics)) if served and request is not None else (),
        sorted(set(map(error_name, error_codes_of(response)))),
    )


@cache
def has_secrets(api_key: int) -> bool:
    """Return whether the bytes of an API must never be shown. In an unknown version, a secret can be anywhere."""
    if api_key == ApiKey.ENVELOPE:
        return True
    served = _find_endpoint(api_key)
    return served is not None and (holds_secrets(served.request) or holds_secrets(served.response))


def name_of(api_key: int) -> str:
    """Return the name of an API, or "API 999" if it is unknown."""
    try:
        return ApiKey(api_key).message
    except ValueError:
        return f"API {api_key}"


def error_name(code: int) -> str:
    """Return the name of an error, or "error 999" if it is unknown."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _find_endpoint(api_key: int) -> Endpoint | None:
    # An envelope contains another request, which may contain secrets, so it is not decoded.
    if api_key == ApiKey.ENVELOPE:
        return None
    try:
        return endpoint(api_key)
    except UnservedRequestError:
        return None


def _keep_raw(frame: bytes | bytearray, size: int, *, hides: bool) -> RawBytes | None:
    if not size:
        return None
    return RawBytes(size, None if hides else bytes(frame[_PREFIX : _PREFIX + MAX_SHOWN_BYTES]))


def _decode_request(exchange: Exchange, served: Endpoint | None) -> tuple[str | None, Any]:
    """Return the client id and the request, or None for each if it cannot be decoded."""
    view = memoryview(exchange.request_frame)[_PREFIX:]
    client_id = None
    try:
        header = read_request_header(view)
        client_id = header.client_id
        if served is None or len(exchange.request_frame) < exchange.bytes_in:
            return client_id, None
        is_flexible = exchange.version in schema_of(served.request).flexible
        position = skip_tagged_fields(view, header.body) if is_flexible else header.body
        return client_id, decode(served.request, view, exchange.version, position, MAX_ELEMENTS)[0]
    except _UNREADABLE:
        return client_id, None


def _decode_response(exchange: Exchange, served: Endpoint | None) -> tuple[int, Any]:
    """Return the version and the response. The response is None if it cannot be decoded."""
    version, view = exchange.version, memoryview(exchange.response_frame)
    if served is None or not exchange.bytes_out or len(view) < exchange.bytes_out:
        return version, None
    position = _RESPONSE_BODY
    try:
        if exchange.api_key == ApiKey.API_VERSIONS:
            if bytes(view[_ERROR_CODE]) == _UNSUPPORTED_VERSION:
                # Brokers answer an unsupported version with version 0, which every client can decode (KIP-511).
                version = 0
        elif version in schema_of(served.response).flexible:
            position = skip_tagged_fields(view, position)
        return version, decode(served.response, view, version, position, MAX_ELEMENTS)[0]
    except _UNREADABLE:
        return version, None
