"""InitializeShareGroupState (key 83): begin the state of share-partitions (KIP-932)."""

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
class PartitionData:
    """The state to begin with; `start_offset` is -1 if it is not known yet."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@structure
class InitializeStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    """Share-partitions of one group, sent to the share coordinator by the group coordinator."""

    group_id: String
    topics: Array[InitializeStateData]


@structure
class PartitionResult:
    """The outcome for one share-partition."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None


@structure
class InitializeStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[InitializeStateResult]
