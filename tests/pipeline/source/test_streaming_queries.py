"""Streaming queries on log directories, with Spark's checkpoints."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipeline.source.directories import add, orders
from tests.storage.helpers import SMALL


def run(spark: SparkSession, home: Path, **options: Any) -> list[int]:
    """Update the Parquet table from the logs, and return the number of rows of each micro-batch."""
    source = spark.readStream.format("minibroker").options(startingOffsets="earliest", **options)
    frame = source.load(str(home / "data")).select("partition", "offset", "value")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(home / "table"))
    try:
        assert query.awaitTermination(100)
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    finally:
        query.stop()


def table(spark: SparkSession, home: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(home / "table")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def test_restarts_and_replays_leave_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    homes = [orders(tmp_path / "data", 100, name=f"orders-{partition}") for partition in range(2)]
    assert run(spark, tmp_path, maxOffsetsPerTrigger=250) == [250, 250, 100]
    for home in homes:
        add(home, 50)
        home.log.roll(0)
    assert run(spark, tmp_path) == [300]
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / f"{last}").unlink()
    (commits / f".{last}.crc").unlink()
    run(spark, tmp_path)  # This repeats the last micro-batch.
    add(homes[0], 1)
    assert run(spark, tmp_path) == [3]
    assert table(spark, tmp_path) == [(0, offset) for offset in range(453)] + [(1, offset) for offset in range(450)]


@pytest.mark.torture
def test_a_query_whose_records_are_gone_fails_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    home = orders(tmp_path / "data", config=SMALL)
    run(spark, tmp_path, maxOffsetsPerTrigger=1000)
    add(home, 60)
    bases = [segment.base_offset for segment in home.log.segments]
    for path in home.path.iterdir():
        if path.name[:20].isdecimal() and int(path.name[:20]) < bases[-2]:
            path.unlink()
    with pytest.raises(StreamingQueryException, match=rf"orders-0: offsets 180 to {bases[-2] - 1} were deleted"):
        run(spark, tmp_path)
    run(spark, tmp_path, failOnDataLoss=False)
    assert [offset for _, offset in table(spark, tmp_path)] == [*range(180), *range(bases[-2], 360)]
