"""Groups: lists, describes and deletes them at their coordinators, and reads topics as a member of one."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from minibroker_protocol.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    RangeSplitter,
    member_sort_key,
)
from minibroker_protocol.coordinator_records.consumer_protocol import TopicPartition as Partitions
from minibroker_protocol.coordinator_records.versioned import decode_versioned, encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import is_true, trim
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
from minibroker_tools.client.offsets import (
    EARLIEST,
    LATEST,
    TopicPartition,
    by_partition,
    commit_offsets,
    fetch_committed_offsets,
    group_by_topic,
    group_values,
)
from minibroker_tools.client.reader import POLL_S, Reader, Received
from minibroker_tools.failures import ApiError, ToolError, check, check_all, error_code, find_error, raise_if_failed

T = TypeVar("T")

CONSUMER_TYPE: Final = "consumer"
"""The protocol type of consumer groups. Groups that only commit offsets have an empty type."""
DEAD: Final = "Dead"


Listing: TypeAlias = api.ListedGroup
"""A group from ListGroups. The state and the type are empty if the broker is too old to return them."""


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
    """Return the groups of all brokers, sorted by name.

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
        listings += response.groups
    return sorted(listings, key=lambda listing: listing.group_id)


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


_ASSIGNOR: Final = "range"
_PROTOCOL_VERSION: Final = 1
_REJOIN_ERRORS: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
)
_COORDINATOR_ERRORS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_HEARTBEAT_INTERVAL_S: Final = 3.0
_REBALANCE_TIMEOUT_MS: Final = 300_000
_SESSION_TIMEOUT_MS: Final = 45_000
_COMMIT_INTERVAL_S: Final = 5.0
_TOPIC_REFRESH_S: Final = 300.0
_TOPIC_RETRY_S: Final = 0.5


class Membership:
    """The membership of this process in a classic group. `partitions` is its assignment."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str], instance: str | None) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._instance = instance
        self._member_id: str = ""
        self._generation = -1
        self._next_heartbeat = 0.0
        self.partitions: list[TopicPartition] = []

    def join(self) -> None:
        """Join or rejoin the group, and store the assignment from the group leader in `partitions`.

        Raises:
            ApiError: The coordinator refused the member.
        """
        while True:
            join_response = self._join()
            if join_response is None:
                continue
            request = api.SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type="consumer",
                protocol_name=join_response.protocol_name,
                assignments=self._assign_partitions(join_response) if join_response.leader == self._member_id else [],
            )
            sync_response = self._ask(request, wait=_REBALANCE_TIMEOUT_MS / 1000)
            if error_code(sync_response.error_code) in _REJOIN_ERRORS:
                self._reset_member_id(sync_response.error_code)
                continue
            check(sync_response.error_code)
            self.partitions = decode_assignment(bytes(sync_response.assignment))
            self._next_heartbeat = time.monotonic() + _HEARTBEAT_INTERVAL_S
            return

    def must_rejoin(self) -> bool:
        """Send a heartbeat if one is due, and return whether the member must rejoin.

        A member must rejoin if the group is rebalancing, or if the member is no longer in it.
        """
        if time.monotonic() < self._next_heartbeat:
            return False
        self._next_heartbeat = time.monotonic() + _HEARTBEAT_INTERVAL_S
        request = api.HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
        )
        code = self._ask(request).error_code
        if error_code(code) in _REJOIN_ERRORS:
            self._reset_member_id(code)
            return True
        check(code)
        return False

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member. If the group is rebalancing, nothing is committed and no error is raised."""
        if not offsets:
            return
        member = (self._generation, self._member_id, self._instance)
        for error in commit_offsets(self._cluster, self._group, offsets, member=member).values():
            if error is not None and error.code not in _REJOIN_ERRORS:
                raise error

    def leave(self) -> None:
        """Leave the group, unless the member is static."""
        if not self._member_id or self._instance is not None:
            return
        request = api.LeaveGroupRequest(
            group_id=self._group, member_id=self._member_id, members=[api.MemberIdentity(member_id=self._member_id)]
        )
        self._ask(request)

    def _join(self) -> api.JoinGroupResponse | None:
        """Send one JoinGroup request and return the response, or None if the request must be repeated."""
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=self._topics), _PROTOCOL_VERSION)
        request = api.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[api.JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=subscription)],
        )
        join_response: api.JoinGroupResponse = self._ask(request, wait=_REBALANCE_TIMEOUT_MS / 1000)
        code = error_code(join_response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = join_response.member_id
            return None
        if code in _REJOIN_ERRORS:
            self._reset_member_id(code)
            return None
        check(code)
        self._member_id = join_response.member_id
        self._generation = join_response.generation_id
        return join_response

    def _assign_partitions(self, response: api.JoinGroupResponse) -> list[api.SyncGroupRequestAssignment]:
        """Assign each member a range of partitions of each topic, like Kafka's RangeAssignor."""
        members = sorted(
            response.members, key=lambda member: member_sort_key(member.member_id, member.group_instance_id)
        )
        subscribed = group_values(
            (topic, member.member_id)
            for member in members
            for topic in decode_versioned(ConsumerProtocolSubscription, bytes(member.metadata)).topics
        )
        assignments: dict[str, list[Partitions]] = {member.member_id: [] for member in response.members}
        counts = {topic.name: len(topic.partitions) for topic in self._cluster.metadata(sorted(subscribed)).topics}
        for topic, member_ids in subscribed.items():
            ranges = RangeSplitter(counts.get(topic, 0), len(member_ids))
            for member_id in member_ids:
                if indexes := list(ranges.next_range()):
                    assignments[member_id].append(Partitions(topic=topic, partitions=indexes))
        return [
            api.SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(assigned_partitions=partitions), _PROTOCOL_VERSION
                ),
            )
            for member_id, partitions in assignments.items()
        ]

    def _reset_member_id(self, code: int) -> None:
        if error_code(code) is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    def _ask(self, request: object, *, wait: float = 0.0) -> Any:
        def ask() -> Any:
            response = self._cluster.coordinator(self._group).ask(request, wait=wait)
            if error_code(response.error_code) in _COORDINATOR_ERRORS:
                raise ApiError(response.error_code)
            return response

        self._cluster.restart_timeout()
        return self._cluster.retry(ask)


