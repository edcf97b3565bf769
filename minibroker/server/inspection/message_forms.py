"""The forms in which the recording keeps messages: copied bytes that are decoded on demand.

Decoding and copying a message costs more than serving the request, and few messages are ever read. Two kinds
are copied immediately (`message_json.detach`): messages with secrets, to leave the secrets out, and long
requests, because their frames can contain more bytes than the message. Records are replaced by a summary, or by their
file range if reading them would take too long. The batch headers in the range are then read on demand.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.server.inspection.exchanges import Kind
from minibroker.server.inspection.message_json import (
    SECRETS,
    SETTINGS,
    RecordsSummary,
    count_records,
    detach,
    summarize_or_keep,
    summary,
)
from minibroker.server.requests.targets import implied_targets, targets_of
from minibroker_protocol import primitives as p
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import UNDECODABLE, decode, encode, message_from_values, shallow_copy
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.primitives import ZERO_UUID, skip_tagged_fields
from minibroker_protocol.schema import fields_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.declarations import Names, Target
    from minibroker.server.requests.endpoints import Endpoint
    from minibroker_protocol.codec import Splices
    from minibroker_protocol.schema import Field
    from minibroker_storage.files import LogSlice

MAX_FRAME_BYTES: Final = 4096
"""Longer requests are decoded immediately, since clients may append bytes that belong to no field."""
MEMORY_PER_BYTE: Final = 8
"""The estimated memory for each byte of a decoded message."""
_LENGTH_SIZE: Final = 4
_REQUEST_HEADER_SIZE: Final = 12
"""The length, API key, version and correlation id."""
_RESPONSE_HEADER_SIZE: Final = 8
"""The length and correlation id."""
_MARK: Final = b"\xff"
"""A placeholder for records. No base offset starts with this byte."""
_LONG_MARK: Final = b"\0\0\0\1" + _MARK
_COMPACT_MARK: Final = b"\2" + _MARK
"""The placeholder with its length, in the encodings of old and of flexible versions."""


class _Undetached(NamedTuple):
    """A message whose records are summaries or file ranges. It is copied when it is read."""

    message: Any


class _Spliced(NamedTuple):
    """The bytes of a message without its records, and the records as pairs (position, summary or file range)."""

    frame: bytearray
    records: list[tuple[int, RecordsSummary | LogSlice | bytes | None]]


def request_form(endpoint: Endpoint, frame: memoryview, request: Any) -> tuple[Any, int]:
    """Convert a request decoded from `frame` to the form that is kept. Return the form and its size in bytes."""
    if request is None:
        return None, 0
    cls: Any = endpoint.request
    size = len(frame)
    path = _path_to_records(cls)
    if size <= MAX_FRAME_BYTES and (path is not None or may_keep_bytes(cls)):
        return bytes(frame), size
    if path is None:
        return detach(request), size * MEMORY_PER_BYTE
    sizes: list[int] = []
    copy = _summarize(request, path, sizes)
    return _Undetached(copy), (size - sum(sizes)) * MEMORY_PER_BYTE


def plain_request_form(frame: memoryview, values: tuple[Any, ...]) -> tuple[Any, int]:
    """Like request_form(), for a request in the plain shape."""
    size = len(frame)
    if size <= MAX_FRAME_BYTES:
        return bytes(frame), size
    records = values[-1]  # The records are always the last field.
    return (values[:-1], count_records(records)), size - len(records or b"")


def response_form(call: Call, response: Any, frame: bytearray, splices: Splices) -> tuple[Any, int]:
    """Convert a response to the form that is kept. Return the form and its size in bytes.

    File ranges are in `splices`, not in the frame. The records in the response are replaced in place. This is safe,
    because the response has been sent and is no longer used.
    """
    cls: Any = call.endpoint.response
    size = len(frame)
    if may_keep_bytes(cls):
        return frame, size
    if _path_to_records(cls) is None:
        return detach(response), size * MEMORY_PER_BYTE
    if isinstance(response, tuple) or size <= MAX_FRAME_BYTES:
        # People read the values of records that have schemas.
        keeps_bytes = call.core.topics.get(SCHEMAS_TOPIC) is not None
        parts = [(position, summarize_or_keep(part, keeps_bytes=keeps_bytes)) for position, part in splices]
        return _Spliced(frame, parts), size + sum(len(part) for _, part in parts if isinstance(part, bytes))
    holders, name = _find_holders(response)
    for holder in holders:
        if records := getattr(holder, name):
            # These records are part of the frame, so their size is subtracted.
            if isinstance(records, bytes | bytearray | memoryview):
                size -= len(cast("bytes", records))
            setattr(holder, name, summarize_or_keep(records))
    return _Undetached(response), size * MEMORY_PER_BYTE


def _summarize(message: Any, path: tuple[str, ...], sizes: list[int]) -> Any:
    """Copy the parts of a message that lead to its records. Summarize the records, and add their sizes to `sizes`."""
    copy = shallow_copy(message)
    name, inner_path = path[0], path[1:]
    value = getattr(message, name)
    if inner_path:
        if value is not None:
            setattr(copy, name, [_summarize(element, inner_path, sizes) for element in value])
    elif value is not None:
        sizes.append(len(value))
        setattr(copy, name, summary(value))
    return copy


@cache
def _path_to_records(cls: type[Any]) -> tuple[str, ...] | None:
    """Return the names of the nested lists that lead to the only records field, followed by that field's name.

    Return None for a message with other fields that must be copied, or with secrets.
    """
    kinds = [field.kind for _, field in _all_fields(cls) if field.kind is p.RECORDS or field.kind is p.BYTES]
    if len(kinds) != 1 or kinds[0] is not p.RECORDS or holds_secrets(cls):
        return None
    for field in fields_of(cls):
        if field.kind is p.RECORDS:
            return (field.name,)
        kind: Any = field.kind
        if field.is_array and not isinstance(kind, p.WireType):
            inner_path = _path_to_records(kind)
            if inner_path is not None:
                return (field.name, *inner_path)
    return None


def _uses_topic_ids(names: Names, request: Any) -> bool:
    return any(
        getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID
        for shape in names.topics
        for holder in (getattr(request, shape.within) if shape.within else (request,))
        for topic in getattr(holder, shape.topics) or ()
    )


def resolve_targets(call: Call, request: Any) -> tuple[Target, ...] | None:
    """Resolve the targets that may change later: topics given by id, the targets of a session, or all topics.

    Return None for a request that names all its targets itself.
    """
    names = call.endpoint.names
    has_ids = call.api_version in call.endpoint.with_ids
    if request is None:
        return targets_of(names, request, call) if has_ids else None
    if has_ids and _uses_topic_ids(names, request):
        return targets_of(names, request, call)
    return implied_targets(names, request, call) or None


def decode_request(endpoint: Endpoint, form: Any) -> Any:
    """Return a request from any of the forms in which requests are kept."""
    if isinstance(form, bytes):
        return detach(_decode_request_frame(endpoint, form))
    if isinstance(form, _Undetached):
        return detach(form.message)
    if type(form) is tuple:
        values, counts = cast("tuple[Any, Any]", form)
        return message_from_values(endpoint.request, (*values, counts and RecordsSummary(*counts)))
    return form


def _decode_request_frame(endpoint: Endpoint, frame: bytes) -> Any:
    view = memoryview(frame)
    header = read_request_header(view)
    is_flexible = header.api_version in endpoint.flexible
    position = skip_tagged_fields(view, header.body) if is_flexible else header.body
    return decode(endpoint.request, view, header.api_version, position)[0]


def kept_records(endpoint: Endpoint, request_form_: Any, response_form_: Any) -> Iterator[Any]:
    """Yield the bytes of each partition's records, as far as the forms of a request and its response have kept them."""
    request: Any = endpoint.request
    if isinstance(request_form_, bytes) and _path_to_records(request) is not None:
        holders, name = _find_holders(_decode_request_frame(endpoint, request_form_))
        yield from filter(None, (getattr(holder, name) for holder in holders))
    if isinstance(response_form_, _Spliced):
        yield from (part for _, part in response_form_.records if isinstance(part, bytes))


