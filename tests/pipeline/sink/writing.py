"""Writing without a JVM: Spark's calls to a writer, made in this process."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema

from minibroker_pipeline.decode import schema_of
from minibroker_pipeline.sink.writer import LogWriter
from tests.pipeline.source.directories import option_names, read

SCHEMA = schema_of(("key", "value", "timestamp", "headers", "topic", "partition", "offset"))
Row = dict[str, Any]


def batch_of(rows: Sequence[Row], names: Sequence[str] = ()) -> pa.RecordBatch:
    """Return the rows as a batch with their own columns, or with these."""
    columns = names or [name for name in SCHEMA.names if any(name in row for row in rows)]
    return pa.RecordBatch.from_pylist(list(rows), pa.schema([SCHEMA.field(name) for name in columns]))


def new_writer(target: Path | str, names: Iterable[str], *, overwrite: bool = False, **options: Any) -> LogWriter:
    schema = from_arrow_schema(pa.schema([SCHEMA.field(name) for name in names]))
    return LogWriter(option_names({"path": target, **options}), schema, overwrite=overwrite)


def run_tasks(writer: LogWriter, tasks: Sequence[Sequence[Row]]) -> list[WriterCommitMessage | None]:
    """Run the tasks, with their rows in batches of two, and return their reports."""
    names = [name for name in SCHEMA.names if any(name in row for rows in tasks for row in rows)]
    return [
        writer.write(batch_of(rows[first : first + 2], names) for first in range(0, len(rows), 2)) for rows in tasks
    ]


def write(target: Path | str, *tasks: Sequence[Row], overwrite: bool = False, **options: Any) -> None:
    """Run a whole query with the rows of these tasks."""
    names = [name for name in SCHEMA.names if any(name in row for rows in tasks for row in rows)] or ["key", "value"]
    writer = new_writer(target, names, overwrite=overwrite, **options)
    try:
        writer.commit(run_tasks(writer, tasks))
    except BaseException:
        writer.abort([])
        raise


def values(target: Path | str, **options: Any) -> dict[tuple[str, int], list[bytes | None]]:
    """Return the values of the logs by partition, in offset order."""
    result: dict[tuple[str, int], list[bytes | None]] = {}
    for row in read(target, ("topic", "partition", "offset", "value"), **options):
        partition_values = result.setdefault((row["topic"], row["partition"]), [])
        partition_values.append(row["value"])
    return result