class Consumer:
    """A consumer of the topics that match a predicate, with or without a group.

    Without a group, the consumer reads all partitions and commits no offsets, so it needs no coordinator.
    """

    def __init__(
        self, cluster: Cluster, topic: str | None, matches: Callable[[str], bool], properties: Mapping[str, str]
    ) -> None:
        """Create the consumer without contacting the cluster.

        Args:
            cluster: The cluster to read from.
            topic: The only topic to read, which the broker may auto-create, or None to select topics with
                `matches`.
            matches: A predicate that selects topics by name.
            properties: Kafka's consumer properties.
        """
        self._cluster = cluster
        self._topic = topic
        self._matches = matches
        reset = properties.get("auto.offset.reset", "latest")
        committed_only = properties.get("isolation.level", "read_uncommitted") == "read_committed"
        self._start = EARLIEST if reset == "earliest" else LATEST
        #: The reader of the consumer's partitions.
        self.reader = Reader(cluster, reset=reset, read_committed=committed_only)
        self._group = properties.get("group.id")
        self._instance = properties.get("group.instance.id") or None
        self._auto_commit = is_true(trim(properties.get("enable.auto.commit", "true")))
        self._member: Membership | None = None
        self._names: list[str] = []
        self._next_refresh = 0.0
        self._next_commit = time.monotonic() + _COMMIT_INTERVAL_S
        # The offset after the last consumed record of each partition.
        self.next_offsets: dict[TopicPartition, int] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read only this partition, starting at `offset`: -1 is the end and -2 the start."""
        self.reader.assign({partition: offset})
        self._next_refresh = float("inf")
        self._group = None

    def poll(self, seconds: float = POLL_S) -> list[Received]:
        """Return the records that arrive within `seconds`, but wait at most half a second."""
        now = time.monotonic()
        if now >= self._next_refresh:
            self._refresh_topics()
        if self._member is not None:
            if self._auto_commit and now >= self._next_commit:
                self.commit()
            if self._member.must_rejoin():
                self.commit()
                self._rejoin(self._member)
        return self.reader.poll(seconds)

    def commit(self) -> None:
        """Commit the offsets of the consumed records if this consumer is a group member with auto-commit.

        Raises:
            ApiError: The coordinator rejected the commit.
        """
        self._next_commit = time.monotonic() + _COMMIT_INTERVAL_S
        if self._member is not None and self._auto_commit:
            self._member.commit(self.next_offsets)

    def close(self) -> None:
        """Commit the offsets of the consumed records and leave the group, if there is one."""
        self.commit()
        if self._member is not None:
            self._member.leave()

    def _refresh_topics(self) -> None:
        """Look up the topics and their partitions. This happens initially and then periodically."""
        partitions = self._find_partitions()
        self._next_refresh = time.monotonic() + (_TOPIC_REFRESH_S if partitions else _TOPIC_RETRY_S)
        names = sorted({topic for topic, _ in partitions})
        if self._group is not None:
            if self._member is None and (names or self._topic is not None):
                subscribed = names or [self._topic or ""]
                self._member = Membership(self._cluster, self._group, subscribed, self._instance)
                self._rejoin(self._member)
            return
        positions = self.reader.positions
        if set(positions) == set(partitions):
            return
        # A partition that appears later is read from its start because all of its records are new.
        start = EARLIEST if positions or self._names else self._start
        self._names = names or self._names
        self.reader.assign({partition: positions.get(partition, start) for partition in partitions})

    def _rejoin(self, member: Membership) -> None:
        member.join()
        committed = (
            fetch_committed_offsets(self._cluster, self._group or "", member.partitions) if member.partitions else {}
        )
        self.next_offsets = {}
        self.reader.assign({partition: committed.get(partition, self._start) for partition in member.partitions})

    def _find_partitions(self) -> list[TopicPartition]:
        requested_topics = None if self._topic is None else [self._topic]
        topics = self._cluster.metadata(requested_topics, create=True).topics
        return [
            (topic, index)
            for topic, index in by_partition(topics)
            if topic and (self._topic is not None or self._matches(topic))
        ]
