"""The columns `decoded` and `undecodable` of a query: values that begin with a schema id, as Spark's structs.

The latest version of the subject TOPIC-value decides the type of a topic's values. The driver looks it up when the
query begins, and passes its id to the tasks. A record with another schema is resolved to this one.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa
from google.protobuf import json_format

from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.options import DECODED_COLUMN, FROM_TOPIC, UNDECODABLE_COLUMN, SourceOptions
from minibroker_pipeline.source.planning import OffsetInterval, QueryLogs
from minibroker_pipeline.source.reading import read_ranges
from minibroker_pipeline.spark_versions import from_arrow_schema, to_arrow_schema
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_registry.avro import AvroSchema
from minibroker_registry.avro_types import Type
from minibroker_registry.json_nodes import Node
from minibroker_registry.json_schema import JsonSchema
from minibroker_registry.protobuf import ProtobufSchema
from minibroker_registry.records import Record
from minibroker_registry.schema import Parsed
from minibroker_registry.values import SchemaSource, TopicSource, UnavailableError, UndecodableError, Values

with lazy:
    from minibroker_registry import http_source


_TEXT: Final = pa.string()
_MIXED: Final = pa.large_string()
"""Text of values that may have other types."""
_PRECISIONS: Final = range(1, 39)
_INSTANT: Final = pa.timestamp("us", tz="UTC")


def type_of(schema: Parsed) -> pa.DataType:
    """Return the Arrow type of a schema's values, or of the first message of a Protobuf schema."""
    if isinstance(schema, AvroSchema):
        return _avro_type(schema.root)
    if isinstance(schema, ProtobufSchema):
        return _message_type(schema.new_message().DESCRIPTOR)
    assert isinstance(schema, JsonSchema)
    return _json_type(schema.root)


def read_value(payload: bytes, writer: Parsed, reader: Parsed) -> Any:
    """Return the value of a payload that was written with a schema, resolved to another one. It may raise anything."""
    if isinstance(reader, AvroSchema):
        stream = BytesIO(payload)
        value = fastavro.schemaless_reader(stream, _plain_schema(writer), _plain_schema(reader))
        if stream.tell() < len(payload):
            raise ValueError(f"{len(payload) - stream.tell()} bytes are left after the value")
        return value
    if isinstance(reader, ProtobufSchema):
        assert isinstance(writer, ProtobufSchema)
        message, target = writer.parse_message(payload), reader.new_message()
        if message.DESCRIPTOR.full_name != target.DESCRIPTOR.full_name:
            raise ValueError(f"it is a message {message.DESCRIPTOR.full_name}, not {target.DESCRIPTOR.full_name}")
        target.ParseFromString(message.SerializeToString())
        pool: Any = target.DESCRIPTOR.file.pool  # It has the types of Any.
        return json_format.MessageToDict(
            target, always_print_fields_with_no_presence=True, preserving_proto_field_name=True, descriptor_pool=pool
        )
    return writer.decode(payload)


@cache
def _plain_schema(schema: Parsed) -> Any:
    """Return a schema for fastavro without logical types, for which fastavro has other values than Spark."""
    text = schema.formatted("resolved")
    return fastavro.parse_schema(
        json.loads(text, object_hook=lambda node: {key: node[key] for key in node if key != "logicalType"})
    )


def is_fitting(schema: Parsed, kind: pa.DataType) -> bool:
    """Return whether values of a schema need no `fit_value`, which takes longer than reading them."""
    return isinstance(schema, AvroSchema) and not re.search("large_string|map<|decimal|binary", str(kind))


