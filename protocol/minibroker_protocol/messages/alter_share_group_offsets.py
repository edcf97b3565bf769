"""AlterShareGroupOffsets (key 91): set start offsets of an empty share group (KIP-932)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@structure
class AlterShareGroupOffsetsRequestPartition:
    """The new start offset of one share-partition."""

    partition_index: Int32
    start_offset: Int64


@structure
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: String
    partitions: Array[AlterShareGroupOffsetsRequestPartition]


@message(versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """The group, and its partitions to change."""

    group_id: String
    topics: Array[AlterShareGroupOffsetsRequestTopic]


@structure
class AlterShareGroupOffsetsResponsePartition:
    """The outcome for one share-partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None


@structure
class AlterShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[AlterShareGroupOffsetsResponsePartition]


@message(versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """`error_code` is that of the group; each partition has an error of its own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    responses: Array[AlterShareGroupOffsetsResponseTopic]
