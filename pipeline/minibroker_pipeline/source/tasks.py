"""Spark's input partitions of the data source: what one task reads, and its rows.

Batch and streaming readers share them. They run in Spark's Python workers.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minibroker_pipeline.decode.decoder import settle
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.options import SourceOptions
from minibroker_pipeline.source.planning import LogRange
from minibroker_pipeline.source.reading import ReadSettings, output_schema, read_ranges


class LogInputPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def read_settings(options: SourceOptions, schema: StructType) -> tuple[ReadSettings, pa.Schema]:
    """The settings for reading rows of `schema`: only its columns are decoded. `OptionError` for unknown columns."""
    requested = to_arrow_schema(schema, timezone="UTC")
    columns = tuple(requested.names)
    try:
        known = output_schema(columns)
    except ValueError as error:
        raise OptionError(f"schema: {error}") from None
    for field, given in zip(known, requested, strict=True):
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
    return settings, requested


def read_task(partition: InputPartition, settings: ReadSettings, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with exactly the schema that Spark compares them with."""
    if isinstance(partition, LogInputPartition):  # Spark makes one of its own when there is nothing to read
        settle(settings.engine)
        for batch in read_ranges(partition.ranges, settings):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
