"""Values as JSON shows them: names of Kafka's definitions, bytes, and large numbers."""

import base64
from functools import cache
from typing import Final

_LARGEST: Final = 2**53


def bytes_json(data: bytes) -> str | dict[str, str]:
    """Bytes as a text when they are one that can be read, else in base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or not text:
        return text
    return {"base64": base64.b64encode(data).decode()}


@cache
def camel_case(name: str) -> str:
    """A field's name in Kafka's definitions: `throttle_time_ms` is `throttleTimeMs` there."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def number_json(value: int) -> int | str:
    """A number; one that JavaScript lacks, beyond 2**53, as a text."""
    return value if -_LARGEST <= value <= _LARGEST else str(value)
