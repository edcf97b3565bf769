"""StreamsGroupHeartbeat (key 88): joins, stays in or leaves a streams group (KIP-1071)."""

from typing import Annotated

from minibroker_protocol.messages.streams_group import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    message,
    since,
    structure,
    versions,
)


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


@structure
class Topology:
    """The topology of the application. Its epoch rises whenever the topology changes."""

    epoch: Int32
    subtopologies: Array[Subtopology]


@message(versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest:
    """A heartbeat of one member. Null fields, and a rebalance timeout of -1, mean no change.

    `member_epoch` is 0 to join, -1 to leave, and -2 if a static member leaves temporarily. `rebalance_timeout_ms` is
    the time that the member has to revoke tasks.
    """

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: NullableArray[TaskIds] = None
    standby_tasks: NullableArray[TaskIds] = None
    warmup_tasks: NullableArray[TaskIds] = None
    process_id: NullableString = None
    user_endpoint: Endpoint | None = None
    client_tags: NullableArray[KeyValue] = None
    task_offsets: NullableArray[TaskOffset] = None
    task_end_offsets: NullableArray[TaskOffset] = None
    shutdown_application: Bool = False


@structure
class Status:
    """A condition of the group to report to the member, such as a missing source topic."""

    status_code: Int8
    status_detail: String


@structure
class TopicPartition:
    """Partitions of a topic."""

    topic: String
    partitions: Array[Int32]


@structure
class EndpointToPartitions:
    """The source partitions of a member's tasks, for interactive queries."""

    user_endpoint: Endpoint
    active_partitions: Array[TopicPartition]
    standby_partitions: Array[TopicPartition]


@message(versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse:
    """The member's epoch and tasks. The tasks are null if they are unchanged.

    `acceptable_recovery_lag` is the largest lag, in offsets, with which a task can still become active. In version
    0 the field had 32 bits.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Annotated[Int32, versions("0")] = 0
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Annotated[Int64, since(1)] = -1
    status: NullableArray[Status] = None
    active_tasks: NullableArray[TaskIds] = None
    standby_tasks: NullableArray[TaskIds] = None
    warmup_tasks: NullableArray[TaskIds] = None
    topology_description_required: Annotated[Bool, since(1)] = False
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: NullableArray[EndpointToPartitions] = None
