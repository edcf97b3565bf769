"""ReadShareGroupState (key 84): read the state of share-partitions (KIP-932)."""

from dataclasses import field

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    structure,
)


@structure
class PartitionData:
    """The share-partition to read."""

    partition: Int32
    leader_epoch: Int32


@structure
class ReadStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    """Share-partitions of one group, sent to the share coordinator by the leader of the partition."""

    group_id: String
    topics: Array[ReadStateData]


@structure
class StateBatch:
    """Offsets in one state, the last one included.

    `delivery_state` is 0 for available, 2 for acknowledged, 4 for archived records.
    """

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@structure
class PartitionResult:
    """The outcome for one share-partition."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: Array[StateBatch] = field(default_factory=empty)


@structure
class ReadStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[ReadStateResult]
