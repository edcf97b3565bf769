"""The trees of requests and responses, built along the declarations of the messages, and differences between versions.

`request_fields` and `response_fields` take a frame with its length, as it was sent.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol import primitives as p
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError, ProtocolError
from minibroker_protocol.fields import tree
from minibroker_protocol.fields.structures import MessageWalker, declaration_path, tagged_fields
from minibroker_protocol.fields.tree import Budget, Cursor, Limits, Node
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.json_values import camel_case
from minibroker_protocol.messages import Messages, messages_of
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import Field, fields_of, schema_of

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def declared_messages(api_key: int) -> Messages | None:
    """Return the message classes of an API key, or None if Kafka has no such API or we do not declare its messages."""
    try:
        return messages_of(ApiKey(api_key))
    except (ValueError, KeyError):
        return None


def request_fields(frame: bytes | bytearray | memoryview, limits: Limits = tree.DEFAULT_LIMITS) -> Node:
    """Return the tree of a request: the frame length, the header (version 0, 1 or 2) and the body."""
    view = memoryview(frame)
    root = Node("request", tree.STRUCT, 0, len(view))
    cursor = Cursor(view, 0, len(view), Budget(limits.fields))
    try:
        _add_length(cursor, root)
        with cursor.open_node(root, "header", tree.STRUCT, "RequestHeader") as header:
            key, version, messages = _add_request_header(cursor, header)
        root.name = f"{_api_name(key)} v{version} request"
        _add_body(cursor, root, key, messages and messages.request, version, limits)
    except DecodeError as error:
        root.add(cursor.error_leaf(error))
    return root


def response_fields(
    api_key: int, version: int, frame: bytes | bytearray | memoryview, limits: Limits = tree.DEFAULT_LIMITS
) -> Node:
    """Return the tree of the response to a request of this API and version.

    The response to an ApiVersions request with an unsupported version is in version 0 (KIP-511).
    """
    view = memoryview(frame)
    root = Node(f"{_api_name(api_key)} v{version} response", tree.STRUCT, 0, len(view))
    cursor = Cursor(view, 0, len(view), Budget(limits.fields))
    try:
        _add_length(cursor, root)
        with cursor.open_node(root, "header", tree.STRUCT, "ResponseHeader") as header:
            header.add(cursor.number("correlation_id", tree.INT32, "ResponseHeader.correlation_id"))
        messages = declared_messages(api_key)
        if api_key == ApiKey.API_VERSIONS and bytes(view[cursor.at : cursor.at + 2]) == _UNSUPPORTED_VERSION:
            version = 0
            root.name = f"{_api_name(api_key)} v0 response"
        if messages and api_key != ApiKey.API_VERSIONS and version in schema_of(messages.response).flexible:
            _add_header_tags(cursor, header)
        _add_body(cursor, root, api_key, messages and messages.response, version, limits)
    except DecodeError as error:
        root.add(cursor.error_leaf(error))
    return root


def _api_name(api_key: int) -> str:
    try:
        return ApiKey(api_key).message
    except ValueError:
        return f"API {api_key}"


def _add_length(cursor: Cursor, root: Node) -> None:
    length = root.add(cursor.number(tree.LENGTH, tree.INT32, "Frame.length", "bytes that follow"))
    if length.value != cursor.left:
        length.fault = f"{length.value} bytes are to follow, and {cursor.left} are here"


def _add_request_header(cursor: Cursor, header: Node) -> tuple[int, int, Messages | None]:
    """Add the fields of a request header. Return the API key, the version, and the message classes of the API."""
    key = header.add(cursor.number("request_api_key", tree.INT16, "RequestHeader.request_api_key", _api_name))
    version = header.add(cursor.number("request_api_version", tree.INT16, "RequestHeader.request_api_version"))
    header.add(cursor.number("correlation_id", tree.INT32, "RequestHeader.correlation_id"))
    messages = declared_messages(key.value)
    if key.value == ApiKey.CONTROLLED_SHUTDOWN and version.value == 0:
        return key.value, version.value, messages
    with cursor.open_node(header, "client_id", "STRING", "RequestHeader.client_id") as client_id:
        length = client_id.add(cursor.number(tree.LENGTH, tree.INT16))
        if length.value < -1:
            raise DecodeError(f"client_id: length {length.value}")
        if length.value > 0:
            client_id.add(cursor.leaf(tree.CONTENT, tree.TEXT, length.value, None, "RequestHeader.client_id"))
    try:
        client_id.value = None if length.value < 0 else str(cursor.data[length.end : cursor.at], "utf-8")
    except UnicodeDecodeError as error:
        client_id.fault = f"client_id: text that is not UTF-8: {error.reason}"
    if messages is not None and version.value in schema_of(messages.request).flexible:
        _add_header_tags(cursor, header)
    return key.value, version.value, messages


def _add_header_tags(cursor: Cursor, header: Node) -> None:
    try:
        tagged_fields(cursor, header, {}, MessageWalker(0, flexible=True, limits=tree.DEFAULT_LIMITS))
    finally:
        header.end = cursor.at


def _add_body(cursor: Cursor, root: Node, api_key: int, cls: type[Any] | None, version: int, limits: Limits) -> None:
    if cls is None or version not in schema_of(cls).versions:
        raise DecodeError(f"{_api_name(api_key)} v{version} is not known here")
    walk = MessageWalker(version, flexible=version in schema_of(cls).flexible, limits=limits)
    with cursor.open_node(root, "body", tree.STRUCT, declaration_path(cls)) as body:
        walk.add_structure(cursor, body, cls)
    if cursor.left:
        root.add(cursor.remaining_leaf("(unknown)", tree.UNKNOWN, f"{cursor.left} bytes behind the last field"))


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
