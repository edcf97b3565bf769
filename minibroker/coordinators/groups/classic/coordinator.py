"""Serves requests from members of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

These are Kafka's `classicGroupJoin`, `classicGroupSync`, `classicGroupHeartbeat` and `classicGroupLeave` in
`GroupMetadataManager`. As in Kafka, they first check whether the group uses the consumer protocol.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.node import Node
from minibroker.coordinators.groups.classic.group import Group, GroupState, Member, Protocol, Reply
from minibroker.coordinators.groups.classic.rebalances import (
    NO_LEADER,
    UNKNOWN_MEMBER,
    Rebalances,
    build_join_response,
    build_sync_response,
    join_error,
    sync_error,
)
from minibroker.coordinators.groups.consumer.classic_members import ClassicMembers
from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups, new_member_id
from minibroker.coordinators.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from minibroker.coordinators.groups.modern.group import GroupRefusedError, ModernGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from minibroker_protocol.schema import first_version

_FIRST_WITH_REBALANCE_TIMEOUT: Final = first_version(JoinGroupRequest, "rebalance_timeout_ms")
_FIRST_WITH_KNOWN_MEMBERS: Final = 4
_FIRST_WITH_NULLABLE_PROTOCOL: Final = first_version(JoinGroupResponse, "protocol_type")
_FIRST_WITH_SKIPPED_ASSIGNMENT: Final = first_version(JoinGroupResponse, "skip_assignment")
_ID_PREFIX_BYTES: Final = 32_000
"""The length to which the prefix of a member id is cut. A string of older versions has at most 32,767 bytes."""


class JoiningClient(NamedTuple):
    """The client that sent a JoinGroup.

    Attributes:
        node: The node that received the request.
        version: The version of the request.
        joins_early: Whether the client is kafka-python 3 (`client_quirks`).
        backs_off: Whether the client is sarama (`client_quirks`).
    """

    client_id: str
    host: str
    node: Node | None
    version: int
    joins_early: bool
    backs_off: bool


class _JoinReply(Reply):
    """The response to a JoinGroup, adapted to the request's version."""

    __slots__ = ("_no_protocol",)

    def __init__(self, core: Core, version: int) -> None:
        super().__init__(core)
        self._no_protocol = "" if version < _FIRST_WITH_NULLABLE_PROTOCOL else None

    def answer(self, response: JoinGroupResponse) -> None:
        response.protocol_name = response.protocol_name or self._no_protocol
        super().answer(response)


class ClassicGroups:
    """Serves requests from members of the classic protocol, both in classic groups and in consumer groups.

    Args:
        status: Returns whether a node can serve requests for a group.
        is_before_4_0: Whether the broker emulates a release before Kafka 4.0.
    """

    def __init__(
        self,
        core: Core,
        store: GroupStore,
        rebalances: Rebalances,
        consumers: ConsumerGroups,
        status: Callable[[str, Node | None], ErrorCode],
        *,
        is_before_4_0: bool,
    ) -> None:
        self.core = core
        self.store = store
        self.rebalances = rebalances
        self.status = status
        self.is_before_4_0 = is_before_4_0
        self._consumers = consumers

    def members_of(self, group: ConsumerGroup) -> ClassicMembers:
        """Return the members of the classic protocol in a consumer group."""
        return ClassicMembers(self._consumers, group, self.core.topics)

    def join(
        self, request: JoinGroupRequest, protocols: Sequence[Protocol], client: JoiningClient
    ) -> JoinGroupResponse | Reply:
        """Let a member join and return the response, delayed while other members must join (`classicGroupJoin`)."""
        join = _Join(self, request, protocols, client)
        join.run()
        outcome: JoinGroupResponse | Reply = join.reply.outcome()
        return outcome

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse | Reply:
        """Return a member's assignment, delayed until the leader has sent all assignments (`classicGroupSync`).

        Raises:
            GroupRefusedError: A consumer group rejects the request.
        """
        if (consumer_group := self.store.get_consumer(request.group_id)) is not None:
            return SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=self.members_of(consumer_group).sync(request),
            )
        group = self.store.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _sync_fault(group, request)
        if group is None or code:
            return sync_error(code)
        member = group.members[request.member_id]
        if member.joins_twice:
            member.joins_twice = False
            self.rebalances.prepare(group)
            return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        self.rebalances.record_sync(group, member)
        if group.is_in(GroupState.STABLE):
            self.rebalances.restart_session(group, member)
            return build_sync_response(group, member)
        self.rebalances.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        reply = member.sync = Reply(self.core)
        if group.leader == member.member_id:
            self.rebalances.assign(group, {item.member_id: bytes(item.assignment) for item in request.assignments})
        outcome: SyncGroupResponse | Reply = reply.outcome()
        return outcome

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Restart a member's session, and return NONE or an error (`classicGroupHeartbeat`).

        Raises:
            GroupRefusedError: A consumer group rejects the request.
        """
        identity = request.member_id, request.group_instance_id, request.generation_id
        if (consumer_group := self.store.get_consumer(request.group_id)) is not None:
            self.members_of(consumer_group).heartbeat(*identity)
            return ErrorCode.NONE
        group = self.store.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.validate_generation(*identity)
        if group is None or code:
            return code
        self.rebalances.restart_session(group, group.members[request.member_id])
        rebalancing = group.is_in(GroupState.PREPARING_REBALANCE)
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members and return the error of each. The remaining members must join again (`classicGroupLeave`)."""
        group = self.store.find(group_id)
        if isinstance(group, ConsumerGroup):
            return self.members_of(group).leave(leaving)
        if isinstance(group, Group):
            return [self._remove_member(group, identity) for identity in leaving]
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)

    def _remove_member(self, group: Group, leaving: MemberIdentity) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id in group.pending:
            self.rebalances.remove_pending(group, member_id)
            return ErrorCode.NONE
        if not member_id:
            member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
        if not (code := group.validate_member(member_id, instance_id)):
            self.rebalances.remove(group, group.members[member_id])
        return code


