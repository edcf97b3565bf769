"""APIs for the persisted state of share-partitions (KIP-932).

The group coordinator and partition leaders send these requests to the share coordinator.
"""

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
    """The initial state of a share-partition. `start_offset` is -1 if the start offset is not known yet."""

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
    """InitializeShareGroupState (key 83) creates the state of share-partitions (KIP-932).

    The group coordinator sends this request to the share coordinator, for share-partitions of one group.
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
    """One result per share-partition."""

    results: Array[InitializeStateResult]


@structure
class ReadPartition:
    """A share-partition whose state is read."""

    partition: Int32
    leader_epoch: Int32


@structure
class ReadStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[ReadPartition]


@message(versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    """ReadShareGroupState (key 84) reads the state of share-partitions (KIP-932).

    A partition leader sends this request to the share coordinator, for share-partitions of one group.
    """

    group_id: String
    topics: Array[ReadStateData]


@structure
class StateBatch:
    """A range of offsets with the same delivery state; `last_offset` is inclusive.

    `delivery_state` is 0 for available records, 2 for acknowledged records and 4 for archived records.
    """

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@structure
class ReadPartitionResult:
    """The state of one share-partition, or an error."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: Array[StateBatch] = empty()


@structure
class ReadStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[ReadPartitionResult]


@message(versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    """One result per share-partition."""

    results: Array[ReadStateResult]


@structure
class WrittenPartition:
    """A change to the state of one share-partition.

    `start_offset` is -1 if the start offset is unchanged. `delivery_complete_count` is the number of offsets at or
    after `start_offset` whose delivery is complete (KIP-1226).
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
    """WriteShareGroupState (key 85) updates the state of share-partitions (KIP-932).

    A partition leader sends this request to the share coordinator, for share-partitions of one group.
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
    """One result per share-partition."""

    results: Array[WriteStateResult]


@structure
class DeletedPartition:
    """A share-partition whose state is deleted."""

    partition: Int32


@structure
class DeleteStateData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[DeletedPartition]


@message(versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    """DeleteShareGroupState (key 86) deletes the state of share-partitions (KIP-932).

    The group coordinator sends this request to the share coordinator, for share-partitions of one group.
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
    """One result per share-partition."""

    results: Array[DeleteStateResult]


@structure
class ReadStateSummaryData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[ReadPartition]


@message(versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """ReadShareGroupStateSummary (key 87) reads the offsets of share-partitions, without state batches (KIP-932).

    The group coordinator sends this request to the share coordinator, for share-partitions of one group.
    """

    group_id: String
    topics: Array[ReadStateSummaryData]


@structure
class SummarizedPartitionResult:
    """The epochs and offsets of one share-partition, or an error."""

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
    """One result per share-partition."""

    results: Array[ReadStateSummaryResult]
