"""Handlers that describe streams groups and their topologies (KIP-1071, KIP-1331)."""

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.streams.group import ASSIGNOR, StreamsGroup, StreamsMember
from minibroker.coordinators.groups.streams.internal_topics import InternalTopic
from minibroker.coordinators.groups.streams.tasks import ReportedOffsets, TaskOffsets, Tasks, TaskSets
from minibroker.coordinators.java_order import timeline_order
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import groups_at, handles
from minibroker.server.requests.elements import describe_groups
from minibroker.server.requests.requirements import asked_by_handler, on_each, on_group
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.coordinator_records.streams_groups import TopicInfo as RecordedTopic
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import sort_in_java_order
from minibroker_protocol.messages.streams_group import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

_DESCRIPTION_NOT_STORED: Final = 1


@handles(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    needs=on_each(Operation.DESCRIBE, ResourceType.GROUP) & asked_by_handler("DESCRIBE on all topics of its topology"),
    names=groups_at("group_ids"),
)
def streams_group_describe(request: StreamsGroupDescribeRequest, call: Call) -> ForEach[StreamsGroupDescribeResponse]:
    """StreamsGroupDescribe: describe streams groups, their topologies, and the tasks of their members (KIP-1071).

    Versions 0-1 are served. Version 1 adds the name of the assignor and, on request, the description of the
    topology. Descriptions need a plugin in Kafka, and minibroker has none, so no group has a description
    (KIP-1331). Groups are described one by one (`GroupMetadataManager.streamsGroupDescribe`).

    Error codes:

    - GROUP_ID_NOT_FOUND: there is no streams group with this id.
    - INVALID_GROUP_ID: the id is empty.
    - TOPIC_AUTHORIZATION_FAILED: the client may not describe one of the group's topics.
    - UNSUPPORTED_VERSION: the feature streams.version is off.
    """

    def conclude(described: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
        if request.include_topology_description:
            for group in described:
                if not group.error_code:
                    group.topology_description_status = _DESCRIPTION_NOT_STORED
        return StreamsGroupDescribeResponse(groups=described)

    return describe_groups(request, call, call.services.groups.streams, _describe, DescribedGroup, conclude)


def _describe(group: StreamsGroup, call: Call) -> DescribedGroup:
    topology = _describe_topology(group)
    for subtopology in () if topology is None else topology.subtopologies or ():
        internal = (info.name for info in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics))
        for name in (*subtopology.source_topics, *subtopology.repartition_sink_topics, *internal):
            if not call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
                raise GroupRefusedError(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    "The described group uses topics that the client is not authorized to describe.",
                )
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[
            _describe_member(member, group.target_of(member.member_id), group.find_reported_offsets(member.member_id))
            for member in timeline_order(group.members)
        ],
        assignor_name=ASSIGNOR,
    )


def _describe_topology(group: StreamsGroup) -> Topology | None:
    """Return the topology with the partition counts chosen by the coordinator, or as a member sent it."""
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        subtopologies = [
            Subtopology(
                subtopology_id=name,
                source_topics=sorted(set(subtopology.external_sources)),
                repartition_sink_topics=sorted(set(subtopology.sinks)),
                state_changelog_topics=_topic_infos(subtopology.changelogs),
                repartition_source_topics=_topic_infos(subtopology.repartition),
            )
            for name, subtopology in configured.subtopologies.items()
        ]
        return Topology(epoch=configured.epoch, subtopologies=subtopologies)
    if group.topology is None:
        return None
    subtopologies = [
        Subtopology(
            subtopology_id=name,
            source_topics=sorted(subtopology.source_topics),
            repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
            state_changelog_topics=_topic_infos(subtopology.state_changelog_topics),
            repartition_source_topics=_topic_infos(subtopology.repartition_source_topics),
        )
        for name, subtopology in sort_in_java_order(group.topology.subtopologies)
    ]
    return Topology(epoch=group.topology.epoch, subtopologies=subtopologies)


def _topic_infos(topics: Iterable[InternalTopic | RecordedTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in _topic_configs(topic)],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _topic_configs(topic: InternalTopic | RecordedTopic) -> Iterable[tuple[str, str]]:
    if isinstance(topic, InternalTopic):
        return topic.configs.items()
    return ((config.key, config.value) for config in topic.topic_configs)


def _describe_member(member: StreamsMember, target: Tasks, reported: ReportedOffsets) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags.items()],
        task_offsets=_describe_offsets(reported.reached),
        task_end_offsets=_describe_offsets(reported.ends),
        assignment=_describe_assignment(member.assigned.without_epochs()),
        target_assignment=_describe_assignment(target),
        is_classic=False,
    )


def _describe_offsets(reported: TaskOffsets) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=name, partition=index, offset=offset)
        for name, offsets in sort_in_java_order(reported)
        for index, offset in sorted(offsets.items())
    ]


def _describe_assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids(tasks.active), standby_tasks=task_ids(tasks.standby), warmup_tasks=task_ids(tasks.warmup)
    )


def task_ids(tasks: TaskSets) -> list[TaskIds]:
    """Return the tasks of each subtopology, in the order of Kafka's hash tables."""
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(indexes))
        for subtopology_id, indexes in sort_in_java_order(tasks)
    ]


@handles(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, needs=on_group(Operation.READ))
def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """StreamsGroupTopologyDescriptionUpdate: refuse the description of a topology (KIP-1331).

    Version 0 is served (`GroupCoordinatorService.streamsGroupTopologyDescriptionUpdate`). Kafka passes the
    description to the plugin that `group.streams.topology.description.plugin.class` names, and ships without one.
    Without a plugin Kafka returns UNSUPPORTED_VERSION and requests no descriptions from members. So does
    minibroker, which has no plugins.
    """
    del request
    message = "The broker has no streams group topology description plugin configured."
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=message if call.services.groups.streams.is_enabled else None,
    )
