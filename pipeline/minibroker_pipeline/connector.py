"""Reads topics into tables and writes tables to topics through Spark's own `format("kafka")`, in batches and streams.

A stream to Parquet stores each record exactly once, no matter which process is killed. The stream's checkpoint stores
the offsets of each micro-batch before it is read, and an output file counts only once the sink's log lists it
(`sink_log`). If a stream to a topic is killed, it repeats the interrupted micro-batch, because Spark's Kafka sink does
not use transactions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Isolation = Literal["read_committed", "read_uncommitted"]
Position = str | datetime | Mapping[str, Mapping[int, int]] | Mapping[str, Mapping[int, datetime]]
"""The position where a query begins or ends.

Either "earliest" or "latest", an instant for all partitions, or an offset or an instant for each partition of each
topic. An offset can be `EARLIEST` or `LATEST`. A mapping must name every partition that is read. An instant selects the
first record with that timestamp or a later one.
"""
EARLIEST: Final = -2
LATEST: Final = -1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """The records to read. The rows have the connector's columns: key, value, topic, partition, offset, timestamp, ...

    Attributes:
        bootstrap: "host:port", or several addresses separated by commas.
        topics: one name, several names, or the partitions of each topic.
        pattern: a Java regular expression for topic names, instead of `topics`. A stream also finds new topics.
        starting: the first position. A stream ignores it once the stream has a checkpoint.
        ending: the last position of a batch. A stream has no end.
        isolation: "read_committed" omits the records of aborted transactions, and of open ones until they commit.
        headers: whether to add a column `headers`, which is null for a record without headers.
        max_offsets_per_trigger: the approximate number of offsets per micro-batch, or None for no limit.
        options: options of the connector and, with the prefix "kafka.", of Kafka's consumer. They override the
            attributes above.
    """

    bootstrap: str
    topics: str | Sequence[str] | Mapping[str, Sequence[int]] = ()
    pattern: str | None = None
    starting: Position = "earliest"
    ending: Position = "latest"
    isolation: Isolation = "read_committed"
    headers: bool = False
    max_offsets_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def reader_options(self, *, is_stream: bool) -> dict[str, str]:
        """Return these settings as connector options.

        Raises:
            ValueError: a position or the choice of topics is invalid.
        """
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": self.isolation}
        options |= _subscription_options(self.topics, self.pattern)
        options |= _position_options("starting", self.starting)
        if not is_stream:
            options |= _position_options("ending", self.ending)
        elif self.ending != "latest":
            raise ValueError(f"ending: a stream has no end, so it cannot be {self.ending!r}; read a batch")
        if self.headers:
            options["includeHeaders"] = "true"
        if is_stream and self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        return options | dict(self.options)


def _subscription_options(
    topics: str | Sequence[str] | Mapping[str, Sequence[int]], pattern: str | None
) -> Mapping[str, str]:
    if pattern is not None:
        if topics:
            raise ValueError("topics and pattern: one of them, not both")
        return {"subscribePattern": pattern}
    if not topics:
        raise ValueError("topics: name at least one, or give a pattern")
    if isinstance(topics, Mapping):
        return {"assign": json.dumps({topic: list(partitions) for topic, partitions in topics.items()})}
    return {"subscribe": topics if isinstance(topics, str) else ",".join(topics)}


def _position_options(which: Literal["starting", "ending"], position: Position) -> Mapping[str, str]:
    if isinstance(position, str):
        if position not in {"earliest", "latest"}:
            raise ValueError(f"{which}: {position!r} is neither earliest nor latest")
        return {f"{which}Offsets": position}
    if isinstance(position, datetime):
        return {f"{which}Timestamp": str(_milliseconds(which, position))}
    offsets: dict[str, dict[str, int]] = {}
    instants: dict[str, dict[str, int]] = {}
    for topic, partitions in position.items():
        for partition, position_in_partition in partitions.items():
            if isinstance(position_in_partition, datetime):
                instants.setdefault(topic, {})[str(partition)] = _milliseconds(which, position_in_partition)
            else:
                offsets.setdefault(topic, {})[str(partition)] = position_in_partition
    if offsets and instants:
        raise ValueError(f"{which}: offsets or instants, not some of both")
    if instants:
        return {f"{which}OffsetsByTimestamp": json.dumps(instants)}
    return {f"{which}Offsets": json.dumps(offsets)}


def _milliseconds(which: str, instant: datetime) -> int:
    if instant.tzinfo is None:
        raise ValueError(f"{which}: {instant} has no time zone")
    return (instant - _EPOCH) // _MILLISECOND


_SINK_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")


def read_topics(spark: "SparkSession", source: TopicSource) -> "DataFrame":
    """Read the records between two positions as a batch. Both positions are looked up when this function is called.

    Raises:
        ValueError: a position or the choice of topics is invalid.
    """
    return spark.read.format("kafka").options(**source.reader_options(is_stream=False)).load()


def stream_topics(spark: "SparkSession", source: TopicSource) -> "DataFrame":
    """Read the records of topics as a stream.

    Raises:
        ValueError: a position or the choice of topics is invalid.
    """
    return spark.readStream.format("kafka").options(**source.reader_options(is_stream=True)).load()


def stream_to_parquet(
    frame: "DataFrame",
    path: str,
    checkpoint: str,
    *,
    every: float | None = None,
    partition_by: Sequence[str] = (),
    name: str | None = None,
) -> "StreamingQuery":
    """Start a streaming query that writes to Parquet, or resume one from its checkpoint.

    Args:
        frame: the rows from `stream_topics`, parsed or unparsed.
        path: a folder for this stream alone.
        checkpoint: another folder for this stream alone. If it is lost, delete `path` too.
        every: seconds between micro-batches, or None to process the records present at the start and then stop.
        partition_by: columns that become folders.
        name: the name of the query in progress reports.
    """
    writer = frame.writeStream.format("parquet").outputMode("append")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    return _prepare_query(writer, checkpoint, every, name).start(path)


def to_topic(
    frame: "DataFrame", bootstrap: str, topic: str | None = None, options: Mapping[str, str] | None = None
) -> None:
    """Write a table to a topic once. A retried task writes its records again.

    The column `value` (binary or string) is required; `payloads.compose` builds it from other columns. The columns
    `key`, `headers`, `topic` and `partition` are optional. If the table has the columns `partition` and `offset`,
    as a table read from a topic does, each partition keeps the order of its offsets. The records get new offsets and
    timestamps, because Spark's sink cannot set them.

    Args:
        frame: the rows.
        bootstrap: "host:port", or several addresses separated by commas.
        topic: the topic for all rows, or None if each row names its topic in the column `topic`.
        options: options of the connector and, with the prefix "kafka.", of Kafka's producer.

    Raises:
        ValueError: the table has no value column, or no topic is given.
    """
    if {"partition", "offset"} <= set(frame.columns):
        origin = [name for name in ("topic", "partition") if name in frame.columns]
        frame = frame.repartition(*origin).sortWithinPartitions(*origin, "offset")
    writer = _select_sink_columns(frame, topic).write.format("kafka")
    writer.options(**_sink_options(bootstrap, topic, options)).save()


def stream_to_topic(
    frame: "DataFrame",
    bootstrap: str,
    checkpoint: str,
    topic: str | None = None,
    *,
    every: float | None = None,
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> "StreamingQuery":
    """Start a streaming query that writes to a topic, or resume one from its checkpoint.

    Each record is written at least once. The arguments and errors are those of `to_topic` and `stream_to_parquet`.
    """
    writer = _select_sink_columns(frame, topic).writeStream.format("kafka")
    writer = writer.options(**_sink_options(bootstrap, topic, options))
    return _prepare_query(writer, checkpoint, every, name).start()


def _select_sink_columns(frame: "DataFrame", topic: str | None) -> "DataFrame":
    columns = [name for name in _SINK_COLUMNS if name in frame.columns and (topic is None or name != "topic")]
    if "value" not in columns:
        raise ValueError(f"there is no column value, only {', '.join(frame.columns)}: see payloads.compose")
    if topic is None and "topic" not in columns:
        raise ValueError("there is no column topic: name one topic for all rows")
    return frame.select(*columns)


def _sink_options(bootstrap: str, topic: str | None, options: Mapping[str, str] | None) -> dict[str, str]:
    topic_option = {} if topic is None else {"topic": topic}
    return {"kafka.bootstrap.servers": bootstrap, **topic_option, **(options or {})}


def _prepare_query(
    writer: "DataStreamWriter", checkpoint: str, every: float | None, name: str | None
) -> "DataStreamWriter":
    writer = writer.option("checkpointLocation", checkpoint)
    if name:
        writer = writer.queryName(name)
    if every is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
