"""kafka-console-consumer: prints records on standard output (`org.apache.kafka.tools.consumer.ConsoleConsumer`)."""

import signal
import struct
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters, digits, punctuation
from typing import BinaryIO, Final, TypeAlias

from minibroker_protocol.java_text import is_true, trim
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.header import TimestampType
from minibroker_protocol.records.record import Record
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import Consumer
from minibroker_tools.client.offsets import EARLIEST, LATEST
from minibroker_tools.client.reader import Received
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import StoppedError, raise_on_signals, topic_filter
from minibroker_tools.failures import TimedOutError, ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import log, write_error_line

with lazy:
    from minibroker_tools.commands import schema_console

_LOGGER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FOREVER: Final = float("inf")
_SIGNAL_STATUS_BASE: Final = 128
_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_TIMESTAMP_NAMES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
Deserialize = Callable[[bytes], str]
_PRINTABLE_BYTES: Final = (ascii_letters + digits + punctuation + " ").replace("\\", "").encode()
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."


Formatter: TypeAlias = Callable[[Received, BinaryIO], None]
"""A function that writes one record.

Raises:
    ToolError: A deserializer cannot read the record.
"""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-console-consumer."""
    options = Options(tool, "This tool helps to read data from Kafka topics and outputs it to standard output.")
    options.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    options.value("topic", help="the topic to read")
    options.value("include", "whitelist", help="a regular expression for the topics to read")
    options.value("partition", help="read only this partition", type=int)
    options.value("offset", help="the start offset in the partition: a number, earliest or latest")
    options.flag("from-beginning", help="start at the beginning if the group has no committed offset")
    options.value("max-messages", help="stop after this many records", type=int)
    options.value("timeout-ms", help="stop if no record arrives for this long", type=int)
    options.value("group", help="the consumer group; without it no offsets are committed")
    options.value("isolation-level", help="read_uncommitted or read_committed")
    options.value("consumer-property", "command-property", help="a client property", metavar="KEY=VALUE")
    options.value("consumer.config", "command-config", help="a file with client properties", metavar="FILE")
    options.value("formatter", help="Default-, Logging- or NoOpMessageFormatter, or one of Confluent's for schemas")
    options.value("property", "formatter-property", help="print.key=true, key.separator=: ...", metavar="KEY=VALUE")
    options.value("formatter-config", help="a file with these properties", metavar="FILE")
    options.value("key-deserializer", help="a deserializer of Kafka's clients", metavar="CLASS")
    options.value("value-deserializer", help="a deserializer of Kafka's clients", metavar="CLASS")
    options.flag("skip-message-on-error", help="skip records that cannot be printed")
    options.flag("enable-systest-events", help="print shutdown_complete at the end")
    options.flag("new-consumer", help="accepted for old scripts")
    options.value("zookeeper", help="accepted for old scripts; use --bootstrap-server", metavar="SERVERS")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Print records until the message limit is reached, the timeout expires or a signal arrives."""
    values = options.parse(arguments)
    _check_options(values)
    properties = _consumer_properties(values)
    start = _start_offset(values)
    formatter = formatter_of(values)
    settings = Settings(values.text("bootstrap-server") or "", properties)
    timeout = _FOREVER if values.number("timeout-ms", -1) < 0 else values.number("timeout-ms", -1) / 1000
    max_messages = values.number("max-messages", -1)
    printer = _Printer(formatter, max_messages, timeout, skips_errors=values.has("skip-message-on-error"))
    request_timeout = None if timeout == _FOREVER else max(timeout, 0.001)
    status = 0
    try:
        with raise_on_signals(signal.SIGINT, signal.SIGTERM), Cluster(settings, timeout=request_timeout) as cluster:
            consumer = Consumer(cluster, values.text("topic"), topic_filter(values.text("include")), properties)
            if values.has("partition"):
                consumer.seek((values.text("topic") or "", values.number("partition", 0)), start)
            try:
                printer.print_all(consumer)
            finally:
                consumer.close()
    except TimedOutError:  # As in Kafka's consumer, an unreachable broker is logged as a timeout.
        if request_timeout is None:
            raise
        _log_time_out()
    except StoppedError as stopped:
        status = _SIGNAL_STATUS_BASE + stopped.signal_number
    finally:
        sys.stdout.flush()
        write_error_line(f"Processed a total of {printer.count} messages")
    if values.has("enable-systest-events"):
        sys.stdout.write("shutdown_complete\n")
    return status


