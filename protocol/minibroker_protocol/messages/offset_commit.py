"""OffsetCommit (key 8): how far a group has read."""

from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
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
    versions,
)


@structure
class OffsetCommitRequestPartition:
    """`committed_offset` is that of the next record to read.

    `commit_timestamp` was only in version 1, in ms; -1 asks for the broker's time.
    """

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    commit_timestamp: Annotated[Int64, versions("1")] = -1
    committed_metadata: NullableString


@structure
class OffsetCommitRequestTopic:
    """The partitions of one topic, which from version 10 on is named by its id (KIP-848)."""

    name: Annotated[String, versions("0-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetCommitRequestPartition]


@message(versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """Generation -1 with an empty member id comes from a client that is no member.

    A member of a consumer group names its epoch in the generation's place (version 9, KIP-848).

    `retention_time_ms` -1 leaves it to the broker how long the offsets are kept.
    """

    group_id: String
    generation_id_or_member_epoch: Annotated[Int32, since(1)] = -1
    member_id: Annotated[String, since(1)] = ""
    group_instance_id: Annotated[NullableString, since(7)] = None
    retention_time_ms: Annotated[Int64, versions("2-4")] = -1
    topics: Array[OffsetCommitRequestTopic]


@structure
class OffsetCommitResponsePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class OffsetCommitResponseTopic:
    """The partitions of one topic, which from version 10 on is named by its id (KIP-848)."""

    name: Annotated[String, versions("0-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetCommitResponsePartition]


@message(versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Array[OffsetCommitResponseTopic]
