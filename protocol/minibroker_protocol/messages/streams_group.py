"""APIs that describe streams groups (KIP-1071), and structures that heartbeats also use."""

from typing import Annotated

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
    UInt16,
    message,
    since,
    structure,
)


@structure
class TaskIds:
    """Tasks of one subtopology. A partition number identifies each task."""

    subtopology_id: String
    partitions: Array[Int32]


@structure
class TaskOffset:
    """A task, and the sum of the offsets in its changelog partitions."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@structure
class KeyValue:
    """A topic configuration or a client tag."""

    key: String
    value: String


@structure
class TopicInfo:
    """An internal topic. The broker chooses the number of partitions or replicas if that number is 0."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[KeyValue]


@structure
class Endpoint:
    """The address of an application instance for interactive queries."""

    host: String
    port: UInt16


@structure
class TopologyDescriptionNode:
    """A node of the topology. `node_type` is 1 for a source, 2 for a processor, 3 for a sink."""

    name: String
    node_type: Int8
    source_topics: Array[String]
    sink_topic: NullableString = None
    stores: Array[String]
    successors: Array[String]


@structure
class TopologyDescriptionSubtopology:
    """A subtopology and its nodes."""

    subtopology_id: String
    nodes: Array[TopologyDescriptionNode]


@structure
class TopologyDescriptionGlobalStore:
    """A global state store: its source, and the processor that updates it."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@structure
class TopologyDescription:
    """The subtopologies and global stores of a topology."""

    subtopologies: Array[TopologyDescriptionSubtopology]
    global_stores: Array[TopologyDescriptionGlobalStore]


@message(versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest:
    """StreamsGroupDescribe (key 89) describes streams groups with their topologies and members (KIP-1071)."""

    group_ids: Array[String]
    include_authorized_operations: Bool
    include_topology_description: Annotated[Bool, since(1)] = False


@structure
class Subtopology:
    """A subtopology with its topics, as configured by the coordinator."""

    subtopology_id: String
    source_topics: Array[String]
    repartition_sink_topics: Array[String]
    state_changelog_topics: Array[TopicInfo]
    repartition_source_topics: Array[TopicInfo]


@structure
class Topology:
    """The topology of the group. `subtopologies` is null until the topics of the topology are ready."""

    epoch: Int32
    subtopologies: NullableArray[Subtopology] = None


@structure
class Assignment:
    """The current or the target tasks of a member."""

    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]


@structure
class Member:
    """A member of the group."""

    member_id: String
    member_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue]
    task_offsets: Array[TaskOffset]
    task_end_offsets: Array[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


@structure
class DescribedGroup:
    """A group. If requested, `authorized_operations` has one bit for each of Kafka's `AclOperation` values.

    `topology_description_status` is 0 if the topology description was not requested, 1 if the group has none, 2
    after an error, and 3 if the response contains the description.
    """

    error_code: Int16
    error_message: NullableString = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = None
    members: Array[Member]
    authorized_operations: Int32 = -2147483648
    topology_description: Annotated[TopologyDescription | None, since(1)] = None
    topology_description_status: Annotated[Int8, since(1)] = 0
    assignor_name: Annotated[NullableString, since(1)] = None


@message(versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse:
    """The requested groups, each with its own error code."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]


@message(versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest:
    """StreamsGroupTopologyDescriptionUpdate (key 93) stores a description of a streams group's topology.

    A member of the group sends the request. It describes the topology that has this `topology_epoch`.
    """

    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription


@message(versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse:
    """The result of the update. The error code is UNKNOWN_MEMBER_ID if the member has left the group."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
