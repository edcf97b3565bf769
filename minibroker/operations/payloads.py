"""Bytes of records as JSON can say them.

A text stands for its UTF-8, null for null, `{"base64": ...}` for any bytes, and everything else for itself as JSON;
`{"json": ...}` says so where it would be taken for something else. Read as "text", bytes are a text if they are UTF-8
and base64 if not; as "json" they are what they say, or as before if they are no JSON.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from minibroker.errors import OperationError
from minibroker.operations.producing import Payload
from minibroker.support.documents import parse_json

Form = Literal["text", "base64", "json"]
_BASE64: Final = "base64"
_JSON: Final = "json"


def payload_of(value: Any, subject: str) -> Payload:
    """The payload that a JSON value stands for. `OperationError` for a wrong base64."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        return cast("Payload", value)
    members = cast("dict[str, Any]", value)
    if members.keys() == {_BASE64}:
        return _decoded(members[_BASE64], subject)
    if members.keys() == {_JSON}:
        item = members[_JSON]
        return json.dumps(item, ensure_ascii=False).encode() if item is None or isinstance(item, str) else item
    return members


def headers_of(given: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> list[tuple[str, Payload]]:
    """The headers of a record to be written."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(name, payload_of(value, f"header {name!r}")) for name, value in pairs]


def shown(data: bytes | None, form: Form) -> Any:
    """Bytes of a record as JSON."""
    if data is None:
        return None
    if form == "json":
        try:
            content = parse_json(data, "")
            # Python reads JSON that others refuse.
            json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            pass
        else:
            return content
    if form != "base64":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {_BASE64: base64.b64encode(data).decode()}


def _decoded(text: Any, subject: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise OperationError(f"{subject}: {text!r} is not valid base64: {error}") from None
