"""The data source returns the same rows from a broker's files as Spark's Kafka connector returns from the broker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from minibroker import Broker
from tests.kafka.real_kafka import RealKafka
from tests.patience import PATIENCE_S
from tests.pipeline.producing import Message, begin, create, produce, produce_in_transaction
from tests.sweeps import one_in

FORMATS = ["0.9.0", "0.10.2", "3.0"]
FOREVER = {"retention.ms": "-1", "segment.bytes": "20000"}
"""The tests' timestamps are old, so retention must not delete records. Small segments give several of them."""
CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


def messages(count: int, *, headers: bool, part: int = 0, partitions: int = 2) -> Iterator[Message]:
    """Yield messages with keys and values of many sizes, null or empty, and optionally with headers."""
    for number in range(part * count, part * count + count):
        value = None if number % 7 == 3 else b"%d-" % number * (number % 40)
        key = None if number % 5 == 2 else b"key-%d" % (number % 11)
        own = [("number", b"%d" % number), ("null", None), ("é", b"\xff")][: number % 4] if headers else []
        yield Message(value, key, number % partitions, 1_700_000_000_000 + number * 7, own)


def rows_of(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def from_broker(spark: SparkSession, broker: Broker | RealKafka, topics: str, **options: Any) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap_of(broker))
    return reader.option("subscribePattern", topics).option("includeHeaders", "true").options(**options).load()


def bootstrap_of(broker: Broker | RealKafka) -> str:
    return broker.bootstrap if isinstance(broker, RealKafka) else broker.bootstrap_servers


def from_files(spark: SparkSession, broker: Broker | RealKafka, topics: str, **options: Any) -> DataFrame:
    reader = spark.read.format("minibroker").option("topicsPattern", topics).option("includeHeaders", "true")
    return reader.options(**options).load(str(broker.data_dir))