def _sync_fault(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """Return the error for a member's SyncGroup in the current state of the group, or NONE."""
    if code := group.validate_generation(request.member_id, request.group_instance_id, request.generation_id):
        return code
    protocols = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
    if any(name not in {None, own} for name, own in protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(GroupState.PREPARING_REBALANCE) else ErrorCode.NONE


class _Join:
    """The state of one JoinGroup request while it is processed, until `reply` is sent or stored in the group."""

    def __init__(
        self, groups: ClassicGroups, request: JoinGroupRequest, protocols: Sequence[Protocol], client: JoiningClient
    ) -> None:
        self._groups = groups
        self._rebalances = groups.rebalances
        self._request = request
        self._protocols = tuple(protocols)
        self._client = client
        self._is_late = False  # Whether this join has already waited for the SyncGroup requests of other members.
        has_rebalance_timeout = client.version >= _FIRST_WITH_REBALANCE_TIMEOUT
        self._rebalance_ms = request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
        self.reply = _JoinReply(groups.core, client.version)

    def run(self) -> None:
        """Process the request: answer through `reply` now, or store `reply` in the group to answer later."""
        request, config, store = self._request, self._groups.core.config, self._groups.store
        if code := self._groups.status(request.group_id, self._client.node):
            self._refuse(code)
            return
        min_session_ms = config.integer("group.min.session.timeout.ms")
        if not min_session_ms <= request.session_timeout_ms <= config.integer("group.max.session.timeout.ms"):
            self._refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        existing = store.find(request.group_id)
        if isinstance(existing, ConsumerGroup) and not existing.is_empty:
            self._join_consumers(existing)
            return
        if isinstance(existing, ShareGroup) or (isinstance(existing, ModernGroup) and not existing.is_empty):
            self.reply.answer(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        group = store.get(request.group_id) if request.member_id else store.get_or_create(request.group_id)
        if group is None:
            self._refuse(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        # Since 4.0, Kafka first writes a record of the new, empty group.
        if group is not existing and not self._groups.is_before_4_0 and (code := store.save_group(group)):
            self._refuse(code)
            return
        if not _has_room(group, request.member_id, config.integer("group.max.size")):
            group.remove(request.member_id)
            self.reply.answer(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, (protocol.name for protocol in self._protocols)):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id:
            self._join_again(group)
        else:
            self._join_newly(group)
        self._rebalances.maybe_complete_join(group)

    def _refuse(self, code: ErrorCode) -> None:
        self.reply.answer(join_error(code, self._request.member_id))

    # The following methods join a group of the consumer protocol.

    def _join_consumers(self, group: ConsumerGroup) -> None:
        """Join a consumer group, whose coordinator assigns immediately (`classicGroupJoinToConsumerGroup`)."""
        request, client = self._request, self._client
        member_id = request.member_id or new_member_id()
        members = self._groups.members_of(group)
        try:
            members.check_joining(member_id, request.group_instance_id, request.protocol_type, self._protocols)
            is_new = not request.member_id and request.group_instance_id is None
            if is_new and client.version >= _FIRST_WITH_KNOWN_MEMBERS:
                self.reply.answer(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
            client_identity = client.client_id, client.host
            member = members.join(request, member_id, self._protocols, self._rebalance_ms, client_identity)
        except GroupRefusedError as error:
            self.reply.answer(join_error(error.code))
            return
        self.reply.answer(
            JoinGroupResponse(
                error_code=ErrorCode.NONE,
                generation_id=member.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=self._protocols[0].name,
                leader=NO_LEADER,
                member_id=member.member_id,
                members=[],
            )
        )

    def _join_newly(self, group: Group) -> None:
        request = self._request
        instance_id = request.group_instance_id
        member_id = _new_member_id(self._client.client_id if instance_id is None else instance_id)
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static_member(group, instance_id, member_id)
        elif instance_id is None and self._client.version >= _FIRST_WITH_KNOWN_MEMBERS:
            self._rebalances.expect(group, member_id, request.session_timeout_ms)
            self.reply.answer(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add_member(group, member_id)
        self._rebalances.end_expected_join(group.group_id)

    def _add_member(self, group: Group, member_id: str) -> None:
        request = self._request
        if not self._is_late and self._rebalances.is_awaiting_sync(group):
            self._is_late = True
            self._rebalances.defer_join(group, self.run)
            return
        member = Member(
            member_id,
            request.group_instance_id,
            self._client.client_id,
            self._client.host,
            self._rebalance_ms,
            request.session_timeout_ms,
            self._protocols,
        )
        member.joins_early = self._client.joins_early
        member.backs_off = self._client.backs_off
        if not group.members:
            group.protocol_type = request.protocol_type
        group.park_join(member, self.reply)
        self._rebalances.add(group, member)

    def _replace_static_member(self, group: Group, instance_id: str, member_id: str) -> None:
        """Replace the member id of a returning static member (`updateStaticMemberThenRebalanceOrCompleteJoin`)."""
        old_id, old_leader = group.static_members[instance_id], group.leader
        member = group.members[old_id]
        group.answer_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._rebalances.answer_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        old_settings = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        group.replace_static(instance_id, member_id)
        group.update(member, self._protocols, self._rebalance_ms, self._request.session_timeout_ms)
        self._rebalances.restart_session(group, member)
        if group.is_in(GroupState.STABLE) and group.select_protocol() == group.protocol_name:
            if code := self._groups.store.save_group(group):  # Undo the changes, because they could not be stored.
                group.update(member, *old_settings)
                group.replace_static(instance_id, old_id)
                self._rebalances.restart_session(group, member)
                response = build_join_response(group, member, leader=old_leader)
                response.error_code, response.member_id = code, UNKNOWN_MEMBER
                self.reply.answer(response)
            elif self._client.version >= _FIRST_WITH_SKIPPED_ASSIGNMENT:
                self.reply.answer(build_join_response(group, member, skip_assignment=True))
            else:
                self.reply.answer(build_join_response(group, member, leader=old_leader))
            return
        group.park_join(member, self.reply)
        self._rebalances.maybe_prepare(group)

    def _join_again(self, group: Group) -> None:
        request = self._request
        if request.member_id in group.pending:
            if request.group_instance_id is None:
                self._add_member(group, request.member_id)
            else:  # As in Kafka, a pending member cannot become a static member.
                self.reply.answer(join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if code := group.validate_member(request.member_id, request.group_instance_id):
            self._refuse(code)
            return
        member = group.members[request.member_id]
        leads = group.leader == member.member_id
        has_changed = member.protocols != self._protocols
        if not has_changed and (
            group.is_in(GroupState.COMPLETING_REBALANCE) or (group.is_in(GroupState.STABLE) and not leads)
        ):
            # A member that joins again without changes may have missed the last response. In a stable group, a leader
            # is not answered here: its metadata may have changed, so a rebalance starts below.
            self.reply.answer(build_join_response(group, member))
            return
        group.update(member, self._protocols, self._rebalance_ms, request.session_timeout_ms)
        if member.join is not None:
            member.join.answer(join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joins_early = self._client.joins_early
        member.joins_twice = member.joins_early and not group.is_in(GroupState.PREPARING_REBALANCE)
        group.park_join(member, self.reply)
        self._rebalances.maybe_prepare(group)


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    """Return whether the group has room for a member (`acceptJoiningMember`).

    During a rebalance, only the members that have already joined again count.
    """
    if group.is_in(GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return (member is not None and member.join is not None) or group.waiting_to_join < max_size
    return member is not None or len(group.members) < max_size


def _new_member_id(name: str) -> str:
    prefix = name.encode()[:_ID_PREFIX_BYTES].decode("utf-8", "ignore")
    return f"{prefix}-{uuid.uuid4()}"
