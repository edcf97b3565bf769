"""Data directories for the source's tests, written with the storage package and read without a JVM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import from_arrow_schema

from minibroker_pipeline.source.data_source import LogInputPartition, LogReader, PushdownLogReader
from minibroker_pipeline.source.options import parse_options
from minibroker_pipeline.source.planning import LogRange
from minibroker_pipeline.source.reading import output_schema
from minibroker_storage.config import LogConfig
from tests.storage.helpers import NOW, SMALL, Home, a_batch

ROOMY = LogConfig(index_interval_bytes=200)
"""One large segment with many index entries."""


def orders(data_dir: Path, count: int = 60, *, config: LogConfig = SMALL, name: str = "orders-0") -> Home:
    """Write a log of batches with 3 records each, where the value is the offset and timestamps ascend by 1 ms."""
    data_dir.mkdir(exist_ok=True)
    home = Home(data_dir / name, config)
    add(home, count)
    return home


def add(home: Home, count: int) -> None:
    """Append records of the same kind."""
    for _ in range(count):
        first = home.log.log_end_offset
        home.append(a_batch(3, value=b"v%d" % first, timestamps=[NOW + first + index for index in range(3)]))


def close(home: Home) -> None:
    """Close the log like a broker that stops."""
    home.log.close()
    (home.path.parent / ".kafka_cleanshutdown").write_text("")


def option_names(given: dict[str, Any]) -> dict[str, str]:
    """Convert keyword arguments to option names. `topic_partitions` stands for a name with a dot."""
    return {name.replace("topic_partitions", "topic.partitions"): str(value) for name, value in given.items()}


def new_reader(data_dir: Path | str, columns: Sequence[str] = (), /, **options: Any) -> LogReader:
    parsed = parse_options(option_names({"path": data_dir, **options}))
    schema = from_arrow_schema(output_schema(tuple(columns) or parsed.columns))
    return (PushdownLogReader if parsed.filter_pushdown else LogReader)(parsed, schema)


def plan(data_dir: Path | str, filters: Sequence[Filter] = (), /, **options: Any) -> list[tuple[LogRange, ...]]:
    """Return the ranges of each task."""
    reader = new_reader(data_dir, **options)
    if isinstance(reader, PushdownLogReader):
        list(reader.pushFilters(list(filters)))
    return [task.ranges for task in reader.partitions() if isinstance(task, LogInputPartition)]


def read(
    data_dir: Path | str, columns: Sequence[str] = (), filters: Sequence[Filter] = (), /, **options: Any
) -> list[dict[str, Any]]:
    """Return all rows."""
    reader = new_reader(data_dir, columns, **options)
    if isinstance(reader, PushdownLogReader):
        list(reader.pushFilters(list(filters)))
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def offsets(data_dir: Path | str, **options: Any) -> list[int]:
    """Return the offsets of all rows."""
    return [row["offset"] for row in read(data_dir, ("offset",), **options)]
