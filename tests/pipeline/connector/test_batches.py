"""Reading topics into tables and writing tables to topics through Spark's connector."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from minibroker import Broker
from minibroker_pipeline.connector import EARLIEST, LATEST, Position, TopicSource, read_topics, to_topic
from minibroker_pipeline.payloads import Payload, compose, parse
from tests.pipeline.producing import Message, create, produce, produce_in_transaction

START = datetime(2024, 5, 17, 12, tzinfo=UTC)
JSON_ORDERS = Payload("json", "id BIGINT, name STRING, sizes ARRAY<INT>")
AVRO_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "sizes", "type": {"type": "array", "items": "int"}},
]
AVRO_ORDERS = Payload("avro", json.dumps({"type": "record", "name": "order", "fields": AVRO_FIELDS}))


def millisecond(seconds: int) -> int:
    """Return the timestamp this many seconds after the start."""
    return int((START + timedelta(seconds=seconds)).timestamp() * 1000)


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.fixture
def ten_in_each(broker: Broker, topic: str) -> str:
    """A topic with offsets 0 to 9 in each of two partitions, one second apart."""
    create(broker.bootstrap_servers, topic, 2)
    messages = [
        Message(b"%d" % number, partition=partition, timestamp=millisecond(number))
        for number in range(10)
        for partition in range(2)
    ]
    produce(broker.bootstrap_servers, topic, messages)
    return topic


def test_a_batch_has_all_of_a_record(spark: SparkSession, broker: Broker, topic: str) -> None:
    messages = [
        Message(b"v", b"k", timestamp=millisecond(0), headers=[("a", b"1"), ("a", None), ("\u00e9", b"\xff")]),
        Message(None, b"", timestamp=millisecond(1)),
        Message(b"", None, timestamp=millisecond(2)),
    ]
    produce(broker.bootstrap_servers, topic, messages)
    rows = read_topics(spark, TopicSource(bootstrap=broker.bootstrap_servers, topics=topic, headers=True)).collect()
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (topic, 0, offset, 0) for offset in range(3)
    ]
    assert [(row.key, row.value) for row in rows] == [(b"k", b"v"), (b"", None), (None, b"")]
    assert [row.timestamp.timestamp() * 1000 for row in rows] == [millisecond(number) for number in range(3)]
    assert [[tuple(header) for header in row.headers or ()] for row in rows] == [
        [("a", b"1"), ("a", None), ("\u00e9", b"\xff")],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        ("earliest", "latest", [(0, 10), (0, 10)]),
        ({0: 3, 1: EARLIEST}, {0: 5, 1: LATEST}, [(3, 5), (0, 10)]),
        (START + timedelta(seconds=4), START + timedelta(seconds=6, milliseconds=1), [(4, 7), (4, 7)]),
        (
            {0: START + timedelta(seconds=8), 1: START},
            {0: START + timedelta(hours=1), 1: START + timedelta(seconds=1)},
            [(8, 10), (0, 1)],
        ),
    ],
    ids=["all", "offsets", "instant", "instants"],
)
def test_a_batch_is_what_lies_between_two_positions(
    spark: SparkSession,
    broker: Broker,
    ten_in_each: str,
    starting: str | datetime | dict[int, int],
    ending: str | datetime | dict[int, int],
    expected: Sequence[tuple[int, int]],
) -> None:
    between: list[Position] = [{ten_in_each: at} if isinstance(at, dict) else at for at in (starting, ending)]
    source = TopicSource(bootstrap=broker.bootstrap_servers, topics=ten_in_each, starting=between[0], ending=between[1])
    assert offsets(read_topics(spark, source)) == [
        (partition, offset) for partition, (first, end) in enumerate(expected) for offset in range(first, end)
    ]


def test_partitions_and_patterns_choose_what_is_read(spark: SparkSession, broker: Broker, ten_in_each: str) -> None:
    source = TopicSource(bootstrap=broker.bootstrap_servers, topics={ten_in_each: [1]}, ending={ten_in_each: {1: 2}})
    assert offsets(read_topics(spark, source)) == [(1, 0), (1, 1)]
    matching = TopicSource(bootstrap=broker.bootstrap_servers, pattern=ten_in_each[:-1] + ".")
    assert read_topics(spark, matching).count() == 20


def test_records_of_aborted_transactions_are_read_only_when_asked_for(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    bootstrap = broker.bootstrap_servers
    produce_in_transaction(bootstrap, topic, [Message(b"one"), Message(b"two")], commit=True)
    produce_in_transaction(bootstrap, topic, [Message(b"never")], commit=False)
    produce_in_transaction(bootstrap, topic, [Message(b"three")], commit=True)

    def values(source: TopicSource) -> list[bytes]:
        return [row.value for row in read_topics(spark, source).orderBy("offset").collect()]

    assert values(TopicSource(bootstrap=bootstrap, topics=topic)) == [b"one", b"two", b"three"]
    uncommitted = TopicSource(bootstrap=bootstrap, topics=topic, isolation="read_uncommitted")
    assert values(uncommitted) == [b"one", b"two", b"never", b"three"]


@pytest.mark.parametrize(
    "payload", [JSON_ORDERS, pytest.param(AVRO_ORDERS, marks=pytest.mark.torture)], ids=["json", "avro"]
)
def test_a_table_goes_to_a_topic_to_parquet_and_to_a_topic_again(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, payload: Payload
) -> None:
    bootstrap, parquet, again = broker.bootstrap_servers, str(tmp_path / "parquet"), f"{topic}-again"
    create(bootstrap, topic, 2)
    orders = [(number, None if number == 3 else f"name {number}", [number, -number]) for number in range(20)]
    table = spark.createDataFrame(orders, "id BIGINT, name STRING, sizes ARRAY<INT>")
    to_topic(compose(table, payload, key=f.col("id").cast("string")), bootstrap, topic)
    produce(bootstrap, topic, [Message(None, b"gone")])

    parse(read_topics(spark, TopicSource(bootstrap=bootstrap, topics=topic)), payload).write.parquet(parquet)
    parsed = spark.read.parquet(parquet)
    result = parsed.where("data is not null").select("data.*").orderBy("id").collect()
    assert [tuple(row) for row in result] == orders

    create(bootstrap, again, 2)
    to_topic(compose(parsed, payload), bootstrap, again)
    both = [
        read_topics(spark, TopicSource(bootstrap=bootstrap, topics=name))
        .select("partition", "offset", "key", "value")
        .orderBy("partition", "offset")
        .collect()
        for name in (topic, again)
    ]
    assert len(both[0]) == 21
    assert both[0] == both[1]


@pytest.mark.torture
@pytest.mark.parametrize("payload", [JSON_ORDERS, AVRO_ORDERS], ids=["json", "avro"])
def test_a_value_that_does_not_parse_fails_the_query_or_is_kept_as_it_was(
    spark: SparkSession, broker: Broker, topic: str, payload: Payload
) -> None:
    good = compose(spark.createDataFrame([(1, "a", [2])], JSON_ORDERS.schema), payload)
    to_topic(good, broker.bootstrap_servers, topic)
    produce(broker.bootstrap_servers, topic, [Message(b"\x01no order"), Message(None)])
    records = read_topics(spark, TopicSource(bootstrap=broker.bootstrap_servers, topics=topic))
    with pytest.raises(Py4JJavaError, match="FAILFAST"):
        parse(records, payload).collect()
    lenient = Payload(payload.form, payload.schema, "permissive")
    rows = parse(records, lenient).orderBy("offset").collect()
    assert [row.data and tuple(row.data) for row in rows] == [(1, "a", [2]), None, None]
    assert [row.corrupt for row in rows] == [None, b"\x01no order", None]


def test_a_table_may_name_topic_partition_and_headers(spark: SparkSession, broker: Broker, topic: str) -> None:
    create(broker.bootstrap_servers, topic, 3)
    columns = "topic STRING, partition INT, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = [(topic, 2, "a", [("h", bytearray(b"1"))]), (topic, 1, "b", None)]
    to_topic(spark.createDataFrame(rows, columns), broker.bootstrap_servers)
    result = read_topics(spark, TopicSource(bootstrap=broker.bootstrap_servers, topics=topic, headers=True))
    assert [
        (row.partition, row.value, [tuple(header) for header in row.headers or ()])
        for row in result.orderBy("partition").collect()
    ] == [(1, b"b", []), (2, b"a", [("h", b"1")])]
