"""Tables that SQL creates with `USING minibroker`, without a catalog of our own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.pipeline.source.directories import close, offsets, orders


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, topic: str) -> Iterator[str]:
    """A table of a topic with three records."""
    close(orders(tmp_path / "data", 1))
    name = topic.replace("-", "_")
    spark.sql(f"CREATE TABLE {name} USING minibroker OPTIONS (path '{tmp_path}/data', topics 'orders', codec 'zstd')")
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_a_table_is_read_and_written(spark: SparkSession, tmp_path: Path, table: str) -> None:
    spark.sql(f"INSERT INTO {table} (key, value) VALUES (X'61', CAST('b' AS BINARY))")
    rows = spark.sql(f"SELECT offset, CAST(value AS STRING) AS text FROM {table} WHERE offset > 1 ORDER BY offset")
    assert [tuple(row) for row in rows.collect()] == [(2, "v0"), (3, "b")]
    assert spark.read.table(table).count() == 4
    assert offsets(tmp_path / "data") == [0, 1, 2, 3]


@pytest.mark.torture
def test_a_table_is_followed_with_options_of_the_query(spark: SparkSession, tmp_path: Path, table: str) -> None:
    stream = spark.readStream.option("startingOffsets", "earliest").table(table).select("offset").writeStream
    target = stream.format("parquet").trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checks"))
    assert target.start(str(tmp_path / "out")).awaitTermination(100)
    assert sorted(row.offset for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [0, 1, 2]


def test_rows_of_a_table_go_elsewhere_with_the_options_of_that_query(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    copy = spark.read.table(table).write.format("minibroker").mode("append")
    copy.options(partitions=2).save(str(tmp_path / "copy"))
    assert sorted(path.name for path in (tmp_path / "copy").glob("orders-*")) == ["orders-0", "orders-1"]


def test_a_wrong_option_of_a_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="there is no option 'topcs'; is topics meant"):
        spark.sql(f"CREATE TABLE wrong USING minibroker OPTIONS (path '{tmp_path}', topcs 'orders')")


def test_a_table_with_columns_of_its_own_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    close(orders(tmp_path / "data", 1))
    spark.sql(f"CREATE TABLE narrow (offset BIGINT) USING minibroker OPTIONS (path '{tmp_path}/data')")
    with pytest.raises(AnalysisException, match="CREATE TABLE without a list of columns"):
        spark.sql("SELECT * FROM narrow").collect()
    spark.sql("DROP TABLE narrow")
