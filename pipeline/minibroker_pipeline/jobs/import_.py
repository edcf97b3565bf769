"""Imports files with Spark (Parquet, JSON, CSV or any other Spark format) into topic directories, without a broker."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DateType, IntegralType, StringType, TimestampNTZType, TimestampType

from minibroker_pipeline.log_directories.directory_commit import DirectoryStateError, is_empty_target, local_path
from minibroker_pipeline.payloads import Payload, compose

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FORMAT: Final = "minibroker"
_RECORD_COLUMNS: Final = ("key", "value", "headers", "timestamp", "topic", "partition", "offset")
_AS_TEXT: Final = ("key", "value", "topic")
SaveMode = Literal["error", "append", "overwrite"]


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """The settings of an import. Expressions are in Spark SQL and use the columns of the files.

    Attributes:
        format: the format of the files, by its Spark name.
        schema: the schema of the files in Spark's DDL. By default Spark infers it.
        read_options: options for reading the format.
        topic: the topic of all records. By default the column `topic` names the topic of each row.
        columns: expressions for the columns that make up a value. The default is all columns.
        key: an expression. By default the column `key` is used, if it exists.
        value: like `key`.
        timestamp: like `key`.
        partition: like `key`.
        headers: like `key`.
        payload: the format of the values. Raw values are used unchanged; other values are made from the columns.
        order_by: expressions that sort the records within each partition.
        keep_offsets: whether the column `offset` contains the offsets of the records.
        save: "error" requires a new directory, "append" adds to an existing one, "overwrite" replaces topics in
            one.
        options: options of the data source's writer.
    """

    format: str = "parquet"
    schema: str = ""
    read_options: Mapping[str, str] = field(default_factory=dict[str, str])
    topic: str = ""
    columns: tuple[str, ...] = ()
    key: str = ""
    value: str = ""
    timestamp: str = ""
    partition: str = ""
    headers: str = ""
    payload: Payload = field(default_factory=Payload)
    order_by: tuple[str, ...] = ()
    keep_offsets: bool = False
    save: SaveMode = "error"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def import_files(
    spark: "SparkSession", paths: Sequence[str], target: str, settings: ImportSettings | None = None
) -> None:
    """Write the rows of files as records of topics in the data directory `target`. Either all rows are written or none.

    Errors in the query are raised by Spark.

    Raises:
        DirectoryStateError: the target is not writable.
        ValueError: a setting is invalid.
    """
    settings = settings or ImportSettings()
    directory = local_path(target)
    if settings.save == "error" and os.path.isdir(directory) and not is_empty_target(directory):
        raise DirectoryStateError(f"{directory} is there already and not empty: append to it, or name a new directory")
    reader = spark.read.format(settings.format).options(**settings.read_options)
    if settings.schema:
        reader = reader.schema(settings.schema)
    write(records(reader.load(list(paths)), settings), directory, settings)


def records(frame: "DataFrame", settings: ImportSettings) -> "DataFrame":
    """Return the rows of a table with the columns that the writer expects.

    Raises:
        ValueError: no column or expression gives a value.
    """
    if settings.value and settings.payload.form != "raw":
        raise ValueError("value: an expression is a value already; json and avro make one of columns")
    names = ("key", "value", "timestamp", "partition", "headers")
    expressions = {name: f.expr(text).alias(name) for name in names if (text := getattr(settings, name))}
    columns: list[Column] = [f.expr(text) for text in settings.columns]
    if not columns:
        columns = [f.col(f"`{name}`") for name in frame.columns if name not in expressions]
    elif settings.payload.form != "raw":
        # Keep the record's own columns, such as its timestamp, except those that an expression replaces.
        columns += [
            f.col(name) for name in frame.columns if name in _RECORD_COLUMNS and name not in {*expressions, "value"}
        ]
    made_of = settings.columns or [name for name in frame.columns if name not in {*expressions, *_RECORD_COLUMNS}]
    if settings.payload.form != "raw" and not made_of:
        raise ValueError(f"value: there is nothing to make it of, only {', '.join(frame.columns)}")
    order = [f.expr(text) for text in settings.order_by]
    frame = frame.orderBy(*order) if order else frame
    frame = compose(frame.select(*columns, *expressions.values()), settings.payload)
    if "value" not in frame.columns:
        raise ValueError(f"value: none of {', '.join(frame.columns)}; name an expression, or make it of columns")
    # Without kept offsets, omit the last column, `offset`.
    columns_to_write = _RECORD_COLUMNS if settings.keep_offsets else _RECORD_COLUMNS[:-1]
    return frame.select(*(_cast(frame, name) for name in columns_to_write if name in frame.columns))


def _cast(frame: "DataFrame", name: str) -> "Column":
    """Cast a column to the writer's type: plain values to text, and dates to timestamps."""
    kind = frame.schema[name].dataType
    column = f.col(name)
    if name in _AS_TEXT and not isinstance(kind, BinaryType | StringType):
        return column.cast("string").alias(name)
    if name == "timestamp" and isinstance(kind, StringType | DateType | TimestampNTZType):
        return column.cast("timestamp").alias(name)
    if name == "timestamp" and not isinstance(kind, TimestampType | IntegralType):
        raise ValueError(f"timestamp: {kind.simpleString()} is neither a time nor a whole number of milliseconds")
    if name == "partition":
        return column.cast("int").alias(name)
    if name == "headers":
        # Replace null arrays with empty ones, because for a null array the JVM's Arrow writer goes back to the last
        # array that is not null.
        return f.coalesce(column, f.array()).alias(name)
    return column


def write(frame: "DataFrame", directory: str, settings: ImportSettings) -> None:
    """Write the records in the tasks of the query. If offsets are kept, each partition has its own task instead."""
    options = {**settings.options, **({"topic": settings.topic} if settings.topic else {})}
    if settings.keep_offsets:
        options["keepOffsets"] = "true"
        for name in ("partition", "offset"):
            if name not in frame.columns:
                raise ValueError(f"keepOffsets: the column {name} is missing")
        partition_columns = [name for name in ("topic", "partition") if name in frame.columns and name not in options]
        frame = frame.repartition(*partition_columns).sortWithinPartitions(*partition_columns, "offset")
    mode = "overwrite" if settings.save == "overwrite" else "append"
    frame.write.format(_FORMAT).mode(mode).options(**options).save(directory)