def decode_response(endpoint: Endpoint, version: int, form: Any) -> Any:
    """Return a response from any of the forms in which responses are kept. Replace file ranges by summaries."""
    # Replace file ranges by their summaries, because the file may be deleted before the next access.
    if isinstance(form, _Undetached):
        holders, name = _find_holders(form.message)
        for holder in holders:
            setattr(holder, name, summary(getattr(holder, name)))
        return detach(form.message)
    records: list[Any] = []
    if isinstance(form, _Spliced):
        form.records[:] = [
            (position, part if isinstance(part, bytes) else summary(part)) for position, part in form.records
        ]
        records = [summary(part) for _, part in form.records]
        form = _insert_marks(form, is_compact=version in schema_of(endpoint.response).flexible)
    if not isinstance(form, bytes | bytearray):
        return form
    view = memoryview(form)
    position = _RESPONSE_HEADER_SIZE
    if endpoint.has_flexible_response_header(version):
        position = skip_tagged_fields(view, position)
    response = decode(endpoint.response, view, version, position)[0]
    if records:
        _replace_marks(response, iter(records))
    return detach(response)


def _insert_marks(splice_frame: _Spliced, *, is_compact: bool) -> bytes:
    """Return the message, with each records field that refers to a file replaced by a one-byte placeholder."""
    parts: list[bytes | bytearray] = []
    end = 0
    for position, records in splice_frame.records:
        size = len(records) if isinstance(records, bytes) else cast("RecordsSummary | LogSlice", records).size
        length_size = ((size + 1).bit_length() + 6) // 7 if is_compact else 4
        parts += splice_frame.frame[end : position - length_size], _COMPACT_MARK if is_compact else _LONG_MARK
        end = position
    return b"".join((*parts, splice_frame.frame[end:]))


