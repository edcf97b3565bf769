"""Explains a failed check: the request, the response, the expected behavior, the first wrong byte, and a hint."""

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

_MOST_FIELDS: Final = 30
_MOST_LINES: Final = 16
_MOST_VALUE: Final = 40
_PER_LINE: Final = 16


class _Place(NamedTuple):
    """The first byte that differs from the expectation.

    Attributes:
        words: The end of a sentence that describes the byte.
        at: The position in the response or in a file. None if there is no single position.
        field: The path of the field, such as "body.error_code". Empty if the byte is in no field.
    """

    words: str
    at: int | None = None
    field: str = ""


_NOWHERE: Final = _Place("no single byte: see what was expected")


def explain(check: Check, error: Exception, exchanges: list[Exchange]) -> dict[str, Any]:
    """Return the parts of a failure in reading order: sent, came, expected, why, byte, look."""
    exchange = _exchange_of(error, exchanges)
    came = error.came if isinstance(error, CheckFailedError) else str(error) or type(error).__name__
    place = _place(error, exchange)
    return {
        "sent": _lines(exchange, of_request=True) if exchange else ["nothing"],
        "came": [came, *_what_came(error, exchange, place)],
        "expected": getattr(error, "expected", "a whole response that can be read"),
        "why": f"{check.teaches} ({check.source})",
        "byte": place.words,
        "look": check.look,
    }


def _exchange_of(error: Exception, exchanges: list[Exchange]) -> Exchange | None:
    response = error.response if isinstance(error, CheckFailedError) else None
    if response is not None:
        for exchange in reversed(exchanges):
            if exchange.response is response:
                return exchange
    if isinstance(error, BrokenAnswerError):  # Of several pending requests, the first has no whole response.
        return next(
            (exchange for exchange in exchanges if exchange.response is None), exchanges[-1] if exchanges else None
        )
    return exchanges[-1] if exchanges else None


def _what_came(error: Exception, exchange: Exchange | None, place: _Place) -> list[str]:
    """Return the lines that show the wrong file or the response."""
    if isinstance(error, CheckFailedError) and error.file:
        try:
            with open(error.file, "rb") as file:
                return [os.path.basename(error.file), *_hex(file.read(), place.at)]
        except OSError:
            return []
    return _lines(exchange, of_request=False, place=place) if exchange and exchange.received else []


def _lines(exchange: Exchange, *, of_request: bool, place: _Place = _NOWHERE) -> list[str]:
    """Return the lines that show the fields and the bytes of a frame."""
    frame = exchange.sent if of_request else exchange.received
    if of_request and int.from_bytes(frame[:4], "big") != len(frame) - 4:
        return ["bytes that are no frame", *_hex(frame)]
    try:
        tree = _tree(exchange, of_request=of_request)
    except (ProtocolError, IndexError, ValueError):
        fields: list[str] = []
    else:
        found = [(path, f"{path.removeprefix('body').lstrip('.')} = {text}") for path, text in _fields(tree, "")]
        wrong = next((at for at, (path, _) in enumerate(found) if _is_part(place.field, path)), None)
        shown = [f"{'>' if at == wrong else ' '} {line}" for at, (_, line) in enumerate(found)]
        fields = [tree.name, *_window(shown, wrong, _MOST_FIELDS, "fields")]
    return [*fields, *_hex(frame, None if of_request else place.at)]


def _tree(exchange: Exchange, *, of_request: bool) -> Node:
    if of_request:
        return request_fields(exchange.sent)
    return response_fields(exchange.key, exchange.version, exchange.received)


