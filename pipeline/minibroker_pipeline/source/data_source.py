"""`format("minibroker")`: Spark's `DataSource` over the log files of minibroker and of Apache Kafka, without a broker.

`pyspark_minibroker` lets Spark find it by its name; `spark.dataSource.register(MinibrokerDataSource)` does the same.
"""

from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from minibroker_pipeline.source.batch_reader import LogReader, PushdownLogReader
from minibroker_pipeline.source.options import parse_options
from minibroker_pipeline.source.reading import output_schema
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_pipeline.sink import writer as sink_writer
    from minibroker_pipeline.source import stream_reader

FORMAT: Final = "minibroker"


class MinibrokerDataSource(DataSource):
    """Log directories as a source for batch and streaming queries."""

    @classmethod
    def name(cls) -> str:
        """The name that `format` is called with."""
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
        return stream_reader.LogStreamReader(parse_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:  # noqa: FBT001 - Spark's signature
        """For `df.write`. `OptionError`, `DirectoryStateError`, `DirectoryInUseError`, `OSError`."""
        return sink_writer.LogWriter(self.options, schema, overwrite=overwrite)