def fit_value(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one for each kind of type
    """Convert a value of `read_value` to what Arrow takes for a type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: fit_value(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [fit_value(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(fit_value(key, kind.key_type), fit_value(item, kind.item_type)) for key, item in value.items()]
    if kind == _MIXED and not isinstance(value, str):
        return json.dumps(value, default=lambda data: data.decode("latin-1"))
    if pa.types.is_decimal128(kind):
        data = value.encode("latin-1") if isinstance(value, str) else value
        return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{kind.scale}")
    convert = _FROM_TEXT.get(kind) if isinstance(value, str) else None
    return value if convert is None else convert(value)


_FROM_TEXT: Final[dict[pa.DataType, Callable[[str], Any]]] = {
    pa.binary(): lambda text: text.encode("latin-1"),  # Avro's schemas have the defaults of bytes as text.
    **dict.fromkeys((pa.int32(), pa.int64()), int),
    **dict.fromkeys((pa.float32(), pa.float64()), float),
    pa.decimal256(20): Decimal,
    pa.large_binary(): b64decode,
    _INSTANT: datetime.fromisoformat,
}
"""How a text becomes a value. Only Protobuf has `large_binary` and `decimal256`, whose texts differ from Avro's."""

_AVRO: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "int date": pa.date32(),
    "long": pa.int64(),
    "long timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "long timestamp-micros": _INSTANT,
    "long local-timestamp-millis": pa.timestamp("ms"),
    "long local-timestamp-micros": pa.timestamp("us"),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
"""By the type and its logical type. All others are text."""


def _avro_type(node: Type, outer: tuple[Type, ...] = ()) -> pa.DataType:
    if node in outer:
        return _MIXED
    outer = (*outer, node)
    if node.kind == "record":
        return pa.struct([(field.name, _avro_type(field.type, outer)) for field in node.fields])
    if node.kind == "union":
        types = {_avro_type(branch, outer) for branch in node.branches} - {pa.null()}
        if types in ({pa.int32(), pa.int64()}, {pa.float32(), pa.float64()}):
            types -= {pa.int32(), pa.float32()}
        return types.pop() if len(types) == 1 else _MIXED
    if node.items is not None:
        items = _avro_type(node.items, outer)
        return pa.list_(items) if node.kind == "array" else pa.map_(_TEXT, items)
    props: Mapping[str, Any] = node.props
    if props.get("logicalType") == "decimal" and props.get("precision") in _PRECISIONS:
        return pa.decimal128(props["precision"], props.get("scale", 0))
    return _AVRO.get(f"{node.kind} {props.get('logicalType')}", _AVRO.get(node.kind, _TEXT))


def _json_type(node: Node, outer: tuple[Node, ...] = ()) -> pa.DataType:  # noqa: PLR0911 - one for each kind of type
    node = node.resolved()
    if node in outer:
        return _MIXED
    outer = (*outer, node)
    properties = node.properties
    if node.kind == "combined":
        is_all = node.criterion == "allOf"
        parts = [part.resolved() for part in node.parts]
        parts = [part for part in parts if part.kind not in (_WITHOUT_TYPE if is_all else {"null"})]
        if len(parts) == 1:
            return _json_type(parts[0], outer)
        if is_all and all(part.kind == "object" for part in parts):
            properties = {name: member for part in parts for name, member in part.properties.items()}
    if properties:
        return pa.struct([(name, _json_type(member, outer)) for name, member in properties.items()])
    if node.kind == "object" and not isinstance(node.additional, bool):
        return pa.map_(_TEXT, _json_type(node.additional, outer))
    if node.kind == "array" and node.items is not None:
        return pa.list_(_json_type(node.items, outer))
    if node.kind == "number":
        return pa.int64() if node.is_integer else pa.float64()
    return {"boolean": pa.bool_(), "string": _TEXT}.get(node.kind, _MIXED)


_WITHOUT_TYPE: Final = frozenset({"any", "enum", "const", "not", "conditional"})


def _message_type(descriptor: Any, outer: tuple[str, ...] = ()) -> pa.DataType:
    name = descriptor.full_name
    if name in outer or name in _TEXT_IN_JSON:
        return _MIXED
    if name == "google.protobuf.Timestamp":
        return _INSTANT
    if descriptor.file.name == "google/protobuf/wrappers.proto":
        return _field_type(descriptor.fields[0], outer)
    return pa.struct([(field.name, _field_type(field, (*outer, name))) for field in descriptor.fields])


_TEXT_IN_JSON: Final = frozenset(
    f"google.protobuf.{name}" for name in ("Any", "Duration", "FieldMask", "ListValue", "Struct", "Value")
)


def _field_type(field: Any, outer: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return pa.map_(*(_field_type(part, outer) for part in message.fields))
    if message is not None:
        kind = _message_type(message, outer)
    else:
        kind = pa.large_binary() if field.type == field.TYPE_BYTES else _CPP_TYPES.get(field.cpp_type, _TEXT)
    return pa.list_(kind) if field.is_repeated else kind


_CPP_TYPES: Final = dict(
    enumerate((pa.int32(), pa.int64(), pa.int64(), pa.decimal256(20), pa.float64(), pa.float32(), pa.bool_()), start=1)
)
"""By `FieldDescriptor.cpp_type`. Unsigned integers, the third and the fourth, have the next larger type."""


INPUT_COLUMNS: Final = ("topic", "partition", "offset", "value", "headers", "isControl")
"""The columns that `Decoder.decode` takes."""
_HINT: Final = "set mode=permissive to get null, and the reason in the column undecodable"
_UNFIT: Final = (ValueError, TypeError, OverflowError)
"""What pyarrow raises for a value that does not fit its type, and `_decode_value` for one that cannot be decoded."""


class Decoder:
    """Decodes the values of a query's records.

    Args:
        options: The options of the query.
        ids: The id of the schema that decides the type of each topic's values, or None for the latest ones.

    Attributes:
        type: The type of the column `decoded` in Spark.

    Raises:
        OptionError: no topic has a schema.
        LookupError: a schema of `ids` is not there.
        LogNameError: a topic of the query is missing, or the topic of the schemas.
        OSError: a directory cannot be read.
    """

    def __init__(self, options: SourceOptions, ids: Mapping[str, int] | None = None) -> None:
        self._options = options
        is_topic = options.schemas == FROM_TOPIC
        self._source = TopicSource(_topic_reader(options)) if is_topic else http_source.HttpSource(options.schemas)
        self._schemas: dict[object, Parsed | UndecodableError] = {}
        self._ids = _latest_ids(options, self._source) if ids is None else ids
        self._readers = {topic: self._source.by_id(id_) for topic, id_ in self._ids.items()}
        self._types = {topic: type_of(schema) for topic, schema in self._readers.items()}
        self._fitting = {topic for topic, kind in self._types.items() if is_fitting(self._readers[topic], kind)}
        fields = [*self._types.items()]
        self._arrow_type = fields[0][1] if options.has_one_topic else pa.struct(fields)
        schema = from_arrow_schema(pa.schema([(DECODED_COLUMN, self._arrow_type)]))
        self.type = to_arrow_schema(schema).field(0).type

    def __reduce__(self) -> tuple[Any, ...]:
        """Have workers look the schemas up themselves."""
        return Decoder, (self._options, self._ids)

    def decode(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Return the columns `decoded` and `undecodable` of records.

        Args:
            batch: The records' `INPUT_COLUMNS`.

        Raises:
            UndecodableError: a value cannot be decoded, in failfast mode, or the registry does not answer.
        """
        rows = [*zip(*(batch.column(name).to_pylist() for name in INPUT_COLUMNS), strict=True)]
        reasons: list[str | None] = [None] * len(rows)

        def attempt(index: int, work: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return work(*arguments)
            except UnavailableError:
                raise
            except _UNFIT as error:
                topic, partition, offset = rows[index][:3]
                if self._options.mode == "failfast":
                    raise UndecodableError(f"{topic}-{partition}, offset {offset}: {error} ({_HINT})") from None
                reasons[index] = str(error)
                return None

        values = [attempt(index, self._decode_value, *row) for index, row in enumerate(rows)]
        try:
            decoded = pa.array(values, self._arrow_type)
        except _UNFIT:
            arrays = [attempt(index, pa.array, [value], self._arrow_type) for index, value in enumerate(values)]
            decoded = pa.concat_arrays([array or pa.nulls(1, self._arrow_type) for array in arrays])
        return {DECODED_COLUMN: decoded.cast(self.type), UNDECODABLE_COLUMN: pa.array(reasons, pa.string())}

    def _decode_value(self, topic: str, _: int, __: int, value: bytes | None, headers: Any, is_control: Any) -> Any:
        if value is None or is_control or topic not in self._readers:
            return None
        values, pairs = Values(self._source), [(header["key"], header["value"]) for header in headers or ()]
        id_, payload = values.locate(value, pairs)
        if id_ not in self._schemas:
            try:
                self._schemas[id_] = values.find(value, pairs)[1]
            except UndecodableError as error:
                self._schemas[id_] = error
        schema = self._schemas[id_]
        if isinstance(schema, UndecodableError):
            raise schema
        try:
            decoded = read_value(payload, schema, self._readers[topic])
            if topic not in self._fitting:
                decoded = fit_value(decoded, self._types[topic])
        except Exception as error:  # noqa: BLE001 - libraries raise many kinds
            values.decode(value, pairs)  # Raises an error that says more about a broken payload.
            raise UndecodableError(f"The value has the id {id_}, but not the type of the column: {error}") from None
        return decoded if self._options.has_one_topic else {topic: decoded}


def _latest_ids(options: SourceOptions, source: SchemaSource) -> dict[str, int]:
    ids: dict[str, int] = {}
    reason: object = "there is no topic"
    for topic in sorted({topic for topic, _ in QueryLogs(options).update()}):
        try:
            ids[topic] = source.latest(f"{topic}-value")[0]
        except LookupError as error:
            reason = error
    if not ids:
        raise OptionError(f"schemas: {reason}")
    return ids


def _topic_reader(options: SourceOptions) -> Callable[[], tuple[bool, list[Record]]]:
    """Return a function that reads the new records of the topic `_schemas` in the query's directories."""
    own = replace(options, topics=(SCHEMAS_TOPIC,), topics_pattern="", assignment=None, mode="failfast")
    logs, start = QueryLogs(own), 0

    def read() -> tuple[bool, list[Record]]:
        nonlocal start
        ((_, log),) = logs.update().items()
        ranges = [*log.ranges(OffsetInterval(start, log.end_offset), own.split_bytes)]
        start = log.end_offset
        batches = read_ranges(ranges, own, ("key", "value"))
        rows = [row for batch in batches for row in batch.to_pylist()]
        return False, [Record(row["key"], row["value"]) for row in rows if row["key"] is not None]

    return read
