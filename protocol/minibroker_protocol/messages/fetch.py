"""Fetch (key 1): reads record batches from given offsets, with long polling and fetch sessions (KIP-227)."""

from typing import Annotated, Final

from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    Records,
    String,
    Uuid,
    empty,
    frozen_structure,
    message,
    nullable,
    since,
    structure,
    tagged,
    versions,
)

_UNKNOWN_HIGH_WATERMARK: Final = 2**63 - 1


@structure
class FetchPartition:
    """A partition, and the offset from which to read.

    The first batch is returned even if it is larger than `partition_max_bytes`. Only replicas send the id of the
    directory that contains their log (KIP-853) and the last high watermark that they received (KIP-1166).
    """

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, tagged(0, "17+"), since(17)] = ZERO_UUID
    high_watermark: Annotated[Int64, tagged(1, "18+"), since(18)] = _UNKNOWN_HIGH_WATERMARK


@structure
class FetchTopic:
    """The partitions of one topic. From version 13 on, a topic id identifies the topic (KIP-516)."""

    topic: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: Array[FetchPartition]


@structure
class ForgottenTopic:
    """Partitions of one topic to remove from the fetch session."""

    topic: Annotated[String, versions("7-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: Array[Int32]


@frozen_structure
class ReplicaState:
    """The fetching replica and its broker epoch (KIP-903); both are -1 for a consumer."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@message(versions="0-18", flexible="12+")
class FetchRequest:
    """A request for record batches.

    The broker waits until `min_bytes` are available, for at most `max_wait_ms`. A `session_epoch` of 0 opens a
    session, and a positive epoch is an incremental request in a session. An epoch of -1 closes the session
    `session_id` and fetches without a session.
    """

    cluster_id: Annotated[NullableString, tagged(0, "12+"), since(12)] = None
    replica_id: Annotated[Int32, versions("0-14")] = -1
    replica_state: Annotated[ReplicaState, tagged(1, "15+"), since(15)] = ReplicaState()
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Annotated[Int32, since(3)] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, since(4)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: Array[FetchTopic]
    forgotten_topics_data: Annotated[Array[ForgottenTopic], since(7)] = empty()
    rack_id: Annotated[String, since(11)] = ""


@frozen_structure
class EpochEndOffset:
    """The epoch and the end offset from which on a fetcher's log diverges from the leader's log."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@frozen_structure
class SnapshotId:
    """A snapshot of the metadata log. Responses for ordinary topics never contain it."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@structure
class AbortedTransaction:
    """An aborted transaction. A read-committed consumer skips its records."""

    producer_id: Int64
    first_offset: Int64


@structure
class PartitionData:
    """The data read from one partition, or an error."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Annotated[Int64, since(4)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, tagged(0, "12+"), since(12)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, tagged(1, "12+"), since(12)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, tagged(2, "12+"), since(12)] = SnapshotId()
    aborted_transactions: Annotated[NullableArray[AbortedTransaction], since(4), nullable("4+")] = None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records = None


@structure
class FetchableTopicResponse:
    """The partitions of one topic. From version 13 on, a topic id identifies the topic."""

    topic: Annotated[String, versions("0-12")] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: Array[PartitionData]


@message(versions="0-18", flexible="12+")
class FetchResponse:
    """The record batches of each partition.

    The top-level `error_code` concerns the fetch session. Each partition also has an error code.
    `node_endpoints` has the addresses of the current leaders that the response names (KIP-951).
    """

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: Array[FetchableTopicResponse]
    node_endpoints: Annotated[Array[NodeEndpoint], tagged(0, "16+"), since(16)] = empty()
