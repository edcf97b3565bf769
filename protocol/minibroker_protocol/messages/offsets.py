"""APIs for the committed offsets of groups."""

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
    """The offset to commit for one partition.

    `committed_offset` is the offset of the next record to read. `commit_timestamp` exists in version 1 only. It is
    in milliseconds, and -1 means the broker's time.
    """

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    commit_timestamp: Annotated[Int64, versions("1")] = -1
    committed_metadata: NullableString


@structure
class OffsetCommitRequestTopic:
    """The partitions of one topic. From version 10 on, a topic id identifies the topic (KIP-848)."""

    name: Annotated[String, versions("0-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetCommitRequestPartition]


@message(versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """OffsetCommit (key 8) commits the offsets of a group.

    A client that is not a member sends generation -1 and an empty member id. From version 9 on, a member of a consumer
    group sends its member epoch in place of the generation (KIP-848). A `retention_time_ms` of -1 selects the broker's
    retention time.
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
    """The partitions of one topic. From version 10 on, a topic id identifies the topic (KIP-848)."""

    name: Annotated[String, versions("0-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetCommitResponsePartition]


@message(versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """One result per requested partition."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Array[OffsetCommitResponseTopic]


@structure
class OffsetFetchRequestTopic:
    """The partitions of one topic (up to version 7)."""

    name: String
    partition_indexes: Array[Int32]


@structure
class OffsetFetchRequestTopics:
    """The partitions of one topic, in requests from version 8 on.

    From version 10 on, a topic id identifies the topic (KIP-848).
    """

    name: Annotated[String, versions("8-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: Array[Int32]


@structure
class OffsetFetchRequestGroup:
    """A group, and the partitions whose offsets are fetched. If `topics` is null, all committed offsets are fetched."""

    group_id: String
    member_id: Annotated[NullableString, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: NullableArray[OffsetFetchRequestTopics]


@message(versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """OffsetFetch (key 9) returns the committed offsets of groups.

    Up to version 7, a request has one group in its top-level fields. Later versions can have several groups
    (KIP-709). If `topics` is null, all committed offsets of the group are returned. If `require_stable` is true,
    the result for a partition with pending offsets of an open transaction is a retriable error (KIP-447).
    """

    group_id: Annotated[String, versions("0-7")] = ""
    topics: Annotated[NullableArray[OffsetFetchRequestTopic], versions("0-7"), nullable("2-7")] = empty()
    groups: Annotated[Array[OffsetFetchRequestGroup], since(8)] = empty()
    require_stable: Annotated[Bool, since(7)] = False


@structure
class OffsetFetchResponsePartition:
    """The committed offset of one partition, in responses up to version 7. It is -1 if no offset is committed."""

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
    """The committed offset of one partition, in responses from version 8 on. It is -1 if no offset is committed."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: NullableString
    error_code: Int16


@structure
class OffsetFetchResponseTopics:
    """The partitions of one topic, in responses from version 8 on.

    From version 10 on, a topic id identifies the topic (KIP-848).
    """

    name: Annotated[String, versions("8-9")] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: Array[OffsetFetchResponsePartitions]


@structure
class OffsetFetchResponseGroup:
    """The offsets of one group, or an error."""

    group_id: String
    topics: Array[OffsetFetchResponseTopics]
    error_code: Int16 = 0


@message(versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """The committed offsets.

    Up to version 7, the response has one group. Its offsets and its `error_code` are in the top-level fields. Later
    versions can have several groups.
    """

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[Array[OffsetFetchResponseTopic], versions("0-7")] = empty()
    error_code: Annotated[Int16, versions("2-7")] = 0
    groups: Annotated[Array[OffsetFetchResponseGroup], since(8)] = empty()


@structure
class OffsetDeleteRequestPartition:
    """A partition whose offset is deleted."""

    partition_index: Int32


@structure
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[OffsetDeleteRequestPartition]


@message(versions="0")
class OffsetDeleteRequest:
    """OffsetDelete (key 47) deletes the committed offsets of some partitions of a group (KIP-496)."""

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
    """One result per requested partition, unless `error_code` applies to the whole group."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic]
