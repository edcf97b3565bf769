"""`df.write.format("minibroker")` in Spark: written rows are read back unchanged, and a failed query leaves nothing."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

ROWS = 6_000
COLUMNS = ("key", "value", "timestamp", "headers")


def frame(spark: SparkSession) -> DataFrame:
    """Return rows with null keys, tombstones, headers and timestamps, in four tasks."""
    return spark.range(0, ROWS, 1, 4).selectExpr(
        "CASE WHEN id % 10 > 0 THEN CAST(CAST(id % 100 AS STRING) AS BINARY) END AS key",
        "CASE WHEN id % 17 > 0 THEN CAST(concat('value ', id) AS BINARY) END AS value",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "CASE WHEN id % 3 = 0 THEN array(named_struct('key', 'é', 'value', X'FF'), "
        "named_struct('key', '', 'value', CAST(NULL AS BINARY))) END AS headers",
    )


def rows_of(frame: DataFrame, *columns: str) -> list[str]:
    return sorted(map(str, frame.select(*columns).collect()))


def test_rows_are_read_back_and_copied_with_their_offsets(spark: SparkSession, tmp_path: Path) -> None:
    target, copy = str(tmp_path / "data"), str(tmp_path / "copy")
    written = frame(spark)
    for mode in ("append", "overwrite", "append"):
        writer = written.write.format("minibroker").mode(mode)
        writer.options(topic="orders", partitions=3, codec="lz4", batchBytes=4000).save(target)
    read = spark.read.format("minibroker").options(includeHeaders=True).load(target)
    assert rows_of(read, *COLUMNS) == rows_of(written.union(written), *COLUMNS)
    ordered = read.repartition("partition").sortWithinPartitions("partition", "offset")
    ordered.write.format("minibroker").mode("append").options(keepOffsets=True, codec="zstd").save(copy)
    copied = spark.read.format("minibroker").options(includeHeaders=True).load(copy)
    assert rows_of(read, "topic", "partition", "offset", *COLUMNS) == rows_of(
        copied, "topic", "partition", "offset", *COLUMNS
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


def test_a_task_that_fails_leaves_the_directory_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    failing = spark.range(0, 1000, 1, 3).selectExpr(
        "CAST(CASE WHEN id = 777 THEN raise_error('not this one') ELSE 'x' END AS BINARY) AS value"
    )
    for directory in (tmp_path / "new", tmp_path):
        with pytest.raises(PySparkException, match="not this one"):
            failing.write.format("minibroker").mode("append").option("topic", "orders").save(str(directory))
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == []


def test_what_cannot_be_written_is_told_before_any_task_runs(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("struct(id) AS value")
    with pytest.raises(PySparkException, match=r"value: struct<id: int64[^>]*> is not bytes or text"):
        rows.write.format("minibroker").mode("append").option("topic", "a").save(str(tmp_path / "data"))
    assert list(tmp_path.iterdir()) == []
