"""The offsets that groups commit."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    nullable,
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
    """OffsetCommit (key 8): how far a group has read.

    Generation -1 with an empty member id comes from a client that is no member.

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


@structure
class OffsetFetchRequestTopic:
    """The partitions of one topic (up to version 7)."""

    name: String
    partition_indexes: Array[Int32]


@structure
class OffsetFetchRequestTopics:
    """The partitions of one topic (from version 8 on), which from version 10 on is named by its id (KIP-848)."""

    name: Annotated[String, versions("8-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: Array[Int32]


@structure
class OffsetFetchRequestGroup:
    """The request for one group; `topics` is null for all that it has committed."""

    group_id: String
    member_id: Annotated[NullableString, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: NullableArray[OffsetFetchRequestTopics]


@message(versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """OffsetFetch (key 9): how far groups have read.

    One group at the top up to version 7, several later (KIP-709).

    `topics` is null for all that the group has committed. `require_stable` has partitions with offsets of an open
    transaction answered with an error that passes (KIP-447).
    """

    group_id: Annotated[String, versions("0-7")] = ""
    topics: Annotated[NullableArray[OffsetFetchRequestTopic], versions("0-7"), nullable("2-7")] = field(
        default_factory=empty
    )
    groups: Annotated[Array[OffsetFetchRequestGroup], since(8)] = field(default_factory=empty)
    require_stable: Annotated[Bool, since(7)] = False


@structure
class OffsetFetchResponsePartition:
    """`committed_offset` is -1 where nothing was committed (up to version 7)."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, versions("5-7")] = -1
    metadata: NullableString
    error_code: Int16


@structure
class OffsetFetchResponseTopic:
    """The partitions of one topic (up to version 7)."""

    name: String
    partitions: Array[OffsetFetchResponsePartition]


@structure
class OffsetFetchResponsePartitions:
    """`committed_offset` is -1 where nothing was committed (from version 8 on)."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: NullableString
    error_code: Int16


@structure
class OffsetFetchResponseTopics:
    """The partitions of one topic (from version 8 on), which from version 10 on is named by its id (KIP-848)."""

    name: Annotated[String, versions("8-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetFetchResponsePartitions]


@structure
class OffsetFetchResponseGroup:
    """The offsets of one group, or why there are none."""

    group_id: String
    topics: Array[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """One group at the top up to version 7, several later; `error_code` is that of the one group."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[Array[OffsetFetchResponseTopic], versions("0-7")] = field(default_factory=empty)
    error_code: Annotated[Int16, versions("2-7")] = 0
    groups: Annotated[Array[OffsetFetchResponseGroup], since(8)] = field(default_factory=empty)


@structure
class OffsetDeleteRequestPartition:
    """A partition whose offset goes."""

    partition_index: Int32


@structure
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[OffsetDeleteRequestPartition]


@message(versions="0")
class OffsetDeleteRequest:
    """OffsetDelete (key 47): forget how far a group has read some partitions (KIP-496).

    The offsets to forget.
    """

    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


@structure
class OffsetDeleteResponsePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[OffsetDeleteResponsePartition]


@message(versions="0")
class OffsetDeleteResponse:
    """One outcome per partition asked, unless `error_code` is about the whole group."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic]
