"""`spark.read.format("minibroker")`: Spark's `DataSourceReader` for batch queries."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from minibroker_pipeline.source.filter_pushdown import PushedFilters
from minibroker_pipeline.source.offsets import check_bounds, ending_offsets, ends_before, starting_offsets
from minibroker_pipeline.source.options import EARLIEST, SourceOptions
from minibroker_pipeline.source.planning import pack
from minibroker_pipeline.source.query_logs import QueryLogs
from minibroker_pipeline.source.reading import DAMAGE_COLUMN
from minibroker_pipeline.source.tasks import LogInputPartition, read_settings, read_task


class LogReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._settings, self._schema = read_settings(options, schema)
        self._filters = PushedFilters(gives_nulls=DAMAGE_COLUMN in self._settings.columns)

    def partitions(self) -> list[InputPartition]:
        """See `planning`. `DamagedLogError`, `DataLossError`, `LogNameError`, `OptionError`, `OSError`."""
        options, filters = self._options, self._filters
        logs = QueryLogs(options).update()
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
            if filters.admits(key)
            for one in log.ranges(filters.narrowed(starts[key], ends[key]), options.split_bytes)
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
        return [one for one in filters if not self._filters.take(one)]
