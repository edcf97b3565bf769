"""`format("minibroker")`: Spark's `DataSource` for log files of minibroker and of Apache Kafka, without a broker.

Spark finds the source by name through the package `pyspark_minibroker`. Alternatively, register it with
`spark.dataSource.register(MinibrokerDataSource)`.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from minibroker_pipeline.decode.decoder import prepare_worker
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.offsets import (
    Offsets,
    check_bounds,
    ending_offsets,
    ends_within_log,
    limit_ends,
    starting_offsets,
)
from minibroker_pipeline.source.options import (
    DAMAGE_COLUMN,
    DECODED_COLUMN,
    EARLIEST,
    LATEST,
    OPTIONS,
    UNDECODABLE_COLUMN,
    SourceOptions,
    parse_options,
)
from minibroker_pipeline.source.planning import LogRange, OffsetInterval, QueryLog, QueryLogs, pack
from minibroker_pipeline.source.reading import DataLossError, output_schema, read_ranges
from minibroker_pipeline.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    from_arrow_schema,
    to_arrow_schema,
)
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.data_directory.names import TopicPartition

with lazy:
    from minibroker_pipeline.sink import options as sink_options
    from minibroker_pipeline.sink import writer as sink_writer
    from minibroker_pipeline.source import schema_decoder


class LogInputPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def check_schema(schema: StructType, options: SourceOptions) -> pa.Schema:
    """Return the Arrow schema of a query's rows.

    Raises:
        OptionError: the schema has an unknown column or a wrong type.
    """
    requested = to_arrow_schema(schema)
    try:
        known_schema = output_schema(tuple(requested.names), options.decoder)
    except ValueError as error:
        raise OptionError(f"schema: {error}") from None
    for field, requested_field in zip(known_schema, requested, strict=True):
        if field.type != requested_field.type:
            raise OptionError(f"schema: {field.name} is {field.type}, not {requested_field.type}")
    return requested


def read_task(partition: InputPartition, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in the schema that Spark expects."""
    if isinstance(partition, LogInputPartition):  # For an empty plan, Spark passes an input partition of its own class.
        prepare_worker(options.engine)
        decoder = options.decoder
        inputs = [name for name in schema.names if name not in {DECODED_COLUMN, UNDECODABLE_COLUMN}]
        inputs += [] if decoder is None else [name for name in schema_decoder.INPUT_COLUMNS if name not in inputs]
        for batch in read_ranges(partition.ranges, options, tuple(inputs)):
            columns = dict(zip(inputs, batch.columns, strict=True)) | ({} if decoder is None else decoder.decode(batch))
            yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


class LogReader(DataSourceReader):
    """Reads the records that exist when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = check_schema(schema, options)
        self._filters = PushedFilters(gives_nulls=DAMAGE_COLUMN in self._schema.names)

    def partitions(self) -> list[InputPartition]:
        """Plan the query's tasks (see `planning`).

        Raises:
            DamagedLogError: the end of a log is damaged, in failfast mode.
            DataLossError: offsets of the query no longer exist.
            LogNameError: a topic is missing, or a file has an invalid name.
            OptionError: a starting or ending position is invalid.
            OSError: a directory cannot be read.
        """
        options, filters = self._options, self._filters
        logs = QueryLogs(options).update()
        starts, ends = starting_offsets(options, logs, EARLIEST), ending_offsets(options, logs)
        if options.mode == "failfast":
            for key, log in logs.items():
                if not ends_within_log(options, key, log):
                    log.check()
        starts = check_bounds(logs, starts, ends, fail_on_data_loss=options.fail_on_data_loss)
        ranges = (
            log_range
            for key, log in logs.items()
            if filters.admits(key)
            for log_range in log.ranges(filters.narrow(starts[key], ends[key]), options.split_bytes)
        )
        return [LogInputPartition(task) for task in pack(ranges, split_bytes=options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task. Spark calls this method in a worker."""
        return read_task(partition, self._options, self._schema)


class PushdownLogReader(LogReader):
    """A reader to which Spark delegates filters on topic, partition, offset and timestamp.

    This is a separate class because Spark refuses readers with `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is false.
    """

    # These annotations are strings, because Spark 4.0 does not have the classes of filters.
    def pushFilters(self, filters: "list[datasource.Filter]") -> "Iterable[datasource.Filter]":  # noqa: N802 - Spark's name
        """Return the filters that Spark must still apply."""
        return [condition for condition in filters if not self._filters.take(condition)]


_logger = logging.getLogger(__name__)
JsonOffsets = dict[str, dict[str, Any]]
_ID: Final = "id"
_TABLE_OPTIONS: Final = "minibroker"


