"""Spark's connector, from batches and streams. Arguments: the bootstrap address and a prefix."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from minibroker_pipeline import session
from tests.clients.matrix.drivers import harness

BOOTSTRAP, PREFIX = sys.argv[1:]
VALUES = [str(number) * 50 for number in range(20)]
ROW = StructType([StructField("key", StringType()), StructField("value", StringType())])
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

spark: Any = None
"""The session, once there is one."""


def write(rows: DataFrame, topic: str, **options: str) -> None:
    asked = {"kafka.bootstrap.servers": BOOTSTRAP, "topic": topic, **options}
    rows.write.format("kafka").options(**asked).save()


def send(topic: str, values: Sequence[str], **options: str) -> None:
    write(spark.createDataFrame([(None, value) for value in values], ROW).coalesce(1), topic, **options)


def read(topic: str, **options: str) -> list[Any]:
    """The records of a topic, in the order of their offsets."""
    asked = {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": topic, "includeHeaders": "true", **options}
    found: list[Any] = spark.read.format("kafka").options(**asked).load().orderBy("partition", "offset").collect()
    return found


def values_of(records: Sequence[Any]) -> list[str | None]:
    return [None if record.value is None else bytes(record.value).decode() for record in records]


def round_trip(name: str, **options: str) -> None:
    topic = f"{PREFIX}-{name}"
    send(topic, VALUES, **options)
    assert sorted(values_of(read(topic))) == sorted(VALUES)  # type: ignore[type-var] # none of them is null


def headers() -> None:
    topic = f"{PREFIX}-headers"
    schema = StructType([*ROW.fields, StructField("headers", HEADERS)])
    write(spark.createDataFrame([(None, "v", [("a", b"1"), ("b", None)])], schema), topic)
    (found,) = read(topic)
    assert [(each.key, each.value) for each in found.headers] == [("a", b"1"), ("b", None)], found.headers


def nulls() -> None:
    topic = f"{PREFIX}-nulls"
    write(spark.createDataFrame([("k", None), (None, "v"), ("k", "")], ROW).coalesce(1), topic)
    found = {(plain(record.key), plain(record.value)) for record in read(topic)}
    assert found == {(b"k", None), (None, b"v"), (b"k", b"")}, found


def plain(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)


def big_records() -> None:
    topic = f"{PREFIX}-big-records"
    send(topic, ["x" * 800_000, "y" * 800_000])
    assert [len(value or "") for value in values_of(read(topic))] == [800_000, 800_000]


def seek() -> None:
    topic = f"{PREFIX}-seek"
    send(topic, ["0", "1", "2"])
    send(topic, ["3", "4"])
    found = read(topic, startingOffsets=json.dumps({topic: {"0": 3}}), endingOffsets=json.dumps({topic: {"0": 4}}))
    assert [record.offset for record in found] == [3]


def timestamp() -> None:
    topic = f"{PREFIX}-timestamp"
    send(topic, ["0", "1"])
    time.sleep(0.05)
    start = str(int(time.time() * 1000))
    time.sleep(0.05)
    send(topic, ["2"])
    assert values_of(read(topic, startingTimestamp=start)) == ["2"]


def stream() -> None:
    """A stream to another topic goes on behind what it has done when it is started again on its checkpoint."""
    source, sink = f"{PREFIX}-stream-in", f"{PREFIX}-stream-out"
    with tempfile.TemporaryDirectory() as checkpoint:
        for values in (["1", "2"], ["3"]):
            send(source, values)
            options = {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": source, "startingOffsets": "earliest"}
            rows = spark.readStream.format("kafka").options(**options).load().selectExpr("value")
            writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", BOOTSTRAP)
            writer = writer.option("topic", sink).option("checkpointLocation", checkpoint)
            writer.trigger(availableNow=True).start().awaitTermination(int(harness.PATIENCE))
    assert sorted(map(str, values_of(read(sink)))) == ["1", "2", "3"]


def start() -> None:
    """The session; a check of its own, since it takes longer than the others."""
    globals()["spark"] = session.spark_session("matrix", packages=("kafka",), **session.test_settings())


CHECKS: dict[str, Callable[[], None]] = {
    "produce": partial(round_trip, "produce"),
    "acks-1": partial(round_trip, "acks-1", **{"kafka.acks": "1", "kafka.enable.idempotence": "false"}),
    **{
        codec: partial(round_trip, codec, **{"kafka.compression.type": codec})
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
    "big-records": big_records,
    "headers": headers,
    "nulls": nulls,
    "idempotent": partial(round_trip, "idempotent", **{"kafka.enable.idempotence": "true"}),
    "earliest": partial(round_trip, "earliest"),
    "timestamp": timestamp,
    "seek": seek,
    "auto-create": partial(round_trip, "auto-create"),
    "stream": stream,
}

if __name__ == "__main__":
    start()
    harness.run(CHECKS)
