"""Structures that the messages of streams groups share (KIP-1071)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    structure,
)


@structure
class TaskIds:
    """Tasks of one subtopology, by partition."""

    subtopology_id: String
    partitions: Array[Int32]


@structure
class TaskOffset:
    """The sum of a task's changelog offsets."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@structure
class KeyValue:
    """A configuration of a topic, or a tag of a client."""

    key: String
    value: String


@structure
class TopicInfo:
    """An internal topic; 0 partitions or replicas leave the number to the broker."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[KeyValue]


@structure
class Endpoint:
    """The address of an instance for interactive queries."""

    host: String
    port: UInt16
