"""ReadShareGroupStateSummary (key 87): read the offsets of share-partitions' states (KIP-932)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
)


@structure
class PartitionData:
    """The share-partition to read."""

    partition: Int32
    leader_epoch: Int32


@structure
class ReadStateSummaryData:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """Share-partitions of one group, sent to the share coordinator by the group coordinator."""

    group_id: String
    topics: Array[ReadStateSummaryData]


@structure
class PartitionResult:
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
    partitions: Array[PartitionResult]


@message(versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    """The outcome for each share-partition."""

    results: Array[ReadStateSummaryResult]
