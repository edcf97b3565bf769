"""ShareAcknowledge (key 79): acknowledge records of a share group without a fetch (KIP-932)."""

from typing import Annotated

from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from minibroker_protocol.messages.share_fetch import AcknowledgementBatch
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableString,
    Uuid,
    message,
    since,
    structure,
)


@structure
class AcknowledgePartition:
    """Acknowledgements of one partition's records."""

    partition_index: Int32
    acknowledgement_batches: Array[AcknowledgementBatch]


@structure
class AcknowledgeTopic:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[AcknowledgePartition]


@message(versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Acknowledgements in a share session; see `ShareFetchRequest` for its epoch. An epoch of -1 closes the session."""

    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: Array[AcknowledgeTopic]


@structure
class PartitionData:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)


@structure
class ShareAcknowledgeTopicResponse:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """`error_code` is that of the share session; each partition has an error of its own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: Array[ShareAcknowledgeTopicResponse]
    node_endpoints: Array[NodeEndpoint]
