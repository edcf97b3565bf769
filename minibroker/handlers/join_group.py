"""JoinGroup: become a member of a group, and wait for its next generation.

Versions 0-9. Before version 1 the session timeout is the rebalance timeout, too. From version 4 on a dynamic member is
first given its id (MEMBER_ID_REQUIRED) and joins with it, so that a lost answer leaves no ghost behind (KIP-394).

Static members from version 5 on (KIP-345): one that comes back without its member id takes its old place, without a
rebalance where the group is stable and agrees on the same protocol as before; its former self is fenced. A static
leader that came back so leads without assigning from version 9 on (KIP-814); before, the response says that its
former self leads.

Unlike Kafka, a second JoinGroup of a member ends the first one, with REBALANCE_IN_PROGRESS: Kafka never answers that.
"""

import uuid
from typing import Final

from minibroker.coordinators.groups.classic.client_quirks import backs_off
from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.classic.members import Member, Protocol, Reply
from minibroker.coordinators.groups.classic.responses import NO_LEADER, UNKNOWN_MEMBER, join_error, joined, sync_error
from minibroker.coordinators.groups.consumer.classic_members import ClassicMembers
from minibroker.coordinators.groups.consumer.coordinator import new_member_id
from minibroker.coordinators.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from minibroker.coordinators.groups.coordinator import GroupCoordinator
from minibroker.coordinators.groups.modern.answers import GroupRefusedError
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.requests.call import Call
from minibroker.requests.requirements import on_group
from minibroker.security.authorization.acls import Operation
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minibroker_protocol.records.compression import bytes_in_steps
from minibroker_protocol.schema import first_version

_FIRST_WITH_REBALANCE_TIMEOUT: Final = first_version(JoinGroupRequest, "rebalance_timeout_ms")
_FIRST_WITH_KNOWN_MEMBERS: Final = 4
_FIRST_WITH_NULLABLE_PROTOCOL: Final = first_version(JoinGroupResponse, "protocol_type")
_FIRST_WITH_SKIPPED_ASSIGNMENT: Final = first_version(JoinGroupResponse, "skip_assignment")
_ID_PREFIX_BYTES: Final = 32_000
"""Room for a UUID is left: a string of the older versions has at most 32,767 bytes."""

_COPIED_AT_ONCE: Final = 1 << 20
"""Bytes of metadata; dispatch keeps requests with more of them in memory that outlives the steps."""

NEEDS: Final = on_group(Operation.READ)


def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Reply | Steps[JoinGroupResponse | Reply]:
    """Answer at once when no other member has to join; in steps if there is much metadata to be copied."""
    if sum(len(each.metadata) for each in request.protocols) > _COPIED_AT_ONCE:
        return _join_in_steps(request, call)
    return _join(request, call, tuple(Protocol(each.name, bytes(each.metadata)) for each in request.protocols))


def _join_in_steps(request: JoinGroupRequest, call: Call) -> Steps[JoinGroupResponse | Reply]:
    protocols: list[Protocol] = []
    for each in request.protocols:
        protocols.append(Protocol(each.name, (yield from bytes_in_steps(memoryview(each.metadata)))))
        yield
    return _join(request, call, tuple(protocols))


def _join(request: JoinGroupRequest, call: Call, protocols: tuple[Protocol, ...]) -> JoinGroupResponse | Reply:
    join = _Join(request, call, protocols)
    join.run()
    outcome: JoinGroupResponse | Reply = join.reply.outcome()
    return outcome


class _JoinReply(Reply):
    """The answer, in the form of the request's version."""

    __slots__ = ("_no_protocol",)

    def __init__(self, call: Call) -> None:
        super().__init__(call.core)
        self._no_protocol = "" if call.api_version < _FIRST_WITH_NULLABLE_PROTOCOL else None

    def answer(self, response: JoinGroupResponse) -> None:
        response.protocol_name = response.protocol_name or self._no_protocol
        super().answer(response)


