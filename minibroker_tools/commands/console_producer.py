"""kafka-console-producer: sends lines from standard input as records (`kafka.tools.ConsoleProducer`)."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker_protocol.java_text import is_true, trim
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.header import CompressionCodec
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.producer import ACKS, CODECS, Outgoing, Producer
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values, key_values
from minibroker_tools.output import log

with lazy:
    from minibroker_tools.commands import schema_console

if TYPE_CHECKING:
    from io import BufferedReader

_LOGGER: Final = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
_CHUNK_BYTES: Final = 1 << 18
_IGNORED: Final = (
    "batch-size",
    "retry-backoff-ms",
    "timeout",
    "request-timeout-ms",
    "metadata-expiry-ms",
    "max-memory-bytes",
    "max-partition-memory-bytes",
    "socket-buffer-size",
    "queue-size",
    "queue-enqueuetimeout-ms",
)


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-console-producer."""
    options = Options(tool, "This tool helps to read data from standard input and publish it to Kafka.")
    options.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    options.value("broker-list", help="the older name of --bootstrap-server", metavar="SERVERS")
    options.value("topic", help="the topic to write to")
    options.flag("sync", help="wait for the acknowledgement of each line")
    options.optional_value("compression-codec", help="none, gzip, snappy, lz4 or zstd; gzip without a value")
    options.value("property", "reader-property", help="parse.key=true, key.separator=: ...", metavar="KEY=VALUE")
    options.value("reader-config", help="a file with these properties", metavar="FILE")
    options.value("producer-property", "command-property", help="a client property", metavar="KEY=VALUE")
    options.value("producer.config", "command-config", help="a file with client properties", metavar="FILE")
    options.value("line-reader", help="LineMessageReader, or one of Confluent's for schemas", metavar="CLASS")
    options.value("request-required-acks", help="all, -1, 0 or 1")
    options.value("message-send-max-retries", help="the number of retries (default: 3)", type=int)
    options.value("max-block-ms", help="how long to wait for the topic, in milliseconds", type=int)
    for name in _IGNORED:
        options.value(name, help="accepted, but has no effect")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Send the lines from standard input until it ends."""
    values = options.parse(arguments)
    values.require("topic")
    servers = values.text("bootstrap-server") or values.text("broker-list")
    if servers is None:
        raise UsageError("Missing required option(s) [bootstrap-server]")
    properties = {"client.id": "console-producer", **load_properties(values.text("producer.config"))}
    properties |= key_values(values.all("producer-property"))
    if values.has("max-block-ms"):
        properties["max.block.ms"] = str(values.number("max-block-ms", 0))
    topic = values.text("topic") or ""
    line_properties = {**load_properties(values.text("reader-config")), **key_values(values.all("property"))}
    lines = LineReader.from_properties(line_properties)
    parse = lines.parse_record
    class_name = values.text("line-reader")
    if class_name is not None and (kind := schema_console.kind_of(class_name)):
        parse = schema_console.SchemaReader(kind, lines, line_properties, topic).parse_record
    codec, acks = _choose_codec(values, properties), _choose_acks(values, properties)
    settings = Settings(servers, properties)
    with Cluster(settings, timeout=settings.milliseconds("max.block.ms")) as cluster:
        producer = Producer(
            cluster,
            topic,
            acks=acks,
            codec=codec,
            retries=values.number("message-send-max-retries", 3),
        )
        _send_lines(producer, topic, parse, one_by_one=values.has("sync"))
    return 0


class LineReader(NamedTuple):
    """Converts lines to records, with the properties of Kafka's LineMessageReader."""

    parse_key: bool = False
    key_separator: str = "\t"
    parse_headers: bool = False
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    ignore_error: bool = False
    null_marker: str | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "LineReader":
        """Create a reader from the properties on the command line.

        Raises:
            ToolError: Two properties that must differ are equal.
        """
        settings: dict[str, Any] = {name: properties.get(name.replace("_", ".")) for name in cls._fields}
        for name in ("parse_key", "parse_headers", "ignore_error"):
            settings[name] = is_true(trim(settings[name] or ""))
        reader = cls(**{name: value for name, value in settings.items() if value is not None})
        reader._check_separators()
        return reader

    def _check_separators(self) -> None:
        separators = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        for first, second in combinations(separators, 2):
            if separators[first] == separators[second]:
                raise _kafka_error(f"{first} and {second} may not be equal")
        for name, value in {"key.separator": self.key_separator, **separators}.items():
            if value == self.null_marker:
                raise _kafka_error(f"null.marker and {name} may not be equal")

    def parse_record(self, line: str, number: int) -> Outgoing:
        """Parse a line into a record.

        Raises:
            ToolError: A separator is missing.
        """
        headers, position = self._read_field(
            self.parse_headers, line, 0, self.headers_delimiter, "headers delimiter", number
        )
        key, position = self._read_field(self.parse_key, line, position, self.key_separator, "key separator", number)
        has_headers = headers is not None and headers != self.null_marker
        pairs = self._parse_headers(headers or "", number) if has_headers else ()
        return Outgoing(self._encode_text(key), self._encode_text(line[position:]), tuple(pairs))

    def _read_field(
        self,
        enabled: bool,  # noqa: FBT001 - a property of the reader
        line: str,
        start: int,
        separator: str,
        name: str,
        number: int,
    ) -> tuple[str | None, int]:
        if not enabled:
            return None, start
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end], end + len(separator)
        if self.ignore_error:
            return None, start
        raise _kafka_error(f"No {name} found on line number {number}: '{line}'")

    def _parse_headers(self, text: str, number: int) -> list[tuple[str, bytes | None]]:
        headers: list[tuple[str, bytes | None]] = []
        for pair in text.split(self.headers_separator):
            key, separator, value = pair.partition(self.headers_key_separator)
            if not separator and not self.ignore_error:
                raise _kafka_error(f"No header key separator found in pair '{pair}' on line number {number}")
            if key == self.null_marker:
                raise _kafka_error(f"Header keys should not be equal to the null marker '{key}' as they can't be null")
            headers.append((key, self._encode_text(value) if separator else None))
        return headers

    def _encode_text(self, text: str | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text.encode("utf-8", "surrogateescape")


def _kafka_error(message: str) -> ToolError:
    return ToolError(f"org.apache.kafka.common.KafkaException: {message}")


def _send_lines(producer: Producer, topic: str, parse: Callable[[str, int], Outgoing], *, one_by_one: bool) -> None:
    """Send the lines. With `one_by_one`, the first refusal is raised. Otherwise refusals are logged."""
    number = 0
    for lines in _read_lines():
        records: list[Outgoing] = []
        try:
            for line in lines:
                number += 1
                records.append(parse(line, number))
                if one_by_one:
                    for batch in producer.send([records.pop()]):
                        if batch.error is not None:
                            raise batch.error
        finally:
            if records:
                _send_logged(producer, topic, records)


def _read_lines() -> Iterator[list[str]]:
    """Yield lines from standard input in chunks, as they arrive.

    As in Java's BufferedReader, a line ends with CR, LF or both.
    """
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    source = cast("BufferedReader", sys.stdin.buffer)
    incomplete = b""
    while True:
        if prompts:
            sys.stdout.write(">")
            sys.stdout.flush()
        data = source.read1(_CHUNK_BYTES)
        text = (incomplete + data).replace(b"\r\n", b"\n")
        # Hold back a final \r because its \n may be in the next chunk.
        held_back = b"\r" if text.endswith(b"\r") and data else b""
        lines = text[: len(text) - len(held_back)].replace(b"\r", b"\n").split(b"\n")
        incomplete = lines.pop() + held_back
        if not data and incomplete:
            lines.append(incomplete)
        if lines:
            yield [line.decode("utf-8", "surrogateescape") for line in lines]
        if not data:
            return


def _send_logged(producer: Producer, topic: str, records: Sequence[Outgoing]) -> None:
    """Send records, and log those that the broker refuses."""
    for batch in producer.send(records):
        if batch.error is None:
            continue
        for record in batch.records:
            key, value = ("null" if data is None else f"{len(data)} bytes" for data in (record.key, record.value))
            sent = f"message to topic {topic} with key: {key}, value: {value}"
            log("ERROR", f"Error when sending {sent} with error: {batch.error.described}", _LOGGER)


def _choose_codec(values: Values, properties: Mapping[str, str]) -> CompressionCodec:
    name = properties.get("compression.type", "none")
    if values.has("compression-codec"):
        name = values.text("compression-codec") or "gzip"
    if name not in CODECS:
        raise ToolError(f"compression.type: {name} is not one of {', '.join(CODECS)}")
    return CODECS[name]


def _choose_acks(values: Values, properties: Mapping[str, str]) -> str:
    acks = values.text("request-required-acks") or properties.get("acks", "-1")
    if acks not in ACKS:
        raise ToolError(f"acks: {acks} is not one of all, -1, 0, 1")
    return acks
