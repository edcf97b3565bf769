"""Members of the classic protocol in a group of the consumer protocol (KIP-848, "Online Migration").

These members get group epochs as generations. The assignment is complete when they join, so none of them leads the
group or waits. They must join again to revoke partitions or to get new ones.
"""

from collections.abc import Sequence
from dataclasses import replace

from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.classic.group import Protocol
from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups
from minibroker.coordinators.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.consumer.migration import encode_assignment, resolve_topic_ids
from minibroker.coordinators.groups.modern.group import GroupRefusedError, MemberState
from minibroker_protocol.coordinator_records.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolSubscription
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.groups import JoinGroupRequest, MemberIdentity, SyncGroupRequest


class ClassicMembers:
    """Serves requests from members of the classic protocol in one group.

    All methods raise GroupRefusedError for a rejected request.
    """

    def __init__(self, groups: ConsumerGroups, group: ConsumerGroup, topics: Topics) -> None:
        self._groups = groups
        self._group = group
        self._topics = topics

    def check_joining(
        self, member_id: str, instance_id: str | None, protocol_type: str, protocols: Sequence[Protocol]
    ) -> None:
        """Check whether a client can join the group.

        Raises:
            GroupRefusedError: INCONSISTENT_GROUP_PROTOCOL or GROUP_MAX_SIZE_REACHED.
        """
        if self._groups.migration.is_disabled:
            raise GroupRefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._groups.check_room(self._group, member_id, instance_id)
        if not self._group.supports(protocol_type, [protocol.name for protocol in protocols]):
            raise GroupRefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def join(
        self,
        request: JoinGroupRequest,
        member_id: str,
        protocols: Sequence[Protocol],
        rebalance_timeout_ms: int,
        client: tuple[str, str],
    ) -> ConsumerMember:
        """Add a member, or update it if it joins again. `client` is the member's client id and host."""
        group, groups = self._group, self._groups
        try:
            subscription = decode_versioned(ConsumerProtocolSubscription, protocols[0].metadata)
        except DecodeError as error:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if groups.rules.since_4_4 else ErrorCode.UNKNOWN_SERVER_ERROR
            raise GroupRefusedError(code, str(error)) from None
        update = groups.begin(group)
        instance_id = request.group_instance_id
        static_member = group.static_member(instance_id)
        if instance_id is None or (static_member is None and not request.member_id):
            member = group.member_or_new(member_id)
        elif request.member_id or static_member is None:
            member = groups.member(group, member_id, instance_id)
        else:
            member = update.take_over(static_member, member_id)
        offered = [ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in protocols]
        updated = replace(
            member,
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            client_id=client[0],
            client_host=client[1],
            classic=ClassicMemberMetadata(session_timeout_ms=request.session_timeout_ms, supported_protocols=offered),
        )
        if static_member is not None and groups.rules.since_4_3:
            update.downgrades = groups.migration.may_downgrade(group, [static_member.member_id], replaced=True)
        moved = update.advance(member, updated, resolve_topic_ids(subscription.owned_partitions, self._topics))
        if static_member is None or not groups.replace_last(group, update, static_member, moved):
            groups.finish(group, update, moved)
            groups.timers(group, moved.member_id).end_join(rebalance_timeout_ms)
        return moved

    def sync(self, request: SyncGroupRequest) -> bytes:
        """Return the assignment that was made when the member joined."""
        member = self._find(request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        first = member.classic.supported_protocols[0]
        protocols = zip((request.protocol_type, request.protocol_name), (PROTOCOL_TYPE, first.name), strict=True)
        if any(name not in {None, own} for name, own in protocols):
            raise GroupRefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self._latest_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._groups.timers(self._group, member.member_id).start_join(member.rebalance_timeout_ms)
            raise GroupRefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._groups.restart_session(self._group, member.member_id).end_sync()
        return encode_assignment(member.assigned, self._topics, like=bytes(first.metadata))

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Restart a member's session.

        Raises:
            GroupRefusedError: REBALANCE_IN_PROGRESS if the member must join again, or an error if it is not a current
                member.
        """
        member = self._find(member_id, instance_id, generation)
        timers = self._groups.restart_session(self._group, member.member_id)
        is_free = member.state is MemberState.UNRELEASED_PARTITIONS and not self._group.waits(member)
        if member.epoch < self._latest_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or is_free:
            timers.start_join(member.rebalance_timeout_ms)
            raise GroupRefusedError(ErrorCode.REBALANCE_IN_PROGRESS)

    @property
    def _latest_epoch(self) -> int:
        """The epoch that a member gets if it joins again."""
        return self._group.assignment_epoch if self._groups.rules.since_4_3 else self._group.epoch

    def leave(self, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """Remove members of either protocol, and return the error of each."""
        removed: list[str] = []
        codes: list[ErrorCode] = []
        for identity in leaving:
            static_member = self._group.static_member(identity.group_instance_id)
            member_id = identity.member_id or ("" if static_member is None else static_member.member_id)
            try:
                self._groups.member(self._group, member_id, identity.group_instance_id)
                removed.append(member_id)
                codes.append(ErrorCode.NONE)
            except GroupRefusedError as error:
                codes.append(error.code)
        code = self._groups.fence(self._group, set(removed)) if removed else ErrorCode.NONE
        return [own_code or code for own_code in codes]

    def _find(self, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member: ConsumerMember = self._groups.member(self._group, member_id, instance_id)
        if not member.is_classic:
            raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member.epoch != generation:
            raise GroupRefusedError(ErrorCode.ILLEGAL_GENERATION)
        return member
