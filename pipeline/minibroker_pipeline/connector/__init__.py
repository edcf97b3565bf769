"""Spark's Kafka connector, `format("kafka")`: topics to tables and back, and the jars that it needs."""

from minibroker_pipeline.connector.options import EARLIEST, LATEST, Isolation, Position, TopicSource
from minibroker_pipeline.connector.topics import (
    read_topics,
    stream_to_parquet,
    stream_to_topic,
    stream_topics,
    to_topic,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Isolation",
    "Position",
    "TopicSource",
    "read_topics",
    "stream_to_parquet",
    "stream_to_topic",
    "stream_topics",
    "to_topic",
]
