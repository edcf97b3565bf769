"""The trees of requests and responses, built along the declarations of the messages.

`request_fields` and `response_fields` take a frame with its length, as it was sent.
"""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields import tree
from minibroker_protocol.fields.structures import MessageWalker, declaration_path, tagged_fields
from minibroker_protocol.fields.tree import Budget, Cursor, Limits, Node
from minibroker_protocol.messages import Messages, messages_of
from minibroker_protocol.schema import schema_of

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
