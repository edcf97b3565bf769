"""Keys and values as text: the deserializers of Kafka's clients."""

import struct
import uuid
from collections.abc import Callable
from string import ascii_letters, digits, punctuation
from typing import Final

from minibroker_tools.failures import ToolError

Deserialize = Callable[[bytes], str]
_PRINTED: Final = (ascii_letters + digits + punctuation + " ").replace("\\", "").encode()
_PACKAGE: Final = "org.apache.kafka.common.serialization."


def _number(form: str, size: int) -> Deserialize:
    def read(data: bytes) -> str:
        if len(data) != size:
            raise ToolError(f"Size of data received by the deserializer is not {size}")
        return str(struct.unpack(form, data)[0])

    return read


_DESERIALIZERS: Final[dict[str, Deserialize]] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace"),
    "BytesDeserializer": lambda data: "".join(chr(byte) if byte in _PRINTED else f"\\x{byte:02X}" for byte in data),
    "LongDeserializer": _number(">q", 8),
    "IntegerDeserializer": _number(">i", 4),
    "ShortDeserializer": _number(">h", 2),
    "DoubleDeserializer": _number(">d", 8),
    "FloatDeserializer": _number(">f", 4),
    "UUIDDeserializer": lambda data: str(uuid.UUID(data.decode("ascii"))),
    "BooleanDeserializer": lambda data: "true" if data == b"\x01" else "false",
}


def deserializer(name: str) -> Deserialize:
    """The deserializer of a class. ToolError for one that is not known."""
    found = _DESERIALIZERS.get(name.removeprefix(_PACKAGE))
    if found is None:
        known = ", ".join(_PACKAGE + each for each in _DESERIALIZERS)
        raise ToolError(f"The deserializer {name} is not one of {known}")
    return found
