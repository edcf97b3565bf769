"""Values as JSON shows them: names of Kafka's definitions, bytes, and plain values of our own."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Final, cast

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


def dataclass_json(value: Any) -> Any:
    """A value of dataclasses, tuples, mappings and plain values as `json.dumps` takes it.

    Names of fields are in camel case, and so are the keys of mappings, which must not be names that users give.
    """
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return number_json(value)
    if is_dataclass(value):
        return {camel_case(name): dataclass_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        return {camel_case(name): dataclass_json(each) for name, each in mapping.items()}
    if isinstance(value, bytes):
        return bytes_json(value)
    return [dataclass_json(each) for each in cast("Sequence[Any]", value)]
