"""A member of a consumer group of the classic protocol: joins, beats, commits, leaves."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from minibroker.support.range_assignment import Shares, rank
from minibroker_protocol.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minibroker_protocol.coordinator_records.consumer_protocol import TopicPartition as Partitions
from minibroker_protocol.coordinator_records.versioned import decode_versioned, encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import join_group as joins
from minibroker_protocol.messages import sync_group as syncs
from minibroker_protocol.messages.heartbeat import HeartbeatRequest
from minibroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.committed import commit_offsets
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.failures import ApiError, check, error_code

_PROTOCOL: Final = "range"
_VERSION: Final = 1
_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_HEARTBEAT_S: Final = 3.0
_REBALANCE_MS: Final = 300_000
_SESSION_MS: Final = 45_000

CountPartitions = Callable[[Iterable[str]], Mapping[str, int]]
"""The numbers of partitions of topics."""


class Membership:
    """This process as a member of a group; `partitions` are its share."""

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
        self._next_beat = 0.0
        self.partitions: list[TopicPartition] = []

    def join(self) -> None:
        """Join the group, or join it again, and take what the leader of the group gives. ApiError."""
        while True:
            joined = self._join()
            if joined is None:
                continue
            request = syncs.SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=self._shares(joined) if joined.leader == self._member_id else [],
            )
            synced = self._ask(request, wait=_REBALANCE_MS / 1000)
            if error_code(synced.error_code) in _REJOIN:
                self._forget(synced.error_code)
                continue
            check(synced.error_code)
            share = (
                decode_versioned(ConsumerProtocolAssignment, bytes(synced.assignment)) if synced.assignment else None
            )
            self.partitions = [
                (each.topic, index)
                for each in (share.assigned_partitions if share is not None else [])
                for index in each.partitions
            ]
            self._next_beat = time.monotonic() + _HEARTBEAT_S
            return

    def must_rejoin(self) -> bool:
        """Send a heartbeat if it is time for one; True when the group rebalances or has forgotten this member."""
        if time.monotonic() < self._next_beat:
            return False
        self._next_beat = time.monotonic() + _HEARTBEAT_S
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
        )
        code = self._ask(request).error_code
        if error_code(code) in _REJOIN:
            self._forget(code)
            return True
        check(code)
        return False

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member; a group that rebalances keeps its old ones."""
        if not offsets:
            return
        member = (self._generation, self._member_id, self._instance)
        for error in commit_offsets(self._cluster, self._group, offsets, member=member).values():
            if error is not None and error.code not in _REJOIN:
                raise error

    def leave(self) -> None:
        """Leave, unless the member is static."""
        if not self._member_id or self._instance is not None:
            return
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self._member_id, members=[MemberIdentity(member_id=self._member_id)]
        )
        self._ask(request)

    def _join(self) -> joins.JoinGroupResponse | None:
        """One attempt; None when it has to be repeated."""
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=self._topics), _VERSION)
        request = joins.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[joins.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=subscription)],
        )
        joined: joins.JoinGroupResponse = self._ask(request, wait=_REBALANCE_MS / 1000)
        code = error_code(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return None
        if code in _REJOIN:
            self._forget(code)
            return None
        check(code)
        self._member_id = joined.member_id
        self._generation = joined.generation_id
        return joined

    def _shares(self, joined: joins.JoinGroupResponse) -> list[syncs.SyncGroupRequestAssignment]:
        """The assignment of each member, by Kafka's RangeAssignor: of each topic a range of partitions."""
        subscribed: dict[str, list[str]] = {}
        for member in sorted(joined.members, key=lambda each: rank(each.member_id, each.group_instance_id)):
            wishes = decode_versioned(ConsumerProtocolSubscription, bytes(member.metadata))
            for topic in wishes.topics:
                subscribed.setdefault(topic, []).append(member.member_id)
        shares: dict[str, list[Partitions]] = {member.member_id: [] for member in joined.members}
        counts = self._count_partitions(sorted(subscribed))
        for topic, members in subscribed.items():
            pieces = Shares(counts.get(topic, 0), len(members))
            for member_id in members:
                indexes = list(pieces.take())
                if indexes:
                    shares[member_id].append(Partitions(topic=topic, partitions=indexes))
        return [
            syncs.SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_versioned(ConsumerProtocolAssignment(assigned_partitions=share), _VERSION),
            )
            for member_id, share in shares.items()
        ]

    def _forget(self, code: int) -> None:
        if error_code(code) is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    def _ask(self, request: object, *, wait: float = 0.0) -> Any:
        def ask() -> Any:
            response = self._cluster.coordinator(self._group).ask(request, wait=wait)
            if error_code(response.error_code) in {
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            }:
                raise ApiError(response.error_code)
            return response

        self._cluster.go_on()
        return self._cluster.retried(ask)