def to_json(offsets: Offsets, ids: Mapping[str, str]) -> JsonOffsets:
    """Convert offsets, and the ids of topics, to their checkpoint format."""
    by_topic: JsonOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    for topic, partitions in by_topic.items():
        if topic in ids:
            partitions[_ID] = ids[topic]
    return by_topic


def from_json(offsets: JsonOffsets) -> Offsets:
    """Convert offsets from their checkpoint format."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
        if partition != _ID
    }


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream of records. The driver keeps the reader as long as the query runs.

    Workers call only `read`, on a copy of the reader.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ending is not None:
            raise OptionError("endingOffsets: a stream has no end; Trigger.AvailableNow stops at the present one")
        self._options = options
        self._schema = check_schema(schema, options)
        self._query_logs = QueryLogs(options, has_ids=True)
        self._logs: dict[TopicPartition, QueryLog] = {}
        self._target: Offsets | None = None
        self._planned: JsonOffsets = {}

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the offsets at which a new query begins.

        These are set by `startingOffsets`. The default is the end of each log, as in the connector.
        """
        logs = self._update(must_exist=True)
        starts = starting_offsets(self._options, logs, LATEST)
        starts = {key: max(start, logs[key].start_offset) for key, start in starts.items()}
        self._planned = to_json(starts, self._query_logs.ids)
        return self._planned

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit set by `maxOffsetsPerTrigger`."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the query stop at the current ends of the logs."""
        self._target = {key: log.end_offset for key, log in self._update().items()}

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: JsonOffsets | None = None, limit: ReadLimit | None = None
    ) -> JsonOffsets:
        """Return the offsets at which the next micro-batch ends. Before 4.2, Spark passes no arguments.

        Raises:
            DamagedLogError: the end of a log is damaged, in failfast mode.
            DataLossError: offsets of the query no longer exist.
            OSError: a directory cannot be read.
        """
        if start is None:
            if self._options.max_offsets_per_trigger is not None:
                raise OptionError(
                    "maxOffsetsPerTrigger: this needs Spark 4.2; before it, a micro-batch has all there is"
                )
            start = self._planned
        logs = self._update()
        for topic, partitions in start.items():
            if _ID not in partitions and topic in self._query_logs.ids and any(partitions.values()):
                _logger.warning("the checkpoint has no id of topic %s; from now on, it has that of today", topic)
        starts = self._starts(start, logs)
        ends = {key: self._end(key, log, starts[key]) for key, log in logs.items()}
        if isinstance(limit, ReadMaxRows):
            ends = limit_ends(logs, starts, ends, limit.max_rows, self._options)
        return to_json(ends, self._query_logs.ids)

    def reportLatestOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Return the last known end offsets of the logs, for Spark to show in the query's progress."""
        return to_json({key: log.end_offset for key, log in self._logs.items()}, {})

    def _update(self, *, must_exist: bool = False) -> dict[TopicPartition, QueryLog]:
        self._logs = self._query_logs.update(must_exist=must_exist)
        if self._options.mode == "failfast":
            for log in self._logs.values():
                log.check()
        return self._logs

    def _find_recreated(self, offsets: JsonOffsets) -> set[str]:
        """Return the topics that were deleted and created again since these offsets were noted.

        Raises:
            DataLossError: there is such a topic, and failOnDataLoss is true.
        """
        ids = self._query_logs.ids
        topics = {
            topic for topic, noted in offsets.items() if ids.get(topic) not in {None, noted.get(_ID, ids.get(topic))}
        }
        if topics and self._options.fail_on_data_loss:
            topic = min(topics)
            raise DataLossError(
                f"{topic} was deleted and created again: its id is {ids[topic]}, and the query was at {offsets[topic]}"
            )
        return topics

    def _starts(self, start: JsonOffsets, logs: dict[TopicPartition, QueryLog]) -> Offsets:
        """Return the offset at which to continue reading each existing log.

        New partitions, and topics that were created again, are read from their beginning.

        Raises:
            DataLossError: offsets of the query no longer exist.
        """
        recreated = self._find_recreated(start)
        starts = {key: offset for key, offset in from_json(start).items() if key[0] not in recreated}
        for (topic, partition), offset in starts.items():
            if (topic, partition) not in logs and self._options.fail_on_data_loss:
                raise DataLossError(f"{topic}-{partition} has been deleted; the query was at {offset}")
        return {key: self._start(log, starts.get(key)) for key, log in logs.items()}

    def _start(self, log: QueryLog, start: int | None) -> int:
        if start is None:
            return log.start_offset
        # A start after the end of the log means that offsets already read no longer exist. Spark's Kafka source also
        # fails then (`failOnDataLoss`).
        if start > log.tail.log_end_offset:
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{log.name} ends at offset {log.tail.log_end_offset}, but the query has read to {start}: the topic"
                    " was made again, or its end was lost"
                )
            return log.start_offset
        if start < log.start_offset and self._options.fail_on_data_loss:
            raise DataLossError(f"{log.name}: offsets {start} to {log.start_offset - 1} were deleted by retention")
        return max(start, log.start_offset)

    def _end(self, key: TopicPartition, log: QueryLog, start: int) -> int:
        end = log.end_offset if self._target is None else min(self._target.get(key, start), log.end_offset)
        return max(end, start)  # The end never moves back, even if a stored high watermark is older than the last read.

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        """Plan the tasks of a micro-batch, which is either new or repeated after a restart.

        Raises the same errors as `latestOffset`.
        """
        ends, self._planned = from_json(end), end
        # After a restart, Spark repeats a planned micro-batch without calling latestOffset(), so the logs may have to
        # be updated here.
        if any(key not in self._logs or self._logs[key].tail.log_end_offset < ends[key] for key in ends):
            self._update()
        recreated = self._find_recreated(end)
        logs = {key: log for key, log in self._logs.items() if key in ends and key[0] not in recreated}
        starts = self._starts({topic: offsets for topic, offsets in start.items() if topic in end}, logs)
        self._check_ends(ends, logs)
        ranges: Iterator[LogRange] = (
            log_range
            for key, log in logs.items()
            for log_range in log.ranges(OffsetInterval(starts[key], ends[key]), self._options.split_bytes)
        )
        return [LogInputPartition(task) for task in pack(ranges, split_bytes=self._options.split_bytes)]

    def _check_ends(self, ends: Offsets, logs: dict[TopicPartition, QueryLog]) -> None:
        for key, end in ends.items():
            reached = logs[key].tail.log_end_offset if key in logs else 0
            if reached < end and self._options.fail_on_data_loss:
                raise DataLossError(f"{key[0]}-{key[1]} ends at offset {reached}, but the query has planned to {end}")

    def commit(self, end: JsonOffsets) -> None:
        """Forget the aborted transactions below these offsets, because everything below them was processed."""
        for key, offset in from_json(end).items():
            if key in self._logs and (transactions := self._logs[key].tail.transactions) is not None:
                transactions.forget(offset)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task. Spark calls this in a worker."""
        return read_task(partition, self._options, self._schema)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for workers. They need the settings for reading, but not the driver's state of the logs."""
        return {"_options": self._options, "_schema": self._schema}


