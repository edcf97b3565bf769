"""The state of share-partitions, between group coordinator, leader and share coordinator (KIP-932)."""

from dataclasses import field
from typing import Annotated

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
    since,
    structure,
)


@structure
class InitializedPartition:
    """The state to begin with; `start_offset` is -1 if it is not known yet."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@structure
class InitializeStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[InitializedPartition]


@message(versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    """InitializeShareGroupState (key 83): begin the state of share-partitions (KIP-932).

    Share-partitions of one group, sent to the share coordinator by the group coordinator.
    """

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


@structure
class ReadPartition:
    """The share-partition to read."""

    partition: Int32
    leader_epoch: Int32


@structure
class ReadStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[ReadPartition]


@message(versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    """ReadShareGroupState (key 84): read the state of share-partitions (KIP-932).

    Share-partitions of one group, sent to the share coordinator by the leader of the partition.
    """

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
class ReadPartitionResult:
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
    partitions: Array[ReadPartitionResult]


@message(versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[ReadStateResult]


@structure
class WrittenPartition:
    """The change; `start_offset` is -1 if it stays.

    `delivery_complete_count` is the number of offsets from `start_offset` on whose delivery is complete (KIP-1226).
    """

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, since(1)] = -1
    state_batches: Array[StateBatch]


@structure
class WriteStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[WrittenPartition]


@message(versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    """WriteShareGroupState (key 85): change the state of share-partitions (KIP-932).

    Share-partitions of one group, sent to the share coordinator by the leader of the partition.
    """

    group_id: String
    topics: Array[WriteStateData]


@structure
class WriteStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[WriteStateResult]


@structure
class DeletedPartition:
    """The share-partition to delete."""

    partition: Int32


@structure
class DeleteStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[DeletedPartition]


@message(versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    """DeleteShareGroupState (key 86): delete the state of share-partitions (KIP-932).

    Share-partitions of one group, sent to the share coordinator by the group coordinator.
    """

    group_id: String
    topics: Array[DeleteStateData]


@structure
class DeleteStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[DeleteStateResult]


@structure
class SummarizedPartition:
    """The share-partition to read."""

    partition: Int32
    leader_epoch: Int32


@structure
class ReadStateSummaryData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[SummarizedPartition]


@message(versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """ReadShareGroupStateSummary (key 87): read the offsets of share-partitions' states (KIP-932).

    Share-partitions of one group, sent to the share coordinator by the group coordinator.
    """

    group_id: String
    topics: Array[ReadStateSummaryData]


@structure
class SummarizedPartitionResult:
    """The outcome for one share-partition."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, since(1)] = -1


@structure
class ReadStateSummaryResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[SummarizedPartitionResult]


@message(versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    """The outcome for each share-partition."""

    results: Array[ReadStateSummaryResult]
