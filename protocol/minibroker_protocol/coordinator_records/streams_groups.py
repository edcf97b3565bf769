"""The records of streams groups (KIP-1071) in `__consumer_offsets`.

The version of a key says what kind of record it is.
"""

from typing import Annotated, Any, Final

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    UInt16,
    message,
    structure,
    tagged,
)


@message(versions="17")
class StreamsGroupMetadataKey:
    """A group."""

    group_id: String


@structure
class LastAssignmentConfig:
    """A setting of the assignor."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """Its epoch, a hash of its topics, and what the last assignment was made with.

    `validated_topology_epoch` is -1 as long as the topics of the topology are not ready. The last two are of the
    description that a plugin stores (KIP-1331): the epoch of the topology that it has, -1 for none, -2 if an operation
    was interrupted; and the epoch of the one that it refused for good.
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, tagged(0, "0+")] = -1
    last_assignment_configs: Annotated[NullableArray[LastAssignmentConfig], tagged(1, "0+")] = None
    stored_description_topology_epoch: Annotated[Int32, tagged(2, "0+")] = -1
    failed_description_topology_epoch: Annotated[Int32, tagged(3, "0+")] = -1


@message(versions="19")
class StreamsGroupMemberMetadataKey:
    """A member of a group."""

    group_id: String
    member_id: String


@structure
class Endpoint:
    """The address of an instance for interactive queries."""

    host: String
    port: UInt16


@structure
class KeyValue:
    """A tag of a client."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """The metadata that a member has sent of itself."""

    instance_id: NullableString
    rack_id: NullableString
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue]


@message(versions="20")
class StreamsGroupTargetAssignmentMetadataKey:
    """A group."""

    group_id: String


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    """The epoch of its assignment, and when that was made in ms since 1970; 0 if that is not known."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@message(versions="21")
class StreamsGroupTargetAssignmentMemberKey:
    """A member of a group."""

    group_id: String
    member_id: String


@structure
class TargetTaskIds:
    """Tasks of one subtopology, by partition."""

    subtopology_id: String
    partitions: Array[Int32]


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    """The target assignment of a member."""

    active_tasks: Array[TargetTaskIds]
    standby_tasks: Array[TargetTaskIds]
    warmup_tasks: Array[TargetTaskIds]


@message(versions="22")
class StreamsGroupCurrentMemberAssignmentKey:
    """A member of a group."""

    group_id: String
    member_id: String


@structure
class TaskIds:
    """Tasks of one subtopology, by partition; active ones with the epoch in which each was assigned."""

    subtopology_id: String
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], tagged(0, "0+")] = None


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The current assignment of a member; `state` is the number of Kafka's `MemberState` of streams groups."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]
    active_tasks_pending_revocation: Array[TaskIds]
    standby_tasks_pending_revocation: Array[TaskIds]
    warmup_tasks_pending_revocation: Array[TaskIds]


@message(versions="23")
class StreamsGroupTopologyKey:
    """A group."""

    group_id: String


@structure
class TopicConfig:
    """A configuration of a topic."""

    key: String
    value: String


@structure
class TopicInfo:
    """An internal topic; 0 partitions or replicas leave the number to the broker."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[TopicConfig]


@structure
class CopartitionGroup:
    """Source topics that need the same number of partitions, as indexes into the subtopology's lists."""

    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


@structure
class Subtopology:
    """A part of the topology whose tasks are assigned together."""

    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[TopicInfo]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[TopicInfo]
    copartition_groups: Array[CopartitionGroup]


@message(versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """The topology of the application."""

    epoch: Int32
    subtopologies: Array[Subtopology]


STREAMS_GROUP_RECORDS: Final[tuple[tuple[type[Any], type[Any]], ...]] = (
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
"""Keys with their values."""