class _Join:
    """One JoinGroup on its way."""

    __slots__ = ("_call", "_coordinator", "_is_late", "_protocols", "_rebalance_ms", "_request", "reply")

    def __init__(self, request: JoinGroupRequest, call: Call, protocols: tuple[Protocol, ...]) -> None:
        self._request = request
        self._call = call
        self._coordinator: GroupCoordinator = call.services.groups
        self._protocols = protocols
        self._is_late = False  # it has waited for the SyncGroup of others
        named = call.api_version >= _FIRST_WITH_REBALANCE_TIMEOUT
        self._rebalance_ms = request.rebalance_timeout_ms if named else request.session_timeout_ms
        self.reply = _JoinReply(call)

    def run(self) -> None:
        """See to it that `reply` is answered, now or later (`GroupCoordinator.handleJoinGroup`)."""
        request, config, store = self._request, self._call.core.config, self._coordinator.store
        code = self._coordinator.status(request.group_id, self._call.node)
        if code:
            self._refuse(code)
            return
        shortest = config.integer("group.min.session.timeout.ms")
        if not shortest <= request.session_timeout_ms <= config.integer("group.max.session.timeout.ms"):
            self._refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        consumers = store.get_consumer(request.group_id)
        if consumers is not None and not consumers.is_empty:
            self._join_consumers(consumers)
            return
        found = store.find(request.group_id)
        if isinstance(found, ShareGroup) or (isinstance(found, StreamsGroup) and not found.is_empty):
            self.reply.answer(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        group = store.get(request.group_id) if request.member_id else store.get_or_create(request.group_id)
        if group is None:
            self._refuse(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        if group is not found and not self._call.services.is_before("4.0"):  # Kafka 4 writes an empty group first
            code = store.save_group(group)
            if code:
                self._refuse(code)
                return
        if not _has_room(group, request.member_id, config.integer("group.max.size")):
            group.remove(request.member_id)
            self.reply.answer(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, (each.name for each in self._protocols)):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id:
            self._join_again(group)
        else:
            self._join_newly(group)
        self._coordinator.rebalances.maybe_complete_join(group)

    def _refuse(self, code: ErrorCode) -> None:
        self.reply.answer(join_error(code, self._request.member_id))

    # Into a group of the consumer protocol

    def _join_consumers(self, group: ConsumerGroup) -> None:
        """Be assigned at once (`classicGroupJoinToConsumerGroup`)."""
        request, call = self._request, self._call
        member_id = request.member_id or new_member_id()
        members = ClassicMembers(self._coordinator.consumers, group, call.core.topics)
        try:
            members.check_joining(member_id, request.group_instance_id, request.protocol_type, self._protocols)
            is_new = not request.member_id and request.group_instance_id is None
            if is_new and call.api_version >= _FIRST_WITH_KNOWN_MEMBERS:
                self.reply.answer(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
            client = call.client_id or "", call.client_host
            member = members.join(request, member_id, self._protocols, self._rebalance_ms, client)
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

    # Without a member id

    def _join_newly(self, group: Group) -> None:
        request = self._request
        instance_id = request.group_instance_id
        member_id = _new_member_id(self._call.client_id or "" if instance_id is None else instance_id)
        if instance_id is not None and instance_id in group.static_members:
            self._replace(group, instance_id, member_id)
        elif instance_id is None and self._call.api_version >= _FIRST_WITH_KNOWN_MEMBERS:
            self._coordinator.rebalances.expect(group, member_id, request.session_timeout_ms)
            self.reply.answer(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, member_id)
        self._coordinator.rebalances.end_expected_join(group.group_id)

    def _add(self, group: Group, member_id: str) -> None:
        request = self._request
        rebalances = self._coordinator.rebalances
        if not self._is_late and rebalances.is_awaiting_sync(group):
            self._is_late = True
            rebalances.defer_join(group, self.run)
            return
        member = Member(
            member_id,
            request.group_instance_id,
            self._call.client_id or "",
            self._call.client_host,
            self._rebalance_ms,
            request.session_timeout_ms,
            self._protocols,
        )
        session = self._call.session
        member.joins_early = session.early_joiner is not None
        member.backs_off = self._call.services.works_around_clients and backs_off(
            session.software, self._call.client_id
        )
        if not group.members:
            group.protocol_type = request.protocol_type
        group.park_join(member, self.reply)
        rebalances.add(group, member)

    def _replace(self, group: Group, instance_id: str, member_id: str) -> None:
        """A static member is back (`updateStaticMemberAndRebalance`)."""
        rebalances = self._coordinator.rebalances
        old_id, old_leader = group.static_members[instance_id], group.leader
        member = group.members[old_id]
        group.answer_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        rebalances.answer_sync(member, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        group.replace_static(instance_id, member_id)
        group.update(member, self._protocols, self._rebalance_ms, self._request.session_timeout_ms)
        rebalances.restart_session(group, member)
        if group.is_in(GroupState.STABLE) and group.select_protocol() == group.protocol_name:
            code = self._coordinator.store.save_group(group)
            if code:  # nothing has happened
                group.update(member, *before)
                group.replace_static(instance_id, old_id)
                rebalances.restart_session(group, member)
                response = joined(group, member, leader=old_leader)
                response.error_code, response.member_id = code, UNKNOWN_MEMBER
                self.reply.answer(response)
            elif self._call.api_version >= _FIRST_WITH_SKIPPED_ASSIGNMENT:
                self.reply.answer(joined(group, member, skip_assignment=True))
            else:
                self.reply.answer(joined(group, member, leader=old_leader))
            return
        group.park_join(member, self.reply)
        rebalances.maybe_prepare(group)

    # With a member id

    def _join_again(self, group: Group) -> None:
        request = self._request
        if request.member_id in group.pending:
            if request.group_instance_id is None:
                self._add(group, request.member_id)
            else:  # Kafka stumbles, too
                self.reply.answer(join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        code = group.validate_member(request.member_id, request.group_instance_id)
        if code:
            self._refuse(code)
            return
        member = group.members[request.member_id]
        leads = group.leader == member.member_id
        has_changed = member.protocols != self._protocols
        if not has_changed and (
            group.is_in(GroupState.COMPLETING_REBALANCE) or (group.is_in(GroupState.STABLE) and not leads)
        ):
            # It has missed the answer, or wants to know where the group is. A leader may have news, though.
            self.reply.answer(joined(group, member))
            return
        group.update(member, self._protocols, self._rebalance_ms, request.session_timeout_ms)
        if member.join is not None:
            member.join.answer(join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joins_early = self._call.session.early_joiner is not None
        member.joins_twice = member.joins_early and not group.is_in(GroupState.PREPARING_REBALANCE)
        group.park_join(member, self.reply)
        self._coordinator.rebalances.maybe_prepare(group)


def _has_room(group: Group, member_id: str, most: int) -> bool:
    """May one more join? A rebalance gives the places to the first members (`acceptJoiningMember`)."""
    if group.is_in(GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return (member is not None and member.join is not None) or group.waiting_to_join < most
    return member is not None or len(group.members) < most


def _new_member_id(name: str) -> str:
    prefix = name.encode()[:_ID_PREFIX_BYTES].decode("utf-8", "ignore")
    return f"{prefix}-{uuid.uuid4()}"
