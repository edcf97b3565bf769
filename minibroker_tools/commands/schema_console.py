"""The formatters and line readers of Confluent's console tools, which use the schemas of a registry.

They follow `SchemaMessageFormatter` and `SchemaMessageReader` of Confluent's registry.
"""

import functools
import json
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from minibroker.security.tls.contexts import client_context
from minibroker_protocol.java_text import is_true, to_long, trim
from minibroker_protocol.records.record import Record
from minibroker_registry.http_source import HttpSource
from minibroker_registry.schema import Parsed
from minibroker_registry.values import UndecodableError, Values, prefix_of
from minibroker_tools.client.producer import Outgoing
from minibroker_tools.commands.console_consumer import DefaultFormatter
from minibroker_tools.commands.console_producer import LineReader
from minibroker_tools.failures import ToolError
from minibroker_tools.output import compact_json

_CLASS: Final = re.compile(
    r"io\.confluent\.kafka\.formatter\.(?:json\.|protobuf\.)?(Avro|JsonSchema|Protobuf)Message(?:Formatter|Reader)"
)
_KINDS: Final = {"Avro": "Avro", "JsonSchema": "JSON", "Protobuf": "Protobuf"}
"""The formats as messages name them, and in capital letters the registry, by the names in the classes."""
_EXTRAS: Final = {"refs": "references", "metadata": "metadata"}
_PREFIX: Final = "schema.registry."
_NUMBERS: Final = {"StringSerializer": "", "LongSerializer": ">q", "IntegerSerializer": ">i", "ShortSerializer": ">h"}
"""The serializers for keys without a schema, with the forms of their numbers."""


def kind_of(class_name: str) -> str | None:
    """Return the format of a formatter or line reader of Confluent's, or None for another class."""
    match = _CLASS.fullmatch(class_name)
    return match and _KINDS[match[1]]


class SchemaFormatter(DefaultFormatter):
    """Writes keys and values as JSON, with the names of the branches of Avro's unions."""

    def __init__(self, kind: str, properties: Mapping[str, str]) -> None:
        super().__init__({**properties, "print.value": "true"})
        self._kind = kind
        self._values = Values(_open_registry(properties))
        self._shows_ids = is_true(trim(properties.get("print.schema.ids", "")))
        self._id_separator = properties.get("schema.id.separator", "\t").encode()

    def format_part(self, record: Record, *, is_key: bool) -> bytes:
        """Return the key or the value as JSON, or the key as its deserializer reads it."""
        if is_key and self.read_key is not None:
            return super().format_part(record, is_key=True)
        data = record.key if is_key else record.value
        text, id_ = (self.null, self.null.decode()) if data is None else self._decode(record, data, is_key=is_key)
        return text + self._id_separator + id_.encode() if self._shows_ids else text

    def _decode(self, record: Record, data: bytes, *, is_key: bool) -> tuple[bytes, str]:
        """Return a key or value as JSON, and the id or guid of its schema.

        Raises:
            ToolError: It cannot be decoded.
        """
        id_: object = None
        try:
            id_, _ = Values.locate(data, record.headers, is_key=is_key)
            _, schema, payload = self._values.find(data, record.headers, is_key=is_key)
            value = schema.decode(payload, with_branches=True)
        except UndecodableError as error:
            if id_ is None:
                raise _serialization_error("Unknown magic byte!") from None
            part = f" {'key' if is_key else 'value'}" * (self._kind == "Avro")
            raise _serialization_error(f"Error retrieving {self._kind}{part} schema for id {id_}", error) from None
        except (ValueError, ModuleNotFoundError) as error:
            raise _serialization_error(f"Error deserializing {self._kind} message for id {id_}", error) from None
        return compact_json(value, ensure_ascii=False).encode(), str(id_)


class SchemaReader:
    """Converts lines of JSON to records.

    Args:
        kind: The format of the schemas.
        lines: Separates keys, headers and values.
        properties: The properties on the command line.
        topic: The topic, which names the subjects.
    """

    def __init__(self, kind: str, lines: LineReader, properties: Mapping[str, str], topic: str) -> None:
        self._lines = lines
        registry = _open_registry(properties)
        self._encode_value = _Encoder(registry, kind, properties, topic, "value").encode
        self._encode_key: Callable[[bytes], bytes] = self._encode_value
        if "key.serializer" in properties:
            self._encode_key = _make_serializer(properties["key.serializer"])
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

    def __init__(self, registry: HttpSource, kind: str, properties: Mapping[str, str], topic: str, part: str) -> None:
        self._registry = registry
        self._kind = kind
        self._properties = {name.removeprefix(f"{part}."): text for name, text in properties.items()}
        self._subject = f"{topic}-{part}"
        strategy = self._properties.get("subject.name.strategy", "TopicNameStrategy")
        if strategy.rpartition(".")[2] != "TopicNameStrategy":
            raise ToolError(f"{part}.subject.name.strategy: {strategy} is not TopicNameStrategy")
        self._fields = self._find_fields(part)

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
            target = f" to {self._kind} of schema {self._fields['schema']}" * (self._kind != "JSON")
            action = "deserializing" if target else "serializing"
            raise _serialization_error(f"Error {action} json {text}{target}", error) from None

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
            action = f"{'registering' if registers else 'retrieving'} {self._kind} schema"
            raise _serialization_error(f"Error {action}: {self._fields['schema']}", error) from None
        return prefix_of(id_), schema

    def _find_fields(self, part: str) -> dict[str, Any]:
        """Return the schema as it is sent to the registry."""
        given, id_ = self._properties, self._properties.get("schema.id")
        if not {"schema", "schema.id", "schema.file"} & given.keys():
            names = f"{part}.schema, {part}.schema.id, or {part}.schema.file"
            raise _config_error(f"Must provide the {part} schema in either {names}")
        try:
            if id_ is not None:
                return self._registry.fields(int(id_))
            text = given.get("schema") or Path(given["schema.file"]).read_text(encoding="utf-8")
            extras = {field: json.loads(given[name]) for name, field in _EXTRAS.items() if name in given}
        except LookupError as error:
            raise _serialization_error(f"Error retrieving schema for id {id_}", error) from None
        except OSError:
            raise _config_error(f"Error reading schema from {given['schema.file']}") from None
        except ValueError as error:
            reason = f"Error parsing {part}.schema.id as int" if id_ else f"A property of the {part} schema: {error}"
            raise _serialization_error(reason) from None
        return {"schema": text, "schemaType": self._kind.upper(), **extras}


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


def _make_serializer(name: str) -> Callable[[bytes], bytes]:
    form = _NUMBERS.get(name.rpartition(".")[2])
    if form is None:
        raise _config_error(f"The key.serializer {name} is not one of {', '.join(_NUMBERS)}")

    def serialize(data: bytes) -> bytes:
        try:
            return struct.pack(form, to_long(data.decode())) if form else data
        except (ValueError, struct.error) as error:
            raise ToolError(f"java.lang.NumberFormatException: {error}") from None

    return serialize


def _config_error(message: str) -> ToolError:
    return ToolError(f"org.apache.kafka.common.config.ConfigException: {message}")


def _serialization_error(message: str, cause: Exception | None = None) -> ToolError:
    reason = "" if cause is None else f"\nCaused by: {cause}"
    return ToolError(f"org.apache.kafka.common.errors.SerializationException: {message}{reason}")