class _Printer:
    """Writes records until the message limit is reached, or until no record has arrived within the timeout."""

    def __init__(self, formatter: Formatter, max_messages: int, timeout: float, *, skips_errors: bool) -> None:
        self._format = formatter
        self._max_messages = max_messages
        self._timeout = timeout
        self._skips_errors = skips_errors
        self.count = 0

    def print_all(self, consumer: Consumer) -> None:
        """Print the records that the consumer receives, until the limit or the timeout."""
        write, out = self._format, sys.stdout.buffer
        last = time.monotonic()
        while self._max_messages < 0 or self.count < self._max_messages:
            received = consumer.poll(last + self._timeout - time.monotonic())
            for record in received:
                self.count += 1
                try:
                    write(record, out)
                except ToolError as error:
                    if not self._skips_errors:
                        raise
                    log("ERROR", f"Error processing message, skipping this message: {error.message}", _LOGGER)
                consumer.next_offsets[record.topic, record.partition] = record.record.offset + 1
                if self.count == self._max_messages:
                    break
            out.flush()
            if received:
                last = time.monotonic()
            elif time.monotonic() - last > self._timeout:
                _log_time_out()
                return


def _log_time_out() -> None:
    reason = "org.apache.kafka.common.errors.TimeoutException"
    log("ERROR", f"Error processing message, terminating consumer process: {reason}", _LOGGER)


def _check_options(values: Values) -> None:
    if values.has("topic") == values.has("include"):
        raise UsageError("Exactly one of --include/--topic is required. ")
    if values.has("partition"):
        if not values.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if values.has("from-beginning") and values.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif values.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    values.require("bootstrap-server")


def _consumer_properties(values: Values) -> dict[str, str]:
    file_properties = load_properties(values.text("consumer.config"))
    line_properties = key_values(values.all("consumer-property"))
    properties = {**file_properties, **line_properties}
    group_ids = [values.text("group"), file_properties.get("group.id"), line_properties.get("group.id")]
    groups = sorted({group for group in group_ids if group is not None})
    if len(groups) > 1:
        detected = ", ".join(f"'{group}'" for group in groups)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {detected}"
        )
    if groups and values.has("partition"):
        raise UsageError("Options group and partition cannot be specified together.")
    if groups:
        properties["group.id"] = groups[0]
    reset = properties.get("auto.offset.reset")
    if values.has("from-beginning") and reset not in {None, "earliest"}:
        raise ToolError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    properties.setdefault("auto.offset.reset", "earliest" if values.has("from-beginning") else "latest")
    properties.setdefault("client.id", "console-consumer")
    if values.has("isolation-level"):
        properties["isolation.level"] = values.text("isolation-level") or ""
    if properties.get("isolation.level", "read_committed") not in {"read_committed", "read_uncommitted"}:
        raise ToolError(f"isolation.level: {properties['isolation.level']} is not an isolation level")
    return properties


def _start_offset(values: Values) -> int:
    text = values.text("offset")
    if text is None:
        return EARLIEST if values.has("from-beginning") else LATEST
    special_offset = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if special_offset is not None:
        return special_offset
    if not text.isdecimal():
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)


