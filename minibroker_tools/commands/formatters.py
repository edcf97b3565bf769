"""Formatters of kafka-console-consumer: Kafka's DefaultMessageFormatter and its kin."""

import struct
import uuid
from collections.abc import Callable, Mapping
from string import ascii_letters, digits, punctuation
from typing import BinaryIO, Final, TypeAlias

from minibroker_protocol.java_text import is_true, trim
from minibroker_protocol.records.header import TimestampType
from minibroker_tools.client.reader import Received
from minibroker_tools.client.settings import load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Values, key_values
from minibroker_tools.output import err, log

_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_TIMES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
Deserialize = Callable[[bytes], str]
_PRINTED: Final = (ascii_letters + digits + punctuation + " ").replace("\\", "").encode()
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."


Formatter: TypeAlias = Callable[[Received, BinaryIO], None]
"""Writes one record. ToolError when it cannot be read as the deserializers ask."""


def formatter_of(values: Values) -> Formatter:
    """The formatter of the command line with its properties. UsageError for a class that is not known."""
    properties = {**load_properties(values.text("formatter-config"))}
    for part in ("key", "value"):
        if values.text(f"{part}-deserializer"):
            properties[f"{part}.deserializer"] = values.text(f"{part}-deserializer") or ""
    properties.update(key_values(values.all("property")))
    name = values.text("formatter") or f"{_PACKAGE}DefaultMessageFormatter"
    if name.startswith("kafka.tools."):
        current = _PACKAGE + name.removeprefix("kafka.tools.")
        err(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please use {current} instead"
        )
        name = current
    match name.removeprefix(_PACKAGE):
        case "DefaultMessageFormatter":
            return DefaultFormatter(properties).write
        case "LoggingMessageFormatter":
            return LoggingFormatter(properties).write
        case "NoOpMessageFormatter":
            return lambda received, out: None  # noqa: ARG005 - it prints nothing
        case _:
            raise UsageError(name)


class DefaultFormatter:
    """Prints value, key, timestamp, partition, offset and headers, as the properties ask."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str, *, default: bool = False) -> bool:
            return is_true(trim(properties.get(name, str(default))))

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        def reads(name: str) -> Deserialize | None:
            return deserializer(properties[name]) if name in properties else None

        self._timestamp, self._partition = flag("print.timestamp"), flag("print.partition")
        self._offset, self._headers = flag("print.offset"), flag("print.headers")
        self._key, self._value = flag("print.key"), flag("print.value", default=True)
        self._between, self._end = text("key.separator", "\t"), text("line.separator", "\n")
        self._between_headers, self._null = text("headers.separator", ","), text("null.literal", "null")
        self._read_key, self._read_value = reads("key.deserializer"), reads("value.deserializer")
        self._read_header = reads("headers.deserializer")

    def write(self, received: Received, out: BinaryIO) -> None:
        """Write the parts with the key separator between them."""
        record = received.record
        parts: list[bytes] = []
        if self._timestamp:
            kind = _TIMES.get(record.timestamp_type)
            parts.append(b"NO_TIMESTAMP" if kind is None else f"{kind}:{record.timestamp}".encode())
        if self._partition:
            parts.append(b"Partition:%d" % received.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = [
                key.encode("utf-8", "surrogateescape") + b":" + self._shown(value, self._read_header)
                for key, value in record.headers
            ]
            parts.append(self._between_headers.join(pairs) or b"NO_HEADERS")
        if self._key:
            parts.append(self._shown(record.key, self._read_key))
        if self._value:
            parts.append(self._shown(record.value, self._read_value))
        if parts:
            out.write(self._between.join(parts) + self._end)

    def _shown(self, data: bytes | None, read: Deserialize | None) -> bytes:
        data = self._null if data is None else data
        return data if read is None else read(data).encode()


class LoggingFormatter(DefaultFormatter):
    """Prints as `DefaultFormatter`, and each record on standard error, too."""

    def write(self, received: Received, out: BinaryIO) -> None:
        """Write the record to both."""
        super().write(received, out)
        record = received.record
        kind = _TIMES.get(record.timestamp_type)
        stamp = "" if kind is None else f"{kind}:{record.timestamp}, "
        key = "key:null" if record.key is None else f"key:{record.key.decode('utf-8', 'replace')}"
        value = "null" if record.value is None else record.value.decode("utf-8", "replace")
        log("INFO", f"{stamp}{key}, value:{value}", "org.apache.kafka.tools.consumer.LoggingMessageFormatter")


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
    found = _DESERIALIZERS.get(name.removeprefix(_SERIALIZATION))
    if found is None:
        known = ", ".join(_SERIALIZATION + each for each in _DESERIALIZERS)
        raise ToolError(f"The deserializer {name} is not one of {known}")
    return found
