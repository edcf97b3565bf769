"""`format("minibroker")`: the log files of minibroker and of Apache Kafka as a table, without a broker.

`pyspark_minibroker` lets Spark find it by its name; `spark.dataSource.register(MinibrokerDataSource)` does the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from minibroker_pipeline.decode.warm_up import settle
from minibroker_pipeline.source.filter_pushdown import Narrowing
from minibroker_pipeline.source.offsets import check_bounds, ending_offsets, ends_before, starting_offsets
from minibroker_pipeline.source.options import EARLIEST, OptionError, SourceOptions, parse_options
from minibroker_pipeline.source.planning import LogRange, pack
from minibroker_pipeline.source.query_logs import FollowedLogs
from minibroker_pipeline.source.reading import DAMAGE_COLUMN, ReadSettings, output_schema, read_ranges

FORMAT: Final = "minibroker"


class LogInputPartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


class MinibrokerDataSource(DataSource):
    """Log directories as a source for batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        """What `format` is called with."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that the options ask for."""
        return from_arrow_schema(output_schema(parse_options(self.options).columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`. `OptionError`."""
        options = parse_options(self.options)
        kind = PushdownLogReader if options.filter_pushdown else LogReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """For `spark.readStream`. `OptionError`."""
        from minibroker_pipeline.source.stream_reader import LogStreamReader  # noqa: PLC0415 - which imports this module

        return LogStreamReader(parse_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: FBT001 - Spark's signature
        """For `df.write`. `OptionError`, `DirectoryStateError`, `DirectoryInUseError`, `OSError`."""
        from minibroker_pipeline.sink.writer import LogWriter  # noqa: PLC0415 - readers need none of it

        return LogWriter(self.options, schema, overwrite=overwrite)


def read_settings(options: SourceOptions, schema: StructType) -> tuple[ReadSettings, pa.Schema]:
    """How rows of `schema` are read: only its columns are decoded. `OptionError` for columns that there are not."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = tuple(wanted.names)
    try:
        known = output_schema(columns)
    except ValueError as error:
        raise OptionError(f"schema: {error}") from None
    for field, given in zip(known, wanted, strict=True):
        if field.type != given.type:
            raise OptionError(f"schema: {field.name} is {field.type}, not {given.type}")
    settings = ReadSettings(
        columns=columns,
        isolation=options.isolation,
        include_control=options.include_control,
        verify_crc=options.verify_crc,
        mode=options.mode,
        engine=options.engine,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    return settings, wanted


def read_task(partition: InputPartition, settings: ReadSettings, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with exactly the schema that Spark compares them with."""
    if isinstance(partition, LogInputPartition):  # Spark makes one of its own when there is nothing to read
        settle(settings.engine)
        for batch in read_ranges(partition.ranges, settings):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class LogReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._settings, self._schema = read_settings(options, schema)
        self._narrowing = Narrowing(gives_nulls=DAMAGE_COLUMN in self._settings.columns)

    def partitions(self) -> list[InputPartition]:
        """See `planning`. `DamagedLogError`, `DataLossError`, `LogNameError`, `OptionError`, `OSError`."""
        options, narrowing = self._options, self._narrowing
        logs = FollowedLogs(options).update()
        starts = starting_offsets(options, logs, EARLIEST)
        ends = ending_offsets(options, logs)
        if options.mode == "failfast":
            for key, log in logs.items():
                if not ends_before(options, key, log):
                    log.check()
        starts = check_bounds(logs, starts, ends, fail_on_data_loss=options.fail_on_data_loss)
        ranges = (
            one
            for key, log in logs.items()
            if narrowing.admits(key)
            for one in log.ranges(narrowing.narrowed(starts[key], ends[key]), options.split_bytes)
        )
        return [LogInputPartition(task) for task in pack(ranges, split_bytes=options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a worker."""
        return read_task(partition, self._settings, self._schema)


class PushdownLogReader(LogReader):
    """Takes over what filters say about topic, partition, offset and timestamp.

    A class of its own: Spark refuses sources that do this while `spark.sql.python.filterPushdown.enabled` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Returns those that Spark still has to apply."""
        return [one for one in filters if not self._narrowing.take(one)]