def _replace_marks(response: Any, records: Iterator[Any]) -> None:
    holders, name = _find_holders(response)
    for holder in holders:
        if bytes((getattr(holder, name) or b"")[:1]) == _MARK:
            setattr(holder, name, next(records))


def _find_holders(message: Any) -> tuple[list[Any], str]:
    """Return the structures with a records field, in the order of the message."""
    *lists, name = cast("tuple[str, ...]", _path_to_records(message.__class__))
    holders = [message]
    for list_name in lists:
        holders = [element for holder in holders for element in getattr(holder, list_name) or ()]
    return holders, name


def frame_without_secrets(exchange: Exchange, frame: bytes | bytearray, *, is_request: bool) -> bytes | bytearray:
    """Return a frame without tokens, so that it is safe to record. In SaslAuthenticate, tokens become zeros.

    Args:
        exchange: An exchange with its kind and its header set.
        frame: The frame with its length field, possibly truncated.
        is_request: False for a response.
    """
    if exchange.kind is Kind.TOKEN:
        return b""
    if exchange.api_key != ApiKey.SASL_AUTHENTICATE:
        return frame
    from minibroker_protocol.messages import sasl  # noqa: PLC0415 - most brokers need no authentication

    version = exchange.version
    cls: type[Any]
    cls, size = sasl.SaslAuthenticateResponse, _RESPONSE_HEADER_SIZE
    if is_request:
        cls, size = sasl.SaslAuthenticateRequest, _REQUEST_HEADER_SIZE
    view = memoryview(frame)
    try:
        position = _LENGTH_SIZE + read_request_header(view[_LENGTH_SIZE:]).body if is_request else size
        if version in schema_of(cls).flexible:
            position = skip_tagged_fields(view, position)
        message: Any = decode(cls, view, version, position)[0]
    except (*UNDECODABLE, ValueError):
        return frame[:size]
    message.auth_bytes = bytes(len(message.auth_bytes))
    masked = frame[:position] if isinstance(frame, bytearray) else bytearray(frame[:position])
    encode(message, version, masked, [])
    return masked


@cache
def may_keep_bytes(cls: type[Any]) -> bool:
    """Return whether the bytes of a message may be kept, because they contain neither records nor secrets."""
    return not (holds_secrets(cls) or any(field.kind is p.RECORDS for _, field in _all_fields(cls)))


def holds_secrets(cls: type[Any]) -> bool:
    """Return whether a message has fields for secrets in any version."""
    return any(field.name in SECRETS or holder.__name__ in SETTINGS for holder, field in _all_fields(cls))


def _all_fields(cls: type[Any]) -> Iterator[tuple[type[Any], Field]]:
    """Yield the fields of a message and of all structures in it, each with its class."""
    for field in fields_of(cls):
        yield cls, field
        if not isinstance(field.kind, p.WireType):
            yield from _all_fields(field.kind)
