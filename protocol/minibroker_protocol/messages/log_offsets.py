"""The offsets of logs: by timestamp, by leader epoch, and the start that DeleteRecords moves."""

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
    """ListOffsets (key 2): the offset of a timestamp, or of the log's start or end.

    `isolation_level` 1 (read committed) takes the last stable offset for the end.

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


@structure
class OffsetForLeaderPartition:
    """An epoch to look up; `current_leader_epoch` is the one that the client believes in."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2)] = -1
    leader_epoch: Int32


@structure
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String
    partitions: Array[OffsetForLeaderPartition]


@message(versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch (key 23): where the epoch of a leader has ended (KIP-101, KIP-320).

    `replica_id`: -1 for a consumer, -2 for one that looks for faults.
    """

    replica_id: Annotated[Int32, since(3)] = -2
    topics: Array[OffsetForLeaderTopic]


@structure
class EpochEndOffset:
    """The largest epoch that is not above the one asked for, and its end; -1 for both where there is none."""

    error_code: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, since(1)] = -1
    end_offset: Int64 = -1


@structure
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: String
    partitions: Array[EpochEndOffset]


@message(versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[OffsetForLeaderTopicResult]


@structure
class DeleteRecordsPartition:
    """`offset` is the first one that stays; -1 means the high watermark."""

    partition_index: Int32
    offset: Int64


@structure
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[DeleteRecordsPartition]


@message(versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """DeleteRecords (key 21): the oldest records of partitions go, up to an offset.

    An offset for each partition.
    """

    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


@structure
class DeleteRecordsPartitionResult:
    """`low_watermark` is the smallest log start offset of all replicas, -1 with an error."""

    partition_index: Int32
    low_watermark: Int64 = -1
    error_code: Int16


@structure
class DeleteRecordsTopicResult:
    """The outcomes for one topic."""

    name: String
    partitions: Array[DeleteRecordsPartitionResult]


@message(versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult]
