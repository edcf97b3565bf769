"""Consumers that read given partitions or join a classic group."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

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
from minibroker_protocol.messages import groups as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import decode_assignment
from minibroker_tools.client.offsets import (
    EARLIEST,
    LATEST,
    TopicPartition,
    by_partition,
    commit_offsets,
    fetch_committed_offsets,
    group_values,
)
from minibroker_tools.client.reader import POLL_S, Reader, Received
from minibroker_tools.failures import ApiError, check, error_code

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

CountPartitions = Callable[[Iterable[str]], Mapping[str, int]]
"""A function that returns the number of partitions of each topic."""
_COMMIT_INTERVAL_S: Final = 5.0
_TOPIC_REFRESH_S: Final = 300.0
_TOPIC_RETRY_S: Final = 0.5


class Membership:
    """The membership of this process in a classic group. `partitions` is its assignment."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        count_partitions: CountPartitions,
        instance: str | None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._count_partitions = count_partitions
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
        counts = self._count_partitions(sorted(subscribed))
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
                self._member = Membership(
                    self._cluster, self._group, subscribed, self._partition_counts, self._instance
                )
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

    def _partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        return {topic.name or "": len(topic.partitions) for topic in self._cluster.metadata(names).topics}
