"""DeleteShareGroupState (key 86): delete the state of share-partitions (KIP-932)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@structure
class PartitionData:
    """The share-partition to delete."""

    partition: Int32


@structure
class DeleteStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    """Share-partitions of one group, sent to the share coordinator by the group coordinator."""

    group_id: String
    topics: Array[DeleteStateData]


@structure
class PartitionResult:
    """The outcome for one share-partition."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None


@structure
class DeleteStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[DeleteStateResult]
