"""The formatters and line readers of Confluent's console tools, which use the schemas of a registry.

They follow `SchemaMessageFormatter` and `SchemaMessageReader` of Confluent's registry.
"""

import functools
import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from minibroker.security.tls.contexts import client_context
from minibroker_protocol.java_text import is_true, parse_integer, trim
from minibroker_protocol.records.record import Record
from minibroker_registry.http_source import HttpSource
from minibroker_registry.schema import Parsed
from minibroker_registry.values import UndecodableError, Values
from minibroker_tools.client.producer import Outgoing
from minibroker_tools.commands.console_consumer import DefaultFormatter
from minibroker_tools.commands.console_producer import LineReader
from minibroker_tools.failures import ToolError
from minibroker_tools.output import compact_json

_CLASS: Final = re.compile(
    r"io\.confluent\.kafka\.formatter\.(?:json\.|protobuf\.)?(Avro|JsonSchema|Protobuf)Message(?:Formatter|Reader)"
)
_PREFIX: Final = "schema.registry."


class _Kind(NamedTuple):
    """A format: its `schemaType`, its name in messages, and the message about a line that does not fit the schema."""

    type: str
    name: str
    refusal: str


_KINDS: Final = {
    "Avro": _Kind("AVRO", "Avro", "Error deserializing json {} to Avro of schema {}"),
    "JsonSchema": _Kind("JSON", "JSON", "Error serializing json {}"),
    "Protobuf": _Kind("PROTOBUF", "Protobuf", "Error deserializing json {} to Protobuf of schema {}"),
}
_SERIALIZERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "StringSerializer": lambda data: data,
    "LongSerializer": lambda data: _pack_number(">q", data),
    "IntegerSerializer": lambda data: _pack_number(">i", data),
    "ShortSerializer": lambda data: _pack_number(">h", data),
}


def kind_of(class_name: str) -> _Kind | None:
    """Return the format of a formatter or line reader of Confluent's, or None for another class."""
    match = _CLASS.fullmatch(class_name)
    return None if match is None else _KINDS[match[1]]


class SchemaFormatter(DefaultFormatter):
    """Writes keys and values as JSON, with the names of the branches of Avro's unions."""

    def __init__(self, kind: _Kind, properties: Mapping[str, str]) -> None:
        super().__init__({**properties, "print.value": "true"})
        self._kind = kind
        self._values = Values(_open_registry(properties))
        self._shows_ids = is_true(trim(properties.get("print.schema.ids", "")))
        self._id_separator = properties.get("schema.id.separator", "\t").encode()

    def format_key(self, record: Record) -> bytes:
        """Return the key as JSON, or as the key deserializer reads it."""
        if self.read_key is not None:
            return super().format_key(record)
        return self._format(record, record.key, is_key=True)

    def format_value(self, record: Record) -> bytes:
        """Return the value as JSON."""
        return self._format(record, record.value, is_key=False)

    def _format(self, record: Record, data: bytes | None, *, is_key: bool) -> bytes:
        text, id_ = (self.null, self.null.decode()) if data is None else self._decode(record, data, is_key=is_key)
        return text + self._id_separator + id_.encode() if self._shows_ids else text

    def _decode(self, record: Record, data: bytes, *, is_key: bool) -> tuple[bytes, str]:
        """Return a key or value as JSON, and the id or guid of its schema.

        Raises:
            ToolError: It cannot be decoded.
        """
        name = self._kind.name
        try:
            id_, _ = Values.locate(data, record.headers, is_key=is_key)
        except UndecodableError:
            raise _serialization_error("Unknown magic byte!") from None
        try:
            _, schema, payload = self._values.find(data, record.headers, is_key=is_key)
        except UndecodableError as error:
            part = f" {'key' if is_key else 'value'}" * (name == "Avro")
            raise _serialization_error(f"Error retrieving {name}{part} schema for id {id_}", error) from None
        try:
            value = schema.decode_with_branches(payload)
        except (ValueError, ModuleNotFoundError) as error:
            raise _serialization_error(f"Error deserializing {name} message for id {id_}", error) from None
        return compact_json(value, ensure_ascii=False).encode(errors="replace"), str(id_)


class SchemaReader:
    """Converts lines of JSON to records.

    Args:
        kind: The format of the schemas.
        lines: Separates keys, headers and values.
        properties: The properties on the command line.
        topic: The topic, which names the subjects.
    """

    def __init__(self, kind: _Kind, lines: LineReader, properties: Mapping[str, str], topic: str) -> None:
        self._lines = lines
        registry = _open_registry(properties)
        self._encode_value = _Encoder(registry, kind, properties, topic, "value").encode
        self._encode_key: Callable[[bytes], bytes] = self._encode_value
        serializer = properties.get("key.serializer")
        if serializer is not None:
            self._encode_key = _find_serializer(serializer)
        elif lines.parse_key:
            self._encode_key = _Encoder(registry, kind, properties, topic, "key").encode

    def parse_record(self, line: str, number: int) -> Outgoing:
        """Parse a line into a record.

        Raises:
            ToolError: A separator is missing, the JSON does not fit the schema, or the registry refuses the schema.
        """
        record = self._lines.parse_record(line, number)
        return record._replace(
            key=None if record.key is None else self._encode_key(record.key),
            value=None if record.value is None else self._encode_value(record.value),
        )


