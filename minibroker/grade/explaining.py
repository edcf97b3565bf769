"""A check that failed, as lines: sent, came, expected and why, the first byte that differs, where to look."""

import contextlib
import re
from collections.abc import Iterable
from typing import Any, Final

from minibroker.grade.check import Check
from minibroker.grade.failures import CheckFailedError
from minibroker.grade.subject import first_difference
from minibroker.grade.wire import BrokenAnswerError, Exchange
from minibroker_protocol.codec import encode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.fields.frames import request_fields, response_fields
from minibroker_protocol.fields.tree import Node
from minibroker_protocol.steps import drain

_MOST_FIELDS: Final = 40
_MOST_BYTES: Final = 256
_PER_LINE: Final = 16
_STEP: Final = re.compile(r"(\w+)|\[(\d+)\]")


def explain(check: Check, error: Exception, exchanges: list[Exchange]) -> dict[str, Any]:
    """The parts of a failure, in the order in which they are read: sent, came, expected, why, byte, look."""
    exchange = _exchange_of(error, exchanges)
    expected = error.expected if isinstance(error, CheckFailedError) else "a whole response that can be read"
    came = error.came if isinstance(error, CheckFailedError) else str(error) or type(error).__name__
    return {
        "sent": _lines(exchange, of_request=True) if exchange else ["nothing"],
        "came": [came, *(_lines(exchange, of_request=False) if exchange and exchange.received else [])],
        "expected": expected,
        "why": f"{check.teaches} ({check.source})",
        "byte": _first_byte(error, exchange),
        "look": check.look,
    }


def _exchange_of(error: Exception, exchanges: list[Exchange]) -> Exchange | None:
    response = error.response if isinstance(error, CheckFailedError) else None
    if response is not None:
        for exchange in reversed(exchanges):
            if exchange.response is response:
                return exchange
    if isinstance(error, BrokenAnswerError):  # several requests may wait; the first of them has no whole answer
        return next(
            (exchange for exchange in exchanges if exchange.response is None), exchanges[-1] if exchanges else None
        )
    return exchanges[-1] if exchanges else None


def _lines(exchange: Exchange, *, of_request: bool) -> list[str]:
    """The fields of a frame, and its bytes."""
    frame = exchange.sent if of_request else exchange.received
    try:
        tree = _tree(exchange, of_request=of_request)
    except (ProtocolError, IndexError, ValueError):
        fields: list[str] = []
    else:
        found = list(_fields(tree, ""))
        fields = [tree.name, *found[:_MOST_FIELDS]]
        if len(found) > _MOST_FIELDS:
            fields.append(f"... {len(found) - _MOST_FIELDS} more fields")
    return [*fields, *_hex(frame)]


def _tree(exchange: Exchange, *, of_request: bool) -> Node:
    if of_request:
        return drain(request_fields(exchange.sent))
    return drain(response_fields(exchange.key, exchange.version, exchange.received))


def _fields(node: Node, path: str) -> Iterable[str]:
    for child in node.children or ():
        if child.name.startswith("("):
            continue
        place = f"{path}{child.name}" if child.name.startswith("[") else f"{path}.{child.name}".lstrip(".")
        named = [each for each in child.children or () if not each.name.startswith("(")]
        if named:
            yield from _fields(child, place)
        elif child.name != "tagged_fields":
            value: Any = child.value
            if isinstance(value, memoryview):
                value = value[:40].tobytes()
            note = f" {child.note}" if child.name.endswith("error_code") and child.note else ""
            yield f"  {place} = {value!r}{note}"


def _hex(frame: bytes) -> list[str]:
    shown = frame[:_MOST_BYTES]
    lines = [f"  {at:6}  {shown[at : at + _PER_LINE].hex(' ')}" for at in range(0, len(shown), _PER_LINE)]
    if len(frame) > _MOST_BYTES:
        lines.append(f"  ... {len(frame) - _MOST_BYTES} more bytes")
    return lines


def _first_byte(error: Exception, exchange: Exchange | None) -> str:
    """A sentence on the first byte that is not as it should be."""
    if exchange is None or not exchange.received:
        return "none: no byte of a response came"
    if not isinstance(error, CheckFailedError) or error.response is not exchange.response or not error.path:
        return "no single byte: see what was expected"
    found = _node(exchange, error.path)
    expected = _as_expected(exchange, error) if error.value is not None else None
    at = first_difference(expected, exchange.received) if expected is not None else None
    if expected is not None and at is not None and at < 4:  # noqa: PLR2004 - the length differs since the field does
        rest = first_difference(expected[4:], exchange.received[4:])
        at = None if rest is None else rest + 4
    if expected is None or at is None:
        return f"byte {found.start}, where {error.path} begins" if found else f"in {error.path}"
    ours = f"{expected[at]:02x}" if at < len(expected) else "nothing"
    theirs = f"{exchange.received[at]:02x}" if at < len(exchange.received) else "nothing"
    return f"byte {at}, in {error.path}: {theirs} instead of {ours}"


def _node(exchange: Exchange, path: str) -> Node | None:
    try:
        node = _tree(exchange, of_request=False).find("body")
        for name, index in _STEP.findall(path):
            node = node.find(name or f"[{index}]")
    except (KeyError, ProtocolError, IndexError, ValueError):
        return None
    return node


def _as_expected(exchange: Exchange, error: CheckFailedError) -> bytes | None:
    """The frame with the expected value in the field; None where the field cannot hold it."""
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
        with contextlib.suppress(AttributeError):  # some structures cannot be changed
            setattr(holder, name, came)
    return bytes(out)


def _holder(response: Any, path: str) -> tuple[Any, str]:
    steps = _STEP.findall(path)
    value = response
    for name, index in steps[:-1]:
        value = getattr(value, name) if name else value[int(index)]
    return value, steps[-1][0]


def _body_start(exchange: Exchange) -> int:
    body = _tree(exchange, of_request=False).find("body")
    return body.start
