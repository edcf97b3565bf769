"""Converts a request or response to another version of its API, keeping the fields that exist in that version.

The converted bytes contain the same secrets as the original, so mask the secrets before you display them. Records are
copied, even if an old version does not support their message format.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol import primitives as p
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import DecodeError, EncodeError, ProtocolError
from minibroker_protocol.fields.frames import declared_messages
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.messages import Messages
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import Field, fields_of, schema_of

MAX_ELEMENTS: Final = 5_000
"""Maximum number of array elements in a message that is converted."""
_LENGTH: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">hhi")
_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_RESPONSE_BODY: Final = 8


class Translation(NamedTuple):
    """A message in another version.

    Attributes:
        frame: the bytes including their length, as input for `frames`. None if the version cannot represent the
            message.
        lost: the fields that have a value but do not exist in this version, such as
            "topics.partitions.currentLeaderEpoch".
        reason: a sentence that explains why there is no frame.
    """

    version: int
    frame: bytes | None
    lost: Sequence[str] = ()
    reason: str = ""


def request_versions(api_key: int) -> range:
    """Return the declared request versions of an API, or an empty range for an unknown API."""
    messages = declared_messages(api_key)
    if messages is None:
        return range(0)
    first, last = schema_of(messages.request).versions
    return range(first, last + 1)


def request_in_version(frame: bytes | bytearray | memoryview, version: int) -> Translation:
    """Convert a request to another version. The frame includes its length.

    If the bytes are corrupt, the result has a reason instead of a frame.
    """
    view = memoryview(frame)[_LENGTH.size :]
    try:
        header = read_request_header(view)
        messages = _find_messages(header.api_key, version)
        cls = messages.request
        position = header.body
        if header.api_version in schema_of(cls).flexible:
            position = skip_tagged_fields(view, position)
        message = _decode_message(cls, view, header.api_version, position)
        out = bytearray(_REQUEST_START.pack(header.api_key, version, header.correlation_id))
        if (header.api_key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
            client_id = None if header.client_id is None else header.client_id.encode()
            out += _CLIENT_ID_LENGTH.pack(-1 if client_id is None else len(client_id)) + (client_id or b"")
        if version in schema_of(cls).flexible:
            out.append(0)
        return _encode_translation(message, version, out)
    except ProtocolError as error:
        return Translation(version, None, (), str(error))


def response_in_version(
    api_key: int, own_version: int, frame: bytes | bytearray | memoryview, version: int
) -> Translation:
    """Convert a response to `version` from `own_version`, the version of its request."""
    view = memoryview(frame)
    try:
        messages = _find_messages(api_key, version)
        cls, position = messages.response, _RESPONSE_BODY
        has_header_tags = api_key != ApiKey.API_VERSIONS
        if has_header_tags and own_version in schema_of(cls).flexible:
            position = skip_tagged_fields(view, position)
        message = _decode_message(cls, view, own_version, position)
        out = bytearray(view[_LENGTH.size : _RESPONSE_BODY])
        if has_header_tags and version in schema_of(cls).flexible:
            out.append(0)
        return _encode_translation(message, version, out)
    except ProtocolError as error:
        return Translation(version, None, (), str(error))


def _find_messages(api_key: int, version: int) -> Messages:
    messages = declared_messages(api_key)
    if messages is None:
        raise DecodeError(f"API {api_key} is not known here")
    if version not in schema_of(messages.request).versions:
        raise DecodeError(f"{messages.api} has no version {version} here")
    return messages


def _decode_message(cls: type[Any], view: memoryview, version: int, position: int) -> Any:
    if version not in schema_of(cls).versions:
        raise DecodeError(f"{cls.__name__} v{version} is not known here")
    return decode(cls, view, version, position, MAX_ELEMENTS)[0]


def _encode_translation(message: Any, version: int, out: bytearray) -> Translation:
    flexible = version in schema_of(message.__class__).flexible
    lost = sorted(set(_lost_fields(message, version, "", flexible=flexible)))
    encode(message, version, out, [])
    return Translation(version, _LENGTH.pack(len(out)) + bytes(out), lost)


def _lost_fields(value: Any, version: int, path: str, *, flexible: bool) -> Iterator[str]:
    for field in fields_of(value.__class__):
        content = getattr(value, field.name)
        name = path + camel_case(field.name)
        if version not in field.present or (version in field.tagged_in and not flexible):
            if content != field.default() and not _is_empty(field, content):
                yield name
        elif content is None and version not in field.nullable:
            raise EncodeError(f"{name}: null, which version {version} does not know")
        elif not isinstance(field.kind, p.WireType) and content is not None:
            for structure in cast("Sequence[Any]", content) if field.is_array else (content,):
                yield from _lost_fields(structure, version, f"{name}.", flexible=flexible)


def _is_empty(field: Field, content: Any) -> bool:
    """Return whether a value is null or an empty array. Dropping such a value loses no information."""
    return content is None or (field.is_array and not content)
