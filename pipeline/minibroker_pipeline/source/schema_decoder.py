"""The columns `decoded` and `undecodable` of a query: values that begin with a schema id, as Spark's structs.

The latest version of the subject TOPIC-value decides the type of a topic's values. The driver looks it up when the
query begins, and passes its id to the tasks. A record with another schema is resolved to this one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.options import DECODED_COLUMN, FROM_TOPIC, UNDECODABLE_COLUMN, SourceOptions
from minibroker_pipeline.source.planning import OffsetInterval, QueryLogs
from minibroker_pipeline.source.reading import read_ranges
from minibroker_pipeline.source.schema_types import fit_value, is_fitting, read_value, type_of
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_registry.records import Record
from minibroker_registry.schema import Parsed
from minibroker_registry.values import SchemaSource, TopicSource, UnavailableError, UndecodableError, Values

with lazy:
    from minibroker_registry import http_source

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
        self.type = to_arrow_schema(schema, timezone="UTC").field(0).type

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