class _Encoder:
    """Encodes the keys or the values of a topic with one schema, which is registered with the first of them."""

    def __init__(self, registry: HttpSource, kind: _Kind, properties: Mapping[str, str], topic: str, part: str) -> None:
        self._registry = registry
        self._kind = kind
        self._properties = {name.removeprefix(f"{part}."): text for name, text in properties.items()}
        self._subject = f"{topic}-{part}"
        strategy = self._properties.get("subject.name.strategy", "TopicNameStrategy")
        if strategy.rpartition(".")[2] != "TopicNameStrategy":
            raise ToolError(f"{part}.subject.name.strategy: {strategy} is not TopicNameStrategy")
        self._fields = self._find_fields(part)
        self._text: str = self._fields["schema"]

    def encode(self, line: bytes) -> bytes:
        """Encode a line of JSON.

        Raises:
            ToolError: The registry refuses the schema, or the line does not fit it.
        """
        prefix, schema = self._registered
        text = line.decode(errors="replace")
        try:
            return prefix + schema.encode(json.loads(text), self._properties.get("schema.full.name"))
        except (ValueError, RecursionError, ModuleNotFoundError) as error:
            raise _serialization_error(self._kind.refusal.format(text, self._text), error) from None

    @functools.cached_property
    def _registered(self) -> tuple[bytes, Parsed]:
        """The bytes before each payload, and the schema."""
        given = self._properties
        registers = is_true(trim(given.get("auto.register", given.get("auto.register.schemas", "true"))))
        try:
            if not registers and is_true(trim(given.get("use.latest.version", ""))):
                id_, schema = self._registry.latest(self._subject)
            else:
                id_ = self._registry.register(self._subject, self._fields, only_looks_up=not registers)
                schema = self._registry.by_id(id_)
        except (LookupError, ValueError, ModuleNotFoundError) as error:
            action = "registering" if registers else "retrieving"
            raise _serialization_error(f"Error {action} {self._kind.name} schema: {self._text}", error) from None
        return struct.pack(">bi", 0, id_), schema

    def _find_fields(self, part: str) -> dict[str, Any]:
        """Return the schema as it is sent to the registry."""
        given, id_ = self._properties, self._properties.get("schema.id")
        if id_ is not None:
            try:
                return self._registry.fields(int(id_))
            except ValueError:
                raise _serialization_error(f"Error parsing {part}.schema.id as int") from None
            except LookupError as error:
                raise _serialization_error(f"Error retrieving schema for id {id_}", error) from None
        text = given.get("schema")
        if text is None and "schema.file" in given:
            text = _read_schema(given["schema.file"])
        if text is None:
            names = f"{part}.schema, {part}.schema.id, or {part}.schema.file"
            raise _config_error(f"Must provide the {part} schema in either {names}")
        fields: dict[str, Any] = {"schema": text, "schemaType": self._kind.type}
        for name, field in (("refs", "references"), ("metadata", "metadata")):
            if name in given:
                try:
                    fields[field] = json.loads(given[name])
                except ValueError as error:
                    raise _config_error(f"{part}.{name} is not JSON: {error}") from None
        return fields


def _open_registry(properties: Mapping[str, str]) -> HttpSource:
    """Return the registry that the properties name.

    Raises:
        ToolError: They do not name one, or a trust store cannot be read.
    """
    url = properties.get("schema.registry.url")
    if url is None:
        raise _config_error("Missing schema registry url!")
    own = {name.removeprefix(_PREFIX): text for name, text in properties.items()}
    is_basic = own.get("basic.auth.credentials.source", "URL") != "URL"
    auth = own.get("basic.auth.user.info") if is_basic else own.get("bearer.auth.token")
    try:
        return HttpSource(url.partition(",")[0].strip(), auth, client_context(own) if url.startswith("https") else None)
    except ValueError as error:
        raise _config_error(str(error)) from None


def _read_schema(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        raise _config_error(f"Error reading schema from {path}") from None


def _find_serializer(name: str) -> Callable[[bytes], bytes]:
    serialize = _SERIALIZERS.get(name.rpartition(".")[2])
    if serialize is None:
        raise _config_error(f"The key.serializer {name} is not one of {', '.join(_SERIALIZERS)}")
    return serialize


def _pack_number(form: str, data: bytes) -> bytes:
    number = parse_integer(data.decode(errors="replace"), 8 * struct.calcsize(form) - 1)
    if number is None:
        raise ToolError(f'java.lang.NumberFormatException: For input string: "{data.decode(errors="replace")}"')
    return struct.pack(form, number)


def _config_error(message: str) -> ToolError:
    return ToolError(f"org.apache.kafka.common.config.ConfigException: {message}")


def _serialization_error(message: str, cause: Exception | None = None) -> ToolError:
    reason = "" if cause is None else f"\nCaused by: {cause}"
    return ToolError(f"org.apache.kafka.common.errors.SerializationException: {message}{reason}")
