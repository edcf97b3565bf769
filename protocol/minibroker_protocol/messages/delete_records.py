"""DeleteRecords (key 21): the oldest records of partitions go, up to an offset."""

from minibroker_protocol.schema import Array, Int16, Int32, Int64, String, message, structure


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
    """An offset for each partition."""

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
