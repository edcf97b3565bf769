"""Topics to tables and back through Spark's own `format("kafka")`, in batches and as streams.

A stream to Parquet holds each record exactly once, whatever is killed: its checkpoint has the offsets of each
micro-batch before that is read, and a file counts once the sink's log names it (`sink_log`). A stream to a topic
repeats the micro-batch in which it was killed, since Spark's sink for Kafka takes no part in transactions.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker_pipeline.connector.options import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

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
