"""OffsetDelete (key 47): forget how far a group has read some partitions (KIP-496)."""

from minibroker_protocol.schema import Array, Int16, Int32, String, message, structure


@structure
class OffsetDeleteRequestPartition:
    """A partition whose offset goes."""

    partition_index: Int32


@structure
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[OffsetDeleteRequestPartition]


@message(versions="0")
class OffsetDeleteRequest:
    """The offsets to forget."""

    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


@structure
class OffsetDeleteResponsePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[OffsetDeleteResponsePartition]


@message(versions="0")
class OffsetDeleteResponse:
    """One outcome per partition asked, unless `error_code` is about the whole group."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic]
