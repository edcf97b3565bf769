"""Explains a failed check.

The explanation shows the request, the response, the expected behavior and its reason, the first wrong byte, and where
to look next.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from minibroker_grade.check import Check, CheckFailedError
from minibroker_grade.subject import STEP, first_difference
from minibroker_grade.wire import BrokenAnswerError, Exchange
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import encode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.fields.frames import request_fields, response_fields
from minibroker_protocol.fields.tree import ARRAY, ERROR, UNKNOWN, Node

_MAX_FIELDS: Final = 30
_MAX_LINES: Final = 16
_MAX_VALUE_BYTES: Final = 40
_BYTES_PER_LINE: Final = 16


class _WrongByte(NamedTuple):
    """The first byte that differs from the expectation.

    Attributes:
        words: The end of a sentence that describes the byte.
        at: The position in the response or in a file. None if there is no single position.
        field: The path of the field, such as "body.error_code". Empty if the byte is in no field.
    """

    words: str
    at: int | None = None
    field: str = ""


_NO_SINGLE_BYTE: Final = _WrongByte("no single byte: see what was expected")


def explain(check: Check, error: Exception, exchanges: list[Exchange]) -> dict[str, Any]:
    """Return the parts of a failure in reading order: sent, came, expected, why, byte, look."""
    exchange = _find_exchange(error, exchanges)
    actual = error.actual if isinstance(error, CheckFailedError) else str(error) or type(error).__name__
    wrong_byte = _find_wrong_byte(error, exchange)
    return {
        "sent": _format_frame(exchange, of_request=True) if exchange else ["nothing"],
        "came": [actual, *_format_actual(error, exchange, wrong_byte)],
        "expected": getattr(error, "expected", "a whole response that can be read"),
        "why": f"{check.teaches} ({check.source})",
        "byte": wrong_byte.words,
        "look": check.look,
    }


def _find_exchange(error: Exception, exchanges: list[Exchange]) -> Exchange | None:
    last = exchanges[-1] if exchanges else None
    if isinstance(error, CheckFailedError) and error.response is not None:
        return next((exchange for exchange in reversed(exchanges) if exchange.response is error.response), last)
    # The broken response belongs to the first request that has no complete response yet.
    if isinstance(error, BrokenAnswerError):
        return next((exchange for exchange in exchanges if exchange.response is None), last)
    return last


def _format_actual(error: Exception, exchange: Exchange | None, wrong_byte: _WrongByte) -> list[str]:
    """Return the lines that show the wrong file or the response."""
    if isinstance(error, CheckFailedError) and error.file:
        try:
            with open(error.file, "rb") as file:
                return [os.path.basename(error.file), *_format_hex(file.read(), wrong_byte.at)]
        except OSError:
            return []
    return _format_frame(exchange, of_request=False, wrong_byte=wrong_byte) if exchange and exchange.received else []


def _format_frame(exchange: Exchange, *, of_request: bool, wrong_byte: _WrongByte = _NO_SINGLE_BYTE) -> list[str]:
    """Return the lines that show the fields and the bytes of a frame."""
    frame = exchange.sent if of_request else exchange.received
    if of_request and int.from_bytes(frame[:4], "big") != len(frame) - 4:
        return ["bytes that are no frame", *_format_hex(frame)]
    try:
        tree = _parse_fields(exchange, of_request=of_request)
    except (ProtocolError, IndexError, ValueError):
        fields: list[str] = []
    else:
        values = [(path, f"{path.removeprefix('body').lstrip('.')} = {text}") for path, text in _iter_fields(tree, "")]
        wrong = next((index for index, (path, _) in enumerate(values) if _is_part(wrong_byte.field, path)), None)
        marked = [f"{'>' if index == wrong else ' '} {line}" for index, (_, line) in enumerate(values)]
        fields = [tree.name, *_limit_lines(marked, wrong, _MAX_FIELDS, "fields")]
    return [*fields, *_format_hex(frame, None if of_request else wrong_byte.at)]


def _parse_fields(exchange: Exchange, *, of_request: bool) -> Node:
    if of_request:
        return request_fields(exchange.sent)
    return response_fields(exchange.key, exchange.version, exchange.received)


def _iter_fields(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each field, with small array elements as a single field."""
    for child in node.children or ():
        child_path = f"{path}{child.name}" if child.name.startswith("[") else f"{path}.{child.name}".lstrip(".")
        if child.type in {ERROR, UNKNOWN}:
            yield f"{path}.{child.name}", f"from byte {child.start} on, not read: {child.value}"
        if child.name.startswith("("):
            continue
        named_children = [field for field in child.children or () if not field.name.startswith("(")]
        if child.name.startswith("[") and named_children and not any(map(_is_wide, named_children)):
            fields = (field for field in named_children if field.name != "tagged_fields")
            yield child_path, ", ".join(f"{field.name} {_format_value(field)}" for field in fields)
        elif named_children:
            yield from _iter_fields(child, child_path)
        elif child.name != "tagged_fields" and child_path != "body":
            yield child_path, _format_value(child)


def _is_part(first_path: str, second_path: str) -> bool:
    """Return whether either field path is a prefix of the other."""
    return bool(first_path) and (first_path.startswith(second_path) or second_path.startswith(first_path))


def _is_wide(node: Node) -> bool:
    """Return whether a field is more than a number, a string or an empty array."""
    if node.type.endswith(ARRAY):
        return bool(node.value)
    return node.type in {ERROR, UNKNOWN} or any(not child.name.startswith("(") for child in node.children or ())


