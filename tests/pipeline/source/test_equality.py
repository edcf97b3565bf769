"""A sample of `make torture ARGS=equal`, and whether it would see a difference."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from minibroker import Broker
from tests.torture.equality import CODECS, LEVELS, compare, contents, fill, fingerprints

RECORDS = 3000
SEED = 1


@pytest.mark.torture
def test_all_columns_of_what_producers_write_are_the_connectors_for_every_codec_and_isolation_level(
    spark: SparkSession, broker: Broker
) -> None:
    # The connector takes its time for each partition.
    chosen = [one._replace(partitions=1) for one in contents(RECORDS)][::2]
    assert {one.codec for one in chosen} == set(CODECS)
    sent = {one.topic: fill(broker.bootstrap_servers, one, SEED) for one in chosen}
    found = list(compare(spark, broker.bootstrap_servers, str(broker.data_dir), sent))
    assert [one.level for one in found] == list(LEVELS)
    assert [one.rows for one in found] == [sum(totals[level].rows for totals in sent.values()) for level in LEVELS]


def test_fingerprints_differ_when_any_column_does_but_not_with_the_order_of_rows(spark: SparkSession) -> None:
    headers = "array(struct('h' AS key, {} AS value))"
    rows = spark.range(10).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(NULL AS STRING) AS value",
        "'t' AS topic",
        "0 AS partition",
        "id AS offset",
        "timestamp_millis(id) AS timestamp",
        "0 AS timestampType",
        f"{headers.format('CAST(id AS STRING)')} AS headers",
    )
    changes = {
        "key": "NULL",
        "value": "''",
        "topic": "'u'",
        "partition": "1",
        "offset": "offset + 1",
        "timestamp": "timestamp_millis(8)",
        "timestampType": "1",
        "headers": headers.format("CAST(NULL AS STRING)"),
    }
    expected = fingerprints(rows)
    assert fingerprints(rows.orderBy(sql.desc("offset"))) == expected
    for column, change in changes.items():
        changed = sql.when(sql.col("offset") == 7, sql.expr(change)).otherwise(sql.col(column))
        assert fingerprints(rows.withColumn(column, changed)) != expected, column
