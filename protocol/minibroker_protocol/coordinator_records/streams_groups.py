"""The records of streams groups (KIP-1071) in `__consumer_offsets`.

The version of a key determines the type of the record.
"""

from typing import Annotated, Final

from minibroker_protocol.coordinator_records.versioned import record_classes
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
    """The key of a record with a group's epoch."""

    group_id: String


@structure
class LastAssignmentConfig:
    """A configuration value with which the assignor computed the last assignment."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """The epoch of a group, a hash of the group's topics, and the configuration of the group's last assignment.

    `validated_topology_epoch` is -1 until the topics of the topology are ready. The last two fields concern the
    topology description, which a plugin stores (KIP-1331). `stored_description_topology_epoch` is the epoch of the
    stored description, -1 if none is stored, or -2 after an interrupted operation.
    `failed_description_topology_epoch` is the epoch of a description that the plugin rejected permanently.
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, tagged(0, "0+")] = -1
    last_assignment_configs: Annotated[NullableArray[LastAssignmentConfig], tagged(1, "0+")] = None
    stored_description_topology_epoch: Annotated[Int32, tagged(2, "0+")] = -1
    failed_description_topology_epoch: Annotated[Int32, tagged(3, "0+")] = -1


@message(versions="19")
class StreamsGroupMemberMetadataKey:
    """The key of a record with a member's metadata."""

    group_id: String
    member_id: String


@structure
class Endpoint:
    """The address of an application instance for interactive queries."""

    host: String
    port: UInt16


@structure
class KeyValue:
    """A tag of a client."""

    key: String
    value: String


@message(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """The metadata of a member."""

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
    """The key of a record with the epoch of a group's target assignment."""

    group_id: String


@message(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment, and the time when the assignment was computed.

    `assignment_timestamp` is in milliseconds since 1970, or 0 if the time is unknown.
    """

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0, "0+")] = 0


@message(versions="21")
class StreamsGroupTargetAssignmentMemberKey:
    """The key of a record with a member's target assignment."""

    group_id: String
    member_id: String


@structure
class TargetTaskIds:
    """Tasks of one subtopology. A partition number identifies each task."""

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
    """The key of a record with a member's current assignment."""

    group_id: String
    member_id: String


@structure
class TaskIds:
    """Tasks of one subtopology. A partition number identifies each task.

    For active tasks, the epochs in which the tasks were assigned are also stored.
    """

    subtopology_id: String
    partitions: Array[Int32]
    assignment_epochs: Annotated[NullableArray[Int32], tagged(0, "0+")] = None


@message(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The current assignment of a member. `state` is the number of Kafka's `MemberState` for streams groups."""

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
    """The key of a record with a group's topology."""

    group_id: String


@structure
class TopicConfig:
    """A configuration of a topic."""

    key: String
    value: String


@structure
class TopicInfo:
    """An internal topic. The broker chooses the number of partitions or replicas if that number is 0."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[TopicConfig]


@structure
class CopartitionGroup:
    """Source topics that need the same number of partitions, given as indexes into the subtopology's lists."""

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


STREAMS_GROUP_RECORDS: Final = record_classes(globals())
"""All key classes, each with its value class."""
