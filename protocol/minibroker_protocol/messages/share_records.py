"""Fetching and acknowledging records of share groups (KIP-932)."""

from typing import Annotated

from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NonNullRecords,
    NullableString,
    Uuid,
    message,
    since,
    structure,
)


@structure
class AcknowledgementBatch:
    """A range of offsets to acknowledge; `last_offset` is inclusive.

    `acknowledge_types` has either one type for the whole range or one type per offset. The types are 0 gap, 1
    accept, 2 release, 3 reject and 4 renew (KIP-1222).
    """

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


@structure
class FetchPartition:
    """A partition to fetch from, with acknowledgements of its records."""

    partition_index: Int32
    acknowledgement_batches: Array[AcknowledgementBatch]


@structure
class FetchTopic:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[FetchPartition]


@structure
class ForgottenTopic:
    """Partitions of one topic to remove from the share session."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(versions="1-2", flexible="0+")
class ShareFetchRequest:
    """ShareFetch (key 78) acquires records for a member of a share group, and acknowledges earlier records (KIP-932).

    The broker waits until `min_bytes` are available, for at most `max_wait_ms`. `share_session_epoch` is 0 to open
    a session and -1 to close it. Otherwise, the epoch rises by 1 with each request. With a `share_acquire_mode` of
    0, the broker acquires whole batches; with 1, it never acquires more than `max_records` records (KIP-1206).
    """

    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, since(2)] = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic]


@structure
class AcquiredRecords:
    """A range of acquired offsets; `last_offset` is inclusive. `delivery_count` is 1 for the first delivery."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@structure
class PartitionData:
    """The acquired records of one partition, and the result of acknowledging earlier records."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
    records: NonNullRecords = b""
    acquired_records: Array[AcquiredRecords]


@structure
class ShareFetchableTopicResponse:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[PartitionData]


@message(versions="1-2", flexible="0+")
class ShareFetchResponse:
    """The acquired records of each partition.

    The top-level `error_code` applies to the share session. Each partition also has error codes.
    `node_endpoints` has the addresses of the current leaders that the response names (KIP-951).
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[ShareFetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint]


@structure
class AcknowledgePartition:
    """Acknowledgements of records in one partition."""

    partition_index: Int32
    acknowledgement_batches: Array[AcknowledgementBatch]


@structure
class AcknowledgeTopic:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[AcknowledgePartition]


@message(versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """ShareAcknowledge (key 79) acknowledges records of a share group without fetching new ones (KIP-932).

    The request belongs to a share session. `ShareFetchRequest` explains the session epoch. An epoch of -1 closes
    the session.
    """

    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: Array[AcknowledgeTopic]


@structure
class AcknowledgedPartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)


@structure
class ShareAcknowledgeTopicResponse:
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: Array[AcknowledgedPartition]


@message(versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """One result per partition. The top-level `error_code` applies to the share session."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: Array[ShareAcknowledgeTopicResponse]
    node_endpoints: Array[NodeEndpoint]
