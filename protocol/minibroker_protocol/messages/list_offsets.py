"""ListOffsets (key 2): the offset of a timestamp, or of the log's start or end."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class ListOffsetsPartition:
    """`timestamp`: in ms, or a number below 0 that asks for a place in the log.

    -1 is the end, -2 the start, -3 the record with the largest timestamp (version 7); the others speak of tiered
    storage: -4 is the start of what is local (version 8), -5 the last offset that was tiered (version 9), -6 the first
    that is still to be (version 11).
    """

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64
    max_num_offsets: Annotated[Int32, versions("0")] = 1


@structure
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[ListOffsetsPartition]


@message(versions="0-11", flexible="6+")
class ListOffsetsRequest:
    """`isolation_level` 1 (read committed) takes the last stable offset for the end.

    `timeout_ms` is how long the broker may look in remote storage (KIP-1075).
    """

    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: Array[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10)] = 0


@structure
class ListOffsetsPartitionResponse:
    """Version 0 answers with a list of segment base offsets, later ones with one offset and its timestamp."""

    partition_index: Int32
    error_code: Int16
    old_style_offsets: Annotated[Array[Int64], versions("0")] = field(default_factory=empty)
    timestamp: Annotated[Int64, since(1)] = -1
    offset: Annotated[Int64, since(1)] = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@structure
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: Array[ListOffsetsPartitionResponse]


@message(versions="0-11", flexible="6+")
class ListOffsetsResponse:
    """One answer per partition asked."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[ListOffsetsTopicResponse]
