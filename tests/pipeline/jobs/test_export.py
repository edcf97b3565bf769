"""Exporting log directories to Parquet."""

from datetime import date
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from minibroker_pipeline.jobs.export import ExportSettings, export
from minibroker_pipeline.payloads import Payload
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.jobs.directories import put_log

DAY = 86_400_000


@pytest.fixture
def directory(tmp_path: Path) -> str:
    records = [
        NewRecord(b"%d" % number, b'{"id": %d}' % number, number * DAY // 2, (("n", b"1"),)) for number in range(6)
    ]
    put_log(tmp_path / "data", "orders-0", bytes(build_batch(records)))
    put_log(tmp_path / "data", "old-0", bytes(build_message_set([NewRecord(None, b"{", 0)], magic=0)))
    return str(tmp_path / "data")


def test_records_are_in_folders_of_topics_and_days(directory: str, tmp_path: Path, spark: SparkSession) -> None:
    export(spark, [directory], str(tmp_path / "out"))
    assert {path.parent.relative_to(tmp_path / "out").as_posix() for path in tmp_path.glob("out/*/*/*.parquet")} == {
        "topic=orders/day=1970-01-01",
        "topic=orders/day=1970-01-02",
        "topic=orders/day=1970-01-03",
        "topic=old/day=__HIVE_DEFAULT_PARTITION__",
    }
    rows = spark.read.parquet(str(tmp_path / "out")).where("topic = 'orders'").orderBy("offset").collect()
    assert [row.day for row in rows] == [date(1970, 1, 1 + number // 2) for number in range(6)]
    assert [bytes(row.value) for row in rows] == [b'{"id": %d}' % number for number in range(6)]
    assert rows[0].headers[0].key == "n"
    with pytest.raises(AnalysisException):
        export(spark, [directory], str(tmp_path / "out"))


@pytest.mark.torture
def test_json_becomes_columns_and_what_is_none_is_kept(directory: str, tmp_path: Path, spark: SparkSession) -> None:
    settings = ExportSettings(payload=Payload("json", "id BIGINT", "permissive"), headers=False)
    export(spark, [directory], str(tmp_path / "out"), settings)
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert "headers" not in rows.columns
    assert [row.id for row in rows.where("topic = 'orders'").orderBy("offset").select("data.id").collect()] == [
        *range(6)
    ]
    assert [bytes(row.corrupt) for row in rows.where("topic = 'old'").collect()] == [b"{"]


@pytest.mark.torture
def test_topics_can_be_chosen(directory: str, tmp_path: Path, spark: SparkSession) -> None:
    export(spark, [directory], str(tmp_path / "out"), ExportSettings(topics=("old",)))
    assert [row.topic for row in spark.read.parquet(str(tmp_path / "out")).collect()] == ["old"]
