"""Streams through Spark's connector. Parquet gets each record exactly once, whatever is interrupted."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from minibroker import Broker
from minibroker_pipeline.connector import (
    Position,
    TopicSource,
    read_topics,
    stream_to_parquet,
    stream_to_topic,
    stream_topics,
    to_topic,
)
from minibroker_pipeline.payloads import Payload, compose, parse
from minibroker_pipeline.sink_log import committed_files
from tests.patience import PATIENCE_S
from tests.pipeline.producing import Message, begin, create, produce


def finish(query: StreamingQuery) -> None:
    """Wait until the query has read all records."""
    try:
        assert query.awaitTermination(int(PATIENCE_S)), query.status
    finally:
        query.stop()


def numbers(first: int, end: int) -> Iterable[Message]:
    return [Message(b"%d" % number, partition=number % 2) for number in range(first, end)]


def values_in(folder: Path) -> Counter[bytes]:
    """Count each value in the committed files."""
    result: Counter[bytes] = Counter()
    for file in committed_files(str(folder)):
        result.update(pq.ParquetFile(file).read(["value"]).column("value").to_pylist())
    return result


def once(first: int, end: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(first, end))


def test_a_micro_batch_that_was_written_but_not_noted_is_not_written_twice(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The files are left as by a kill between the sink's commit and the checkpoint's commit."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    create(broker.bootstrap_servers, topic, 2)
    source = TopicSource(bootstrap=broker.bootstrap_servers, topics=topic)
    for first in (0, 5):
        produce(broker.bootstrap_servers, topic, numbers(first, first + 5))
        finish(stream_to_parquet(stream_topics(spark, source), str(out), str(checkpoint)))
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    produce(broker.bootstrap_servers, topic, numbers(10, 15))
    finish(stream_to_parquet(stream_topics(spark, source), str(out), str(checkpoint)))
    assert values_in(out) == once(0, 15)
    assert Counter(bytes(row.value) for row in spark.read.parquet(str(out)).collect()) == once(0, 15)


@pytest.mark.torture
def test_a_log_of_many_micro_batches_is_compacted_and_says_the_same(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "a folder"
    create(broker.bootstrap_servers, topic, 2)
    produce(broker.bootstrap_servers, topic, numbers(0, 12))
    source = TopicSource(bootstrap=broker.bootstrap_servers, topics=topic, max_offsets_per_trigger=2)
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        frame = stream_topics(spark, source)
        finish(stream_to_parquet(frame, str(out), str(tmp_path / "checkpoint"), partition_by=["partition"]))
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert list((out / "_spark_metadata").glob("*.compact"))
    assert values_in(out) == once(0, 12)
    assert {Path(file).parent.name for file in committed_files(str(out))} == {"partition=0", "partition=1"}


@pytest.mark.torture
def test_a_stream_begins_at_offsets_or_at_an_instant(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    noon = datetime(2024, 5, 17, 12, tzinfo=UTC)
    create(broker.bootstrap_servers, topic, 1)
    messages = [Message(b"%d" % at, timestamp=int(noon.timestamp() + at) * 1000) for at in range(5)]
    produce(broker.bootstrap_servers, topic, messages)
    positions: list[Position] = [{topic: {0: 3}}, noon + timedelta(seconds=3)]
    for number, starting in enumerate(positions):
        source = TopicSource(bootstrap=broker.bootstrap_servers, topics=topic, starting=starting)
        out = tmp_path / f"out-{number}"
        finish(stream_to_parquet(stream_topics(spark, source), str(out), str(tmp_path / f"checkpoint-{number}")))
        assert values_in(out) == once(3, 5)


def test_records_of_an_open_transaction_wait_until_it_is_committed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    create(broker.bootstrap_servers, topic, 2)
    source = TopicSource(bootstrap=broker.bootstrap_servers, topics=topic)

    def values() -> Counter[bytes]:
        frame = stream_topics(spark, source)
        finish(stream_to_parquet(frame, str(tmp_path / "out"), str(tmp_path / "checkpoint")))
        return values_in(tmp_path / "out")

    begin(broker.bootstrap_servers, topic, [Message(b"no")], name="aborted").abort_transaction()
    transaction = begin(broker.bootstrap_servers, topic, numbers(0, 4))
    produce(broker.bootstrap_servers, topic, numbers(4, 5))
    assert values() == Counter()
    transaction.commit_transaction()
    assert values() == once(0, 5)


@pytest.mark.torture
def test_a_stream_of_parsed_records_goes_back_to_a_topic(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The output folder of one stream is the source of another."""
    bootstrap, again, payload = broker.bootstrap_servers, f"{topic}-again", Payload("json", "id BIGINT")
    for name in (topic, again):
        create(bootstrap, name, 2)
    to_topic(compose(spark.range(20).toDF("id"), payload), bootstrap, topic)
    orders = parse(stream_topics(spark, TopicSource(bootstrap=bootstrap, topics=topic)), payload)
    finish(stream_to_parquet(orders, str(tmp_path / "out"), str(tmp_path / "checkpoint")))

    files = spark.read.parquet(str(tmp_path / "out"))
    stream = compose(spark.readStream.schema(files.schema).parquet(str(tmp_path / "out")), payload)
    finish(stream_to_topic(stream, bootstrap, str(tmp_path / "back"), again))
    finish(stream_to_topic(stream, bootstrap, str(tmp_path / "back"), again))
    rows = [
        read_topics(spark, TopicSource(bootstrap=bootstrap, topics=name)).select("partition", "value").collect()
        for name in (topic, again)
    ]
    assert sorted(rows[0]) == sorted(rows[1])
    assert len(rows[1]) == 20