class MinibrokerDataSource(DataSource):
    """A Spark data source that reads log directories in batch and streaming queries, and writes them."""

    _decoder: "schema_decoder.Decoder | None" = None

    @classmethod
    def name(cls) -> str:
        """Return the name of this data source, which users pass to `format`."""
        return "minibroker"

    def schema(self) -> StructType:
        """Return the schema, with the columns that the options select.

        Spark forgets the options of a table that SQL creates, but it keeps the schema. So the first column has them.
        """
        given: Mapping[str, str] = self.options
        is_table = "provider" in given  # Spark adds the properties of the table, and repeats its options with a prefix.
        if is_table:
            prefix = "option."
            given = {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}
            given["path"] = self.options.get("path", "")
        options = self._parse_options(given)
        schema = from_arrow_schema(output_schema(options.columns, options.decoder))
        if is_table:
            schema.fields[0].metadata = {_TABLE_OPTIONS: given}
        return schema

    def _options_of(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of a query, and of its table if it names no path."""
        given: Mapping[str, str] = self.options
        if "path" in given:
            return given
        of_table = [field.metadata[_TABLE_OPTIONS] for field in schema if _TABLE_OPTIONS in (field.metadata or {})]
        return {**(of_table[0] if of_table else {}), **given}

    def _parse_options(self, given: Mapping[str, str], columns: Collection[str] | None = None) -> SourceOptions:
        """Return the options. The decoder that some columns need has the same schemas in all calls."""
        if given is not self.options:  # A table has the options of both directions.
            only_for_writing = {name.lower() for name in sink_options.OPTIONS.keys() - OPTIONS}
            given = {name: text for name, text in given.items() if name.lower() not in only_for_writing}
        options = parse_options(given)
        if options.schemas and not {DECODED_COLUMN, UNDECODABLE_COLUMN}.isdisjoint(columns or options.columns):
            self._decoder = self._decoder or schema_decoder.Decoder(options)
        return replace(options, decoder=self._decoder)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for `spark.read`.

        Raises:
            OptionError: an option or the schema is invalid.
        """
        options = self._parse_options(self._options_of(schema), schema.fieldNames())
        return (PushdownLogReader if options.filter_pushdown else LogReader)(options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Return a reader for `spark.readStream`.

        Raises:
            OptionError: an option or the schema is invalid.
        """
        return LogStreamReader(self._parse_options(self._options_of(schema), schema.fieldNames()), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: FBT001 - Spark's signature
        """Return a writer for `df.write`.

        Raises:
            OptionError: an option or a column is invalid.
            DirectoryStateError: the target cannot be written to.
            DirectoryInUseError: a broker or another job uses the target.
            OSError: the target cannot be read.
        """
        options = self._options_of(schema)
        if options is not self.options:
            known = {name.lower() for name in sink_options.OPTIONS}
            options = {name: text for name, text in options.items() if name.lower() in known}
        return sink_writer.LogWriter(options, schema, overwrite=overwrite)


_MAX_INT64: Final = 2**63 - 1


class PushedFilters:
    """Filters on topic, partition, offset and timestamp, combined into bounds.

    Args:
        gives_nulls: whether the query also yields rows without an offset. Spark must then apply the filters too, to
            remove these rows.
    """

    def __init__(self, *, gives_nulls: bool = False) -> None:
        self._gives_nulls = gives_nulls
        #: The values that the filters allow, by column: topics and partitions.
        self._values: dict[str, set[Any]] = {}
        self._bounds = {"offset": (0, _MAX_INT64), "partition": (-_MAX_INT64, _MAX_INT64)}
        self._min_timestamp: int | None = None

    def take(self, condition: "datasource.Filter") -> bool:
        """Narrow the bounds by a condition, and return whether Spark can skip the condition."""
        is_met = False
        match condition:
            case datasource.EqualTo((column,), value):
                is_met = self._push_equal(column, {value})
            case datasource.In((column,), values):
                is_met = self._push_equal(column, set(values))
            case datasource.GreaterThan((column,), value):
                is_met = self._push_lower_bound(column, value, 1)
            case datasource.GreaterThanOrEqual((column,), value):
                is_met = self._push_lower_bound(column, value, 0)
            case datasource.LessThan((column,), value):
                is_met = self._push_upper_bound(column, value, 0)
            case datasource.LessThanOrEqual((column,), value):
                is_met = self._push_upper_bound(column, value, 1)
            case datasource.IsNotNull((column,)):
                is_met = column in {"topic", "partition", "offset"}
            case _:
                pass
        return is_met and not self._gives_nulls

    def _push_equal(self, column: str, values: set[Any]) -> bool:
        values.discard(None)
        if column in {"topic", "partition"}:
            self._values[column] = self._values.get(column, values) & values
            return True
        if values and column in {"offset", "timestamp"}:
            self._push_lower_bound(column, min(values), 0)
            self._push_upper_bound(column, max(values), 1)
        return column == "offset" and len(values) == 1

    def _push_lower_bound(self, column: str, value: Any, increment: int) -> bool:
        if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            # The time index only finds a position near the timestamp, so some earlier records are read as well.
            # Therefore Spark applies the filter too.
            timestamp = _milliseconds(value)
            self._min_timestamp = timestamp if self._min_timestamp is None else max(self._min_timestamp, timestamp)
        if column not in self._bounds:
            return False
        low, high = self._bounds[column]
        self._bounds[column] = max(low, cast("int", value) + increment), high
        return True

    def _push_upper_bound(self, column: str, value: Any, increment: int) -> bool:
        if column not in self._bounds:
            return False
        low, high = self._bounds[column]
        self._bounds[column] = low, min(high, value + increment)
        return True

    def admits(self, key: TopicPartition) -> bool:
        """Return whether any row of this log can match the filters."""
        low, high = self._bounds["partition"]
        key_columns = zip(("topic", "partition"), key, strict=True)
        return low <= key[1] < high and all(value in self._values.get(column, {value}) for column, value in key_columns)

    def narrow(self, first: int, end: int) -> OffsetInterval:
        """Return the part of [first, end) within the bounds."""
        low, high = self._bounds["offset"]
        return OffsetInterval(max(first, low), min(end, high), self._min_timestamp)


def _milliseconds(value: datetime) -> int:
    """Convert a timestamp to milliseconds: round down, then subtract 1 as a margin for float rounding."""
    return int(value.timestamp() * 1000) - 1
