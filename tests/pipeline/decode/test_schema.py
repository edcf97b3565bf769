"""The schema of the rows equals that of Spark's Kafka connector."""

from typing import Any

import pytest

from minibroker_pipeline.decode import BATCH_COLUMNS, RECORD_COLUMNS, schema_of


def test_the_arrow_schema_is_what_spark_makes_of_the_connectors_own() -> None:
    types: Any = pytest.importorskip("pyspark.sql.types")
    to_arrow_schema: Any = pytest.importorskip("pyspark.sql.pandas.types").to_arrow_schema
    text, number, long = types.StringType(), types.IntegerType(), types.LongType()
    header = types.StructType([types.StructField("key", text), types.StructField("value", types.BinaryType())])
    fields = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": text,
        "partition": number,
        "offset": long,
        "timestamp": types.TimestampType(),
        "timestampType": number,
        "headers": types.ArrayType(header),
        "magic": types.ByteType(),
        "codec": text,
        "producerId": long,
        "producerEpoch": types.ShortType(),
        "sequence": number,
        "isTransactional": types.BooleanType(),
        "isControl": types.BooleanType(),
        "leaderEpoch": number,
        "batchBaseOffset": long,
        "batchSize": number,
    }
    spark = types.StructType([types.StructField(name, kind) for name, kind in fields.items()])
    ours = schema_of((*RECORD_COLUMNS, "headers", *BATCH_COLUMNS))
    assert ours.equals(to_arrow_schema(spark, timezone="UTC"))
