"""WriteShareGroupState (key 85): change the state of share-partitions (KIP-932)."""

from typing import Annotated

from minibroker_protocol.messages.read_share_group_state import StateBatch
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
    partitions: Array[PartitionData]


@message(versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    """Share-partitions of one group, sent to the share coordinator by the leader of the partition."""

    group_id: String
    topics: Array[WriteStateData]


@structure
class PartitionResult:
    """The outcome for one share-partition."""

    partition: Int32
    error_code: Int16
    error_message: NullableString = None


@structure
class WriteStateResult:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionResult]


@message(versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    """The outcome for each share-partition."""

    results: Array[WriteStateResult]