def formatter_of(values: Values) -> Formatter:
    """Return the formatter on the command line, configured with its properties.

    Raises:
        UsageError: The formatter class is unknown.
    """
    properties = load_properties(values.text("formatter-config"))
    for part in ("key", "value"):
        if name := values.text(f"{part}-deserializer"):
            properties[f"{part}.deserializer"] = name
    properties.update(key_values(values.all("property")))
    name = values.text("formatter") or f"{_PACKAGE}DefaultMessageFormatter"
    if name.startswith("kafka.tools."):
        current = _PACKAGE + name.removeprefix("kafka.tools.")
        write_error_line(
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
        case _ if kind := schema_console.kind_of(name):
            return schema_console.SchemaFormatter(kind, properties).write
        case _:
            raise UsageError(name)


class DefaultFormatter:
    """Writes the parts of a record that the properties select, such as its key, value and headers."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str, *, default: bool = False) -> bool:
            return is_true(trim(properties.get(name, str(default))))

        def text(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        def find(name: str) -> Deserialize | None:
            return find_deserializer(properties[name]) if name in properties else None

        self._timestamp, self._partition = flag("print.timestamp"), flag("print.partition")
        self._offset, self._headers = flag("print.offset"), flag("print.headers")
        self._key, self._value = flag("print.key"), flag("print.value", default=True)
        self._between, self._end = text("key.separator", "\t"), text("line.separator", "\n")
        self._between_headers, self.null = text("headers.separator", ","), text("null.literal", "null")
        self.read_key, self._read_value = find("key.deserializer"), find("value.deserializer")
        self._read_header = find("headers.deserializer")

    def write(self, received: Received, out: BinaryIO) -> None:
        """Write the selected parts of a record, joined by the key separator."""
        record = received.record
        parts: list[bytes] = []
        if self._timestamp:
            kind = _TIMESTAMP_NAMES.get(record.timestamp_type)
            parts.append(b"NO_TIMESTAMP" if kind is None else f"{kind}:{record.timestamp}".encode())
        if self._partition:
            parts.append(b"Partition:%d" % received.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = [
                key.encode("utf-8", "surrogateescape") + b":" + self._format_bytes(value, self._read_header)
                for key, value in record.headers
            ]
            parts.append(self._between_headers.join(pairs) or b"NO_HEADERS")
        if self._key:
            parts.append(self.format_part(record, is_key=True))
        if self._value:
            parts.append(self.format_part(record, is_key=False))
        if parts:
            out.write(self._between.join(parts) + self._end)

    def format_part(self, record: Record, *, is_key: bool) -> bytes:
        """Return the key or the value as it is written."""
        return self._format_bytes(*((record.key, self.read_key) if is_key else (record.value, self._read_value)))

    def _format_bytes(self, data: bytes | None, read: Deserialize | None) -> bytes:
        data = self.null if data is None else data
        return data if read is None else read(data).encode()


class LoggingFormatter(DefaultFormatter):
    """Writes records like `DefaultFormatter`, and also logs them to standard error."""

    def write(self, received: Received, out: BinaryIO) -> None:
        """Write a record to `out` and log it to standard error."""
        super().write(received, out)
        record = received.record
        kind = _TIMESTAMP_NAMES.get(record.timestamp_type)
        stamp = "" if kind is None else f"{kind}:{record.timestamp}, "
        data = (record.key, record.value)
        key, value = ("null" if part is None else part.decode("utf-8", "replace") for part in data)
        log("INFO", f"{stamp}key:{key}, value:{value}", "org.apache.kafka.tools.consumer.LoggingMessageFormatter")


def _number_deserializer(form: str, size: int) -> Deserialize:
    def read(data: bytes) -> str:
        if len(data) != size:
            raise ToolError(f"Size of data received by the deserializer is not {size}")
        return str(struct.unpack(form, data)[0])

    return read


_DESERIALIZERS: Final[dict[str, Deserialize]] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace"),
    "BytesDeserializer": lambda data: "".join(
        chr(byte) if byte in _PRINTABLE_BYTES else f"\\x{byte:02X}" for byte in data
    ),
    "LongDeserializer": _number_deserializer(">q", 8),
    "IntegerDeserializer": _number_deserializer(">i", 4),
    "ShortDeserializer": _number_deserializer(">h", 2),
    "DoubleDeserializer": _number_deserializer(">d", 8),
    "FloatDeserializer": _number_deserializer(">f", 4),
    "UUIDDeserializer": lambda data: str(uuid.UUID(data.decode("ascii"))),
    "BooleanDeserializer": lambda data: "true" if data == b"\x01" else "false",
}


def find_deserializer(name: str) -> Deserialize:
    """Return the deserializer with this class name.

    Raises:
        ToolError: The class is unknown.
    """
    deserialize = _DESERIALIZERS.get(name.removeprefix(_SERIALIZATION))
    if deserialize is None:
        known_names = ", ".join(_SERIALIZATION + class_name for class_name in _DESERIALIZERS)
        raise ToolError(f"The deserializer {name} is not one of {known_names}")
    return deserialize
