"""Converts values for JSON: field names as in Kafka's definitions, bytes, and large numbers."""

import base64
import contextlib
from functools import cache
from typing import Final

_LARGEST: Final = 2**53


def bytes_json(data: bytes) -> str | dict[str, str]:
    """Return bytes as text if they are printable, or else as Base64."""
    with contextlib.suppress(UnicodeDecodeError):
        if (text := data.decode()).isprintable():
            return text
    return {"base64": base64.b64encode(data).decode()}


@cache
def camel_case(name: str) -> str:
    """Return a field name as in Kafka's definitions, such as `throttleTimeMs` for `throttle_time_ms`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def number_json(value: int) -> int | str:
    """Return a number unchanged, or as a string if it is beyond 2**53, where JavaScript loses precision."""
    return value if -_LARGEST <= value <= _LARGEST else str(value)
