"""Lists the groups of all brokers, and describes and deletes each group at its coordinator."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolAssignment
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import consumer_group
from minibroker_protocol.messages import groups as api
from minibroker_protocol.messages.metadata import MetadataResponseBroker
from minibroker_protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition, group_by_topic
from minibroker_tools.failures import ApiError, ToolError, check_all, find_error, raise_if_failed

T = TypeVar("T")

CONSUMER_TYPE: Final = "consumer"
"""The protocol type of consumer groups. Groups that only commit offsets have an empty type."""
DEAD: Final = "Dead"


class Listing(NamedTuple):
    """A group from ListGroups. The state and the type are empty if the broker is too old to return them."""

    group: str
    protocol_type: str
    state: str
    type: str


class Member(NamedTuple):
    """A group member with its ids, its address and its assigned partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class Description(NamedTuple):
    """A group with its members. `strategy` is the assignor or protocol that the members selected."""

    group: str
    state: str
    strategy: str
    coordinator: MetadataResponseBroker
    members: list[Member]


def list_groups(cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listing]:
    """Return the groups of all brokers.

    Raises:
        ApiError: A broker returned an error, such as UNSUPPORTED_VERSION for a filter that the broker does not
            support.
    """
    request = api.ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    listings: list[Listing] = []
    for broker in cluster.brokers():
        version = cluster.node(broker.node_id).version_for(request)
        if (states and version < 4) or (types and version < 5):  # noqa: PLR2004 - KIP-518 and KIP-848 added the fields
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The broker does not support filters of groups")
        response: api.ListGroupsResponse = cluster.ask_with_retries(partial(cluster.node, broker.node_id), request)
        listings += [
            Listing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in response.groups
        ]
    return listings


def is_consumer_group(listing: Listing) -> bool:
    """Return whether the group has or had consumers, or has only committed offsets."""
    return listing.protocol_type in {CONSUMER_TYPE, ""}


def describe_group(cluster: Cluster, group: str) -> Description:
    """Return a group with its members. A group that does not exist has the state Dead.

    Raises:
        ApiError: The coordinator returned an error.
        ToolError: The group is not a consumer group.
    """
    cluster.restart_timeout()  # The timeout applies to each group, as in Kafka's admin client.
    coordinator = cluster.coordinator_node(group)
    return _describe_consumer_group(cluster, group, coordinator) or _describe_classic_group(cluster, group, coordinator)


def _describe_consumer_group(cluster: Cluster, group: str, coordinator: MetadataResponseBroker) -> Description | None:
    """Return the description of a group that uses the consumer protocol (KIP-848), or None for any other group."""
    request = consumer_group.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    try:
        description: consumer_group.DescribedGroup = _ask_for_group(cluster, coordinator, request)
    except ApiError as error:
        if error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND}:
            return None
        raise
    members = [
        Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            [(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions],
        )
        for member in description.members
    ]
    return Description(group, description.group_state, description.assignor_name, coordinator, members)


def _describe_classic_group(cluster: Cluster, group: str, coordinator: MetadataResponseBroker) -> Description:
    request = api.DescribeGroupsRequest(groups=[group])
    try:
        description: api.DescribedGroup = _ask_for_group(cluster, coordinator, request)
    except ApiError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return Description(group, DEAD, "", coordinator, [])
        raise
    if description.protocol_type not in {CONSUMER_TYPE, ""}:
        raise ToolError(
            f"java.lang.IllegalArgumentException: GroupId {group} is not a consumer group "
            f"({description.protocol_type})."
        )
    members = [
        Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            decode_assignment(bytes(member.member_assignment)),
        )
        for member in description.members
    ]
    return Description(group, description.group_state, description.protocol_data, coordinator, members)


def _ask_for_group(cluster: Cluster, coordinator: MetadataResponseBroker, request: object) -> Any:
    """Return the only group in the coordinator's response. Retry transient errors."""

    def ask() -> Any:
        (description,) = cluster.node(coordinator.node_id).ask(request).groups
        return raise_if_failed(description)

    return cluster.retry(ask)


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """Decode the assigned partitions of a classic group member. Empty bytes contain no partitions."""
    if not assignment:
        return []
    assignment_record = decode_versioned(ConsumerProtocolAssignment, assignment)
    return [(topic.topic, index) for topic in assignment_record.assigned_partitions for index in topic.partitions]


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group.

    Raises:
        ApiError: The coordinator returned an error.
    """
    request = api.DeleteGroupsRequest(groups_names=[group])
    cluster.restart_timeout()
    cluster.retry(lambda: check_all(cluster.coordinator(group).ask(request).results))


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    """Delete committed offsets and return the error of each partition, or None on success.

    Raises:
        ApiError: The coordinator refused the whole request.
    """
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in group_by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response: OffsetDeleteResponse = cluster.ask_with_retries(partial(cluster.coordinator, group), request)
    return {key: find_error(partition) for key, partition in by_partition(response.topics).items()}


def attempt(work: Callable[[], T]) -> T | ApiError:
    """Return the result of `work`, or the ApiError that it raises."""
    try:
        return work()
    except ApiError as error:
        return error
