"""Groups: ListGroups at every broker; descriptions and deletions at the coordinator of each group."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolAssignment
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import consumer_group
from minibroker_protocol.messages import groups as api
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.metadata import MetadataResponseBroker
from minibroker_protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_topic
from minibroker_tools.failures import ApiError, ToolError, checked, error_code, error_in

T = TypeVar("T")

CONSUMER_TYPE: Final = "consumer"
"""The protocol type of consumer groups; groups that only commit offsets have an empty one."""
DEAD: Final = "Dead"


class Listing(NamedTuple):
    """A group as ListGroups names it; state and type are empty where the broker is too old for them."""

    group: str
    protocol_type: str
    state: str
    type: str


class Member(NamedTuple):
    """A member of a group; its id, instance id, address and partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


class Description(NamedTuple):
    """A group with its members; `strategy` is the assignor or the protocol that the members chose."""

    group: str
    state: str
    strategy: str
    coordinator: MetadataResponseBroker
    members: list[Member]


def list_groups(cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listing]:
    """The groups of all brokers. ApiError, such as UNSUPPORTED_VERSION for a filter that a broker does not know."""
    request = api.ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: list[Listing] = []
    for broker in cluster.brokers():
        version = cluster.node(broker.node_id).version_for(request)
        if (states and version < 4) or (types and version < 5):  # noqa: PLR2004 - KIP-518 and KIP-848 added the fields
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The broker does not support filters of groups")
        response: api.ListGroupsResponse = cluster.ask_until_settled(partial(cluster.node, broker.node_id), request)
        found += [
            Listing(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in response.groups
        ]
    return found


def is_consumer_group(listing: Listing) -> bool:
    """Has the group consumers, or had it, or only committed offsets?"""
    return listing.protocol_type in {CONSUMER_TYPE, ""}


def describe_group(cluster: Cluster, group: str) -> Description:
    """A group with its members; one that does not exist is Dead. ApiError, ToolError for a group of other programs."""
    cluster.go_on()  # the time is for each group, as with Kafka's admin client
    coordinator = cluster.coordinator_node(group)
    return _described_new(cluster, group, coordinator) or _described_classic(cluster, group, coordinator)


def _described_new(cluster: Cluster, group: str, coordinator: MetadataResponseBroker) -> Description | None:
    """The description of a group of the consumer protocol (KIP-848); None for any other."""
    request = consumer_group.ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)

    def ask() -> consumer_group.DescribedGroup:
        response: consumer_group.ConsumerGroupDescribeResponse = cluster.node(coordinator.node_id).ask(request)
        (found,) = response.groups
        return checked(found)

    try:
        found = cluster.retried(ask)
    except ApiError as error:
        if error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND}:
            return None
        raise
    members = [
        Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            [(topic.topic_name, index) for topic in each.assignment.topic_partitions for index in topic.partitions],
        )
        for each in found.members
    ]
    return Description(group, found.group_state, found.assignor_name, coordinator, members)


def _described_classic(cluster: Cluster, group: str, coordinator: MetadataResponseBroker) -> Description:
    request = api.DescribeGroupsRequest(groups=[group])

    def ask() -> api.DescribedGroup:
        response: api.DescribeGroupsResponse = cluster.node(coordinator.node_id).ask(request)
        (found,) = response.groups
        return found if error_code(found.error_code) is ErrorCode.GROUP_ID_NOT_FOUND else checked(found)

    found = cluster.retried(ask)
    if found.error_code:
        return Description(group, DEAD, "", coordinator, [])
    if found.protocol_type not in {CONSUMER_TYPE, ""}:
        raise ToolError(
            f"java.lang.IllegalArgumentException: GroupId {group} is not a consumer group ({found.protocol_type})."
        )
    members = [
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _partitions(bytes(each.member_assignment)),
        )
        for each in found.members
    ]
    return Description(group, found.group_state, found.protocol_data, coordinator, members)


def _partitions(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    share = decode_versioned(ConsumerProtocolAssignment, assignment)
    return [(each.topic, index) for each in share.assigned_partitions for index in each.partitions]


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group. ApiError."""

    def ask() -> None:
        request = DeleteGroupsRequest(groups_names=[group])
        (result,) = cluster.coordinator(group).ask(request).results
        checked(result)

    cluster.go_on()
    cluster.retried(ask)


def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    """Delete committed offsets; the error of each partition. ApiError for the group as a whole."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response: OffsetDeleteResponse = cluster.ask_until_settled(partial(cluster.coordinator, group), request)
    return {
        (topic.name, each.partition_index): error_in(each) for topic in response.topics for each in topic.partitions
    }


def attempt(work: Callable[[], T]) -> T | ApiError:
    """The result of `work`, or the error with which a broker answered it."""
    try:
        return work()
    except ApiError as error:
        return error
