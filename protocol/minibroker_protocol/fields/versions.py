"""The same request or response in another version of its API, as far as that version has the fields.

The bytes hold the same secrets: mask them before you show them, as in the message itself. Records stay as they are,
also where an old version knows no such message format.
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

MOST_ELEMENTS: Final = 5_000
"""A message with more elements in its arrays has no other version here."""
_LENGTH: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">hhi")
_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_RESPONSE_BODY: Final = 8


class Translation(NamedTuple):
    """A message in another version.

    Attributes:
        frame: its bytes with their length, for `frames`; None where the version has no way to say it.
        lost: the fields with a value that this version lacks, as "topics.partitions.currentLeaderEpoch".
        reason: a sentence on why there are no bytes.
    """

    version: int
    frame: bytes | None
    lost: Sequence[str] = ()
    reason: str = ""


def request_versions(api_key: int) -> range:
    """The versions of an API's requests that are declared; none for an API that is not known."""
    declared = declared_messages(api_key)
    return range(0) if declared is None else _range(declared.request)


def _range(cls: type[Any]) -> range:
    first, last = schema_of(cls).versions
    return range(first, last + 1)


def request_in_version(frame: bytes | bytearray | memoryview, version: int) -> Translation:
    """A request, from its frame with its length, in another version. Damaged bytes are a reason."""
    view = memoryview(frame)[_LENGTH.size :]
    try:
        header = read_request_header(view)
        declared = _declared(header.api_key, version)
        cls = declared.request
        position = header.body
        if header.api_version in schema_of(cls).versions and header.api_version in schema_of(cls).flexible:
            position = skip_tagged_fields(view, position)
        message = _decoded(cls, view, header.api_version, position)
        out = bytearray(_REQUEST_START.pack(header.api_key, version, header.correlation_id))
        if (header.api_key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
            client_id = None if header.client_id is None else header.client_id.encode()
            out += _CLIENT_ID_LENGTH.pack(-1 if client_id is None else len(client_id)) + (client_id or b"")
        if version in schema_of(cls).flexible:
            out.append(0)
        return _encoded(message, version, out)
    except ProtocolError as error:
        return Translation(version, None, (), str(error))


def response_in_version(
    api_key: int, own_version: int, frame: bytes | bytearray | memoryview, version: int
) -> Translation:
    """A response to a request of `own_version` in another version."""
    view = memoryview(frame)
    try:
        declared = _declared(api_key, version)
        cls, position = declared.response, _RESPONSE_BODY
        has_header_tags = api_key != ApiKey.API_VERSIONS
        if has_header_tags and own_version in schema_of(cls).versions and own_version in schema_of(cls).flexible:
            position = skip_tagged_fields(view, position)
        message = _decoded(cls, view, own_version, position)
        out = bytearray(view[_LENGTH.size : _RESPONSE_BODY])
        if has_header_tags and version in schema_of(cls).flexible:
            out.append(0)
        return _encoded(message, version, out)
    except ProtocolError as error:
        return Translation(version, None, (), str(error))


def _declared(api_key: int, version: int) -> Messages:
    declared = declared_messages(api_key)
    if declared is None:
        raise DecodeError(f"API {api_key} is not known here")
    if version not in schema_of(declared.request).versions:
        raise DecodeError(f"{declared.api} has no version {version} here")
    return declared


def _decoded(cls: type[Any], view: memoryview, version: int, position: int) -> Any:
    if version not in schema_of(cls).versions:
        raise DecodeError(f"{cls.__name__} v{version} is not known here")
    return decode(cls, view, version, position, MOST_ELEMENTS)[0]


def _encoded(message: Any, version: int, out: bytearray) -> Translation:
    cls = _class(message)
    flexible = version in schema_of(cls).flexible
    lost = sorted(set(_lost(message, version, "", flexible=flexible)))
    encode(message, version, out, [])
    return Translation(version, _LENGTH.pack(len(out)) + bytes(out), lost)


def _class(message: object) -> type[Any]:
    return type(message)


def _lost(value: Any, version: int, path: str, *, flexible: bool) -> Iterator[str]:
    cls = _class(value)
    for field in fields_of(cls):
        content = getattr(value, field.name)
        name = path + camel_case(field.name)
        if version not in field.present or (version in field.tagged_in and not flexible):
            if content != field.default() and not _is_empty(field, content):
                yield name
        elif content is None and version not in field.nullable:
            raise EncodeError(f"{name}: null, which version {version} does not know")
        elif not isinstance(field.kind, p.WireType) and content is not None:
            for each in cast("Sequence[Any]", content) if field.is_array else (content,):
                yield from _lost(each, version, f"{name}.", flexible=flexible)


def _is_empty(field: Field, content: Any) -> bool:
    """Whether null and an empty array differ in a field that says nothing either way."""
    return content is None or (field.is_array and not content)