def _format_value(node: Node) -> str:
    value: Any = node.value
    if node.type.endswith(ARRAY):
        return "null" if value is None else "[]" if value == 0 else f"{value} elements"
    if isinstance(value, memoryview | bytes):
        data, size = bytes(cast("memoryview", value)[:_MAX_VALUE_BYTES]), node.end - node.start
        text = repr(data) if data.isascii() and data.decode().isprintable() else data.hex(" ")
        return text if size <= _MAX_VALUE_BYTES else f"{text} ... in {size} bytes"
    text = json.dumps(value, default=str, ensure_ascii=False)
    if node.name == "api_key" and value in set(ApiKey):
        return f"{text} {ApiKey(value).message}"
    return f"{text} {node.note}" if node.note and node.name.endswith(("error_code", "api_key")) else text


def _limit_lines(lines: list[str], at: int | None, limit: int, kind: str) -> list[str]:
    """Return at most `limit` lines: the first ones, and those around the line `at`."""
    if len(lines) <= limit:
        return lines
    if at is None or at < limit - 2:
        return [*lines[:limit], f"  ... and {kind}: {len(lines) - limit} more"]
    window_start = at - limit // 4
    end = at + limit // 4
    trailer = [f"  ... and {kind}: {len(lines) - end} more"] if len(lines) > end else []
    return [*lines[: limit // 2], f"  ... {kind}: {window_start - limit // 2} more", *lines[window_start:end], *trailer]


def _format_hex(data: bytes, at: int | None = None) -> list[str]:
    """Return a hex dump with 16 bytes per line. The line with the position `at` is marked."""
    marked_line = None if at is None else at // _BYTES_PER_LINE
    lines = [
        f"{'>' if number == marked_line else ' '} {start:6}  {data[start : start + _BYTES_PER_LINE].hex(' ')}"
        for number, start in enumerate(range(0, len(data), _BYTES_PER_LINE))
    ]
    return _limit_lines(lines, marked_line, _MAX_LINES, f"lines of {_BYTES_PER_LINE} bytes")


def _find_wrong_byte(error: Exception, exchange: Exchange | None) -> _WrongByte:
    """Return the first wrong byte."""
    if isinstance(error, CheckFailedError) and error.file:
        note = f", {error.path}" if error.path else ""
        return _WrongByte(f"byte {error.at} of {os.path.basename(error.file)}{note}", error.at)
    if exchange is None or not exchange.received:
        return _WrongByte("none: no byte of a response came")
    if isinstance(error, BrokenAnswerError):
        return _find_broken_byte(error, exchange)
    if not isinstance(error, CheckFailedError) or error.response is not exchange.response or not error.path:
        return _NO_SINGLE_BYTE
    return _find_wrong_field_byte(error, exchange)


def _find_wrong_field_byte(error: CheckFailedError, exchange: Exchange) -> _WrongByte:
    node = _find_node(exchange, error.path)
    expected = _encode_expected_frame(exchange, error) if error.value is not None else None
    position = first_difference(expected, exchange.received) if expected is not None else None
    if expected is not None and position is not None and position < 4:  # noqa: PLR2004 - the length field itself
        position_after_length = first_difference(expected[4:], exchange.received[4:])
        position = None if position_after_length is None else position_after_length + 4
    field = f"body.{error.path}"
    if expected is None or position is None:
        if node is None:
            return _WrongByte(f"in {error.path}", None, field)
        return _WrongByte(f"byte {node.start}, where {error.path} begins", node.start, field)
    expected_hex = f"{expected[position]:02x}" if position < len(expected) else "nothing"
    actual_hex = f"{exchange.received[position]:02x}" if position < len(exchange.received) else "nothing"
    return _WrongByte(f"byte {position}, in {error.path}: {actual_hex} instead of {expected_hex}", position, field)


def _find_broken_byte(error: BrokenAnswerError, exchange: Exchange) -> _WrongByte:
    if error.byte is not None:
        return _WrongByte(f"byte {error.byte}{error.where}", error.byte, error.field)
    with contextlib.suppress(ProtocolError, IndexError, ValueError):
        for leaf in _parse_fields(exchange, of_request=False).leaves():
            if leaf.type == ERROR:
                return _WrongByte(
                    f"byte {leaf.start}: what stands there cannot be read, or it stands too early", leaf.start
                )
    return _NO_SINGLE_BYTE


def _find_node(exchange: Exchange, path: str) -> Node | None:
    try:
        node = _parse_fields(exchange, of_request=False).find("body")
        for name, index in STEP.findall(path):
            node = node.find(name or f"[{index}]")
    except (KeyError, ProtocolError, IndexError, ValueError):
        return None
    return node


def _encode_expected_frame(exchange: Exchange, error: CheckFailedError) -> bytes | None:
    """Return the response frame with the expected value in the wrong field, or None if the field cannot hold it."""
    *steps, (name, _) = STEP.findall(error.path)
    if not name:
        return None
    holder = exchange.response
    for field, index in steps:
        holder = getattr(holder, field) if field else holder[int(index)]
    out = bytearray(exchange.received[: _parse_fields(exchange, of_request=False).find("body").start])
    actual = getattr(holder, name)
    try:
        setattr(holder, name, error.value)
        encode(exchange.response, exchange.version, out, [])
    except (ProtocolError, AttributeError, TypeError):
        return None
    finally:
        # An immutable structure was not changed, so nothing needs to be restored.
        with contextlib.suppress(AttributeError):
            setattr(holder, name, actual)
    return bytes(out)