def test_rows_of_every_format_and_codec_are_those_of_the_connector(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    for version in FORMATS:
        for codec in CODECS:
            if codec == "zstd" and version != FORMATS[-1]:
                continue  # These formats do not support headers.
            name = f"{topic}-{version}-{codec}"
            config = {"message.format.version": version, "compression.type": codec}
            create(broker.bootstrap_servers, name, 1, FOREVER | config)
            has_headers = version == FORMATS[-1]
            for part in range(4):
                records = messages(100, headers=has_headers, part=part, partitions=1)
                produce(broker.bootstrap_servers, name, records)
    expected = from_broker(spark, broker, f"{topic}.*")
    rows = rows_of(expected)
    for engine in ("numba", "numpy"):
        result = from_files(spark, broker, f"{topic}.*", engine=engine, splitBytes=300_000)
        assert result.schema == expected.schema
        assert rows_of(result) == rows
    assert len(rows) == 400 * 13


@pytest.mark.torture
def test_rows_of_the_files_of_apache_kafka_are_those_of_the_connector(
    spark: SparkSession, real_kafka: RealKafka, topic: str
) -> None:
    for codec in CODECS:
        create(real_kafka.bootstrap, f"{topic}-{codec}", 2, FOREVER | {"compression.type": codec})
        for part in range(3):
            produce(real_kafka.bootstrap, f"{topic}-{codec}", messages(200, headers=True, part=part))
    expected = from_broker(spark, real_kafka, f"{topic}.*")
    result = from_files(spark, real_kafka, f"{topic}.*", highWatermark="logEnd", splitBytes=50_000)
    rows = rows_of(result)
    assert rows == rows_of(expected)
    assert len(rows) == 600 * len(CODECS)


@pytest.mark.parametrize("isolation", one_in(2, ["read_committed", "read_uncommitted"]))
def test_transactions_are_seen_as_the_connector_sees_them(
    spark: SparkSession, broker: Broker, topic: str, isolation: str
) -> None:
    compare_transactions(spark, broker, topic, isolation)


@pytest.mark.torture
@pytest.mark.parametrize("isolation", one_in(2, ["read_committed", "read_uncommitted"]))
def test_transactions_in_the_files_of_apache_kafka_are_seen_as_well(
    spark: SparkSession, real_kafka: RealKafka, topic: str, isolation: str
) -> None:
    # Kafka checkpoints its high watermark only every five seconds.
    compare_transactions(spark, real_kafka, topic, isolation, highWatermark="logEnd")


def compare_transactions(
    spark: SparkSession, broker: Broker | RealKafka, topic: str, isolation: str, **options: str
) -> None:
    bootstrap = bootstrap_of(broker)
    create(bootstrap, topic, 2, FOREVER)
    for number, commit in enumerate([True, False, False, True, False]):
        produce_in_transaction(bootstrap, topic, messages(400, headers=True), commit=commit, name=f"t{number % 2}")
        produce(bootstrap, topic, messages(10, headers=True))
    opened = begin(bootstrap, topic, [Message(b"undecided", b"k", 1)])
    produce(bootstrap, topic, messages(10, headers=False))
    expected = rows_of(from_broker(spark, broker, topic, **{"kafka.isolation.level": isolation}))
    result = rows_of(from_files(spark, broker, topic, isolation=isolation, **options))
    assert result == expected
    assert len(result) == (855 if isolation == "read_committed" else 2061)
    opened.abort_transaction(PATIENCE_S)


@pytest.mark.torture
def test_a_start_and_an_end_mean_what_they_mean_to_the_connector(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    create(broker.bootstrap_servers, topic, 2, FOREVER)
    for part in range(3):
        produce(broker.bootstrap_servers, topic, messages(200, headers=False, part=part))

    def each(*numbers: int) -> str:
        return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})

    for options in (
        {"startingTimestamp": "1700000001000", "endingTimestamp": "1700000003001"},
        {
            "startingOffsets": f'{{"{topic}": {{"0": 17, "1": -2}}}}',
            "endingOffsets": f'{{"{topic}": {{"0": 100, "1": -1}}}}',
        },
        {"startingOffsetsByTimestamp": each(1700000002500, 0)},
    ):
        expected = rows_of(from_broker(spark, broker, topic, **options))
        assert rows_of(from_files(spark, broker, topic, **options)) == expected
        assert 0 < len(expected) < 600


def test_only_the_columns_of_the_schema_are_there_and_filters_are_taken_over(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    create(broker.bootstrap_servers, topic, 2, FOREVER)
    for part in range(3):
        produce(broker.bootstrap_servers, topic, messages(200, headers=False, part=part))
    reader = spark.read.format("minibroker").schema("offset BIGINT, partition INT, timestamp TIMESTAMP")
    frame = reader.options(filterPushdown=True, topics=topic).load(broker.data_dir)
    result = frame.where("partition = 1 AND offset >= 20 AND offset < 30 AND timestamp >= '2023-11-14T22:13:20.350Z'")
    assert [(row.offset, row.partition) for row in result.collect()] == [(offset, 1) for offset in range(25, 30)]
    plan = result._jdf.queryExecution().executedPlan().toString()
    assert "offset" not in "".join(line for line in plan.splitlines() if line.strip().startswith("*(1) Filter"))


def test_the_batch_around_a_record_is_told(spark: SparkSession, broker: Broker, topic: str) -> None:
    produce_in_transaction(broker.bootstrap_servers, topic, [Message(b"v"), Message(b"w")], commit=True)
    reader = spark.read.format("minibroker").options(batchFields=True, includeControl=True, topics=topic)
    rows = reader.load(broker.data_dir).collect()
    assert [(row.offset, row.magic, row.codec, row.sequence, row.isTransactional, row.isControl) for row in rows] == [
        (0, 2, "none", 0, True, False),
        (1, 2, "none", 1, True, False),
        (2, 2, "none", -1, True, True),
    ]
    assert {row.producerEpoch for row in rows} == {0}
    assert [row.batchBaseOffset for row in rows] == [0, 0, 2]
