"""APIs for offsets in logs: lookup by timestamp or leader epoch, and raising the log start offset (DeleteRecords)."""

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
    """A partition and the timestamp to look up.

    The timestamp is in milliseconds, or one of these negative values: -1 latest offset, -2 earliest offset, -3
    record with the largest timestamp (from version 7 on). Three values are for tiered storage: -4 earliest local
    offset (from version 8 on), -5 last tiered offset (from version 9 on), -6 earliest offset that is not tiered yet
    (from version 11 on).
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
    """ListOffsets (key 2) finds the offset of a timestamp, or the start or end of a log.

    With an `isolation_level` of 1 (read committed), the latest offset is the last stable offset. `timeout_ms` limits
    the search in remote storage (KIP-1075).
    """

    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: Array[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10)] = 0


@structure
class ListOffsetsPartitionResponse:
    """The offset for the requested timestamp, and the timestamp of its record.

    Version 0 returns a list of segment base offsets instead.
    """

    partition_index: Int32
    error_code: Int16
    old_style_offsets: Annotated[Array[Int64], versions("0")] = empty()
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
    """One result per requested partition."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[ListOffsetsTopicResponse]


@structure
class OffsetForLeaderPartition:
    """A leader epoch to look up. `current_leader_epoch` is the partition's leader epoch in the client's metadata."""

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
    """OffsetForLeaderEpoch (key 23) finds the end offset of a leader epoch (KIP-101, KIP-320).

    `replica_id` is -1 for a consumer, and -2 for a debugging consumer.
    """

    replica_id: Annotated[Int32, since(3)] = -2
    topics: Array[OffsetForLeaderTopic]


@structure
class EpochEndOffset:
    """The largest epoch that does not exceed the requested one, and its end offset.

    Both are -1 if there is no such epoch.
    """

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
    """One result per requested partition."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[OffsetForLeaderTopicResult]


@structure
class DeleteRecordsPartition:
    """A partition and its new log start offset, or -1 for the high watermark. Earlier records are deleted."""

    partition_index: Int32
    offset: Int64


@structure
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[DeleteRecordsPartition]


@message(versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """DeleteRecords (key 21) deletes all records before the given offset of each partition."""

    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


@structure
class DeleteRecordsPartitionResult:
    """The result for one partition.

    `low_watermark` is the smallest log start offset of all replicas, or -1 after an error.
    """

    partition_index: Int32
    low_watermark: Int64 = -1
    error_code: Int16


@structure
class DeleteRecordsTopicResult:
    """The results for one topic."""

    name: String
    partitions: Array[DeleteRecordsPartitionResult]


@message(versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """One result per requested partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult]