def _fields(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each field, with small array elements as a single field."""
    for child in node.children or ():
        place = f"{path}{child.name}" if child.name.startswith("[") else f"{path}.{child.name}".lstrip(".")
        if child.type in {ERROR, UNKNOWN}:
            yield f"{path}.{child.name}", f"from byte {child.start} on, not read: {child.value}"
        if child.name.startswith("("):
            continue
        named = [each for each in child.children or () if not each.name.startswith("(")]
        if child.name.startswith("[") and named and not any(map(_is_wide, named)):
            yield place, ", ".join(f"{each.name} {_text(each)}" for each in named if each.name != "tagged_fields")
        elif named:
            yield from _fields(child, place)
        elif child.name != "tagged_fields" and place != "body":
            yield place, _text(child)


def _is_part(one: str, other: str) -> bool:
    """Return whether either field path is a prefix of the other."""
    return bool(one) and (one.startswith(other) or other.startswith(one))


def _is_wide(node: Node) -> bool:
    """Return whether a field is more than a number, a string or an empty array."""
    if node.type.endswith(ARRAY):
        return bool(node.value)
    return node.type in {ERROR, UNKNOWN} or any(not each.name.startswith("(") for each in node.children or ())


def _text(node: Node) -> str:
    value: Any = node.value
    if node.type.endswith(ARRAY):
        return "null" if value is None else "[]" if value == 0 else f"{value} elements"
    if isinstance(value, memoryview | bytes):
        data, size = bytes(cast("memoryview", value)[:_MOST_VALUE]), node.end - node.start
        text = repr(data) if data.isascii() and data.decode().isprintable() else data.hex(" ")
        return text if size <= _MOST_VALUE else f"{text} ... in {size} bytes"
    text = json.dumps(value, default=str, ensure_ascii=False)
    if node.name == "api_key" and value in set(ApiKey):
        return f"{text} {ApiKey(value).message}"
    return f"{text} {node.note}" if node.note and node.name.endswith(("error_code", "api_key")) else text


def _window(lines: list[str], at: int | None, most: int, kind: str) -> list[str]:
    """Return at most `most` lines: the first ones, and those around the line `at`."""
    if len(lines) <= most:
        return lines
    if at is None or at < most - 2:
        return [*lines[:most], f"  ... and {kind}: {len(lines) - most} more"]
    begin = at - most // 4
    end = at + most // 4
    rest = [f"  ... and {kind}: {len(lines) - end} more"] if len(lines) > end else []
    return [*lines[: most // 2], f"  ... {kind}: {begin - most // 2} more", *lines[begin:end], *rest]


def _hex(data: bytes, at: int | None = None) -> list[str]:
    """Return a hex dump with 16 bytes per line. The line with the position `at` is marked."""
    wrong = None if at is None else at // _PER_LINE
    lines = [
        f"{'>' if number == wrong else ' '} {start:6}  {data[start : start + _PER_LINE].hex(' ')}"
        for number, start in enumerate(range(0, len(data), _PER_LINE))
    ]
    return _window(lines, wrong, _MOST_LINES, f"lines of {_PER_LINE} bytes")


def _place(error: Exception, exchange: Exchange | None) -> _Place:
    """Return the first wrong byte."""
    if isinstance(error, CheckFailedError) and error.file:
        note = f", {error.path}" if error.path else ""
        return _Place(f"byte {error.at} of {os.path.basename(error.file)}{note}", error.at)
    if exchange is None or not exchange.received:
        return _Place("none: no byte of a response came")
    if isinstance(error, BrokenAnswerError):
        return _broken_place(error, exchange)
    if not isinstance(error, CheckFailedError) or error.response is not exchange.response or not error.path:
        return _NOWHERE
    return _field_place(error, exchange)


def _field_place(error: CheckFailedError, exchange: Exchange) -> _Place:
    found = _node(exchange, error.path)
    expected = _as_expected(exchange, error) if error.value is not None else None
    at = first_difference(expected, exchange.received) if expected is not None else None
    if expected is not None and at is not None and at < 4:  # noqa: PLR2004 - the length differs since the field does
        rest = first_difference(expected[4:], exchange.received[4:])
        at = None if rest is None else rest + 4
    field = f"body.{error.path}"
    if expected is None or at is None:
        if found is None:
            return _Place(f"in {error.path}", None, field)
        return _Place(f"byte {found.start}, where {error.path} begins", found.start, field)
    ours = f"{expected[at]:02x}" if at < len(expected) else "nothing"
    theirs = f"{exchange.received[at]:02x}" if at < len(exchange.received) else "nothing"
    return _Place(f"byte {at}, in {error.path}: {theirs} instead of {ours}", at, field)


def _broken_place(error: BrokenAnswerError, exchange: Exchange) -> _Place:
    if error.byte is not None:
        return _Place(f"byte {error.byte}{error.where}", error.byte, error.field)
    with contextlib.suppress(ProtocolError, IndexError, ValueError):
        for leaf in _tree(exchange, of_request=False).leaves():
            if leaf.type == ERROR:
                return _Place(
                    f"byte {leaf.start}: what stands there cannot be read, or it stands too early", leaf.start
                )
    return _NOWHERE


def _node(exchange: Exchange, path: str) -> Node | None:
    try:
        node = _tree(exchange, of_request=False).find("body")
        for name, index in STEP.findall(path):
            node = node.find(name or f"[{index}]")
    except (KeyError, ProtocolError, IndexError, ValueError):
        return None
    return node


def _as_expected(exchange: Exchange, error: CheckFailedError) -> bytes | None:
    """Return the response frame with the expected value in the wrong field, or None if the field cannot hold it."""
    holder, name = _holder(exchange.response, error.path)
    if not name:
        return None
    out = bytearray(exchange.received[: _body_start(exchange)])
    came = getattr(holder, name)
    try:
        setattr(holder, name, error.value)
        encode(exchange.response, exchange.version, out, [])
    except (ProtocolError, AttributeError, TypeError):
        return None
    finally:
        with contextlib.suppress(AttributeError):  # Some structures are immutable.
            setattr(holder, name, came)
    return bytes(out)


def _holder(response: Any, path: str) -> tuple[Any, str]:
    steps = STEP.findall(path)
    value = response
    for name, index in steps[:-1]:
        value = getattr(value, name) if name else value[int(index)]
    return value, steps[-1][0]


def _body_start(exchange: Exchange) -> int:
    body = _tree(exchange, of_request=False).find("body")
    return body.start
