"""Topics to tables and back through Spark's own `format("kafka")`, in batches and as streams.

A stream to Parquet holds each record exactly once, whatever is killed: its checkpoint has the offsets of each
micro-batch before that is read, and a file counts once the sink's log names it (`sink_log`). A stream to a topic
repeats the micro-batch in which it was killed, since Spark's sink for Kafka takes no part in transactions.
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
"""Where reading begins or ends.

"earliest" or "latest"; an instant for all partitions; or per topic and partition an offset (`EARLIEST` and `LATEST`
stand for themselves) or an instant. All partitions that are read must be named then. An instant stands for the first
record of at least that timestamp.
"""
EARLIEST: Final = -2
LATEST: Final = -1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """Which records are read. The rows are the connector's: key, value, topic, partition, offset, timestamp, ...

    Attributes:
        bootstrap: "host:port", several with commas.
        topics: a name, several, or the partitions of each.
        pattern: instead, a Java regular expression that names of topics match; a stream finds new ones.
        starting: of a stream only until it has a checkpoint.
        ending: of a batch. A stream has no end.
        isolation: with "read_committed" records of aborted transactions are left out, and those of open ones wait.
        headers: whether there is a column `headers`, null where a record has none.
        max_offsets_per_trigger: about as many offsets make one micro-batch; None is no limit.
        options: of the connector, and with "kafka." before them of Kafka's consumer. They win.
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
        """The connector's options. ValueError for positions and topics that make no sense."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": self.isolation}
        options |= _subscription(self.topics, self.pattern)
        options |= _position("starting", self.starting)
        if not is_stream:
            options |= _position("ending", self.ending)
        elif self.ending != "latest":
            raise ValueError(f"ending: a stream has no end, so it cannot be {self.ending!r}; read a batch")
        if self.headers:
            options["includeHeaders"] = "true"
        if is_stream and self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        return options | dict(self.options)


def _subscription(topics: str | Sequence[str] | Mapping[str, Sequence[int]], pattern: str | None) -> Mapping[str, str]:
    if pattern is not None:
        if topics:
            raise ValueError("topics and pattern: one of them, not both")
        return {"subscribePattern": pattern}
    if not topics:
        raise ValueError("topics: name at least one, or give a pattern")
    if isinstance(topics, Mapping):
        return {"assign": json.dumps({topic: list(partitions) for topic, partitions in topics.items()})}
    return {"subscribe": topics if isinstance(topics, str) else ",".join(topics)}


def _position(which: Literal["starting", "ending"], position: Position) -> Mapping[str, str]:
    if isinstance(position, str):
        if position not in {"earliest", "latest"}:
            raise ValueError(f"{which}: {position!r} is neither earliest nor latest")
        return {f"{which}Offsets": position}
    if isinstance(position, datetime):
        return {f"{which}Timestamp": str(_milliseconds(which, position))}
    offsets: dict[str, dict[str, int]] = {}
    instants: dict[str, dict[str, int]] = {}
    for topic, partitions in position.items():
        for partition, at in partitions.items():
            if isinstance(at, datetime):
                instants.setdefault(topic, {})[str(partition)] = _milliseconds(which, at)
            else:
                offsets.setdefault(topic, {})[str(partition)] = at
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
    """A batch: the records between two positions, which are looked up now. ValueError."""
    return spark.read.format("kafka").options(**source.reader_options(is_stream=False)).load()


def stream_topics(spark: "SparkSession", source: TopicSource) -> "DataFrame":
    """A stream of records. ValueError."""
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
    """Begin to write a stream to Parquet, or go on where the checkpoint is.

    Args:
        frame: what `stream_topics` gave, parsed or not.
        path: a folder that belongs to this stream alone.
        checkpoint: a folder that does, too. Who loses it has to lose `path`, too.
        every: seconds between micro-batches. None: take what is there when it begins, and end.
        partition_by: columns that become folders.
        name: for progress.
    """
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).outputMode("append")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    if name:
        writer = writer.queryName(name)
    return _triggered(writer, every).start(path)


def to_topic(
    frame: "DataFrame", bootstrap: str, topic: str | None = None, options: Mapping[str, str] | None = None
) -> None:
    """Write a table to a topic, once; a task that fails and is tried again repeats its records.

    Taken are the columns `value` (binary or string) and, if they are there, `key`, `headers`, `topic` and `partition`;
    `messages.compose` makes a value of others. Where there is a `partition` and an `offset`, as in what was read from
    a topic, each partition keeps the order of its offsets. Offsets and timestamps are new: Spark's sink cannot
    set them.

    Args:
        frame: the rows.
        bootstrap: "host:port", several with commas.
        topic: for all rows. None: each row has a column `topic`.
        options: of the connector, and with "kafka." before them of Kafka's producer.

    Raises:
        ValueError: there is no value, or no topic.
    """
    if {"partition", "offset"} <= set(frame.columns):
        origin = [name for name in ("topic", "partition") if name in frame.columns]
        frame = frame.repartition(*origin).sortWithinPartitions(*origin, "offset")
    writer = _for_sink(frame, topic).write.format("kafka")
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
    """Begin to write a stream to a topic, or go on where the checkpoint is; each record at least once.

    Arguments and errors are those of `to_topic` and `stream_to_parquet`.
    """
    writer = _for_sink(frame, topic).writeStream.format("kafka").option("checkpointLocation", checkpoint)
    writer = writer.options(**_sink_options(bootstrap, topic, options))
    if name:
        writer = writer.queryName(name)
    return _triggered(writer, every).start()


def _for_sink(frame: "DataFrame", topic: str | None) -> "DataFrame":
    columns = [name for name in _SINK_COLUMNS if name in frame.columns and (topic is None or name != "topic")]
    if "value" not in columns:
        raise ValueError(f"there is no column value, only {', '.join(frame.columns)}: see messages.compose")
    if topic is None and "topic" not in columns:
        raise ValueError("there is no column topic: name one topic for all rows")
    return frame.select(*columns)


def _sink_options(bootstrap: str, topic: str | None, options: Mapping[str, str] | None) -> dict[str, str]:
    named = {} if topic is None else {"topic": topic}
    return {"kafka.bootstrap.servers": bootstrap, **named, **(options or {})}


def _triggered(writer: "DataStreamWriter", every: float | None) -> "DataStreamWriter":
    if every is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{round(every * 1000)} milliseconds")
