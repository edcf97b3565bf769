"""Groups of all kinds, and the states that groups and transactions may come to, for a page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from minibroker.cluster.errors import NotFoundError
from minibroker.coordinators.groups.classic.group import CAN_FOLLOW, CONSUMER, Group, GroupState, Member, Reply
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerGroupState, ConsumerMember
from minibroker.coordinators.groups.modern.group import MemberState
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup, ShareGroupState, ShareMember
from minibroker.coordinators.groups.streams.group import (
    StreamsGroup,
    StreamsGroupState,
    StreamsMember,
    partitions_of_tasks,
)
from minibroker.coordinators.groups.streams.tasks import Tasks
from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker.operations.groups import describe_group, find_group, group_ids, group_loaded, missing_group
from minibroker.operations.topics import page_of
from minibroker.server.services import Services
from minibroker_protocol.coordinator_records import ConsumerProtocolSubscription, decode_versioned
from minibroker_protocol.errors import DecodeError

MOST: Final = 1_000
"""Groups of one page, and members and offsets of one group."""

Machine: TypeAlias = Mapping[str, tuple[str, ...]]
"""The names of all states in the order of a life, each with the names of those that may follow."""

# Classic groups and transactions go by the tables `validPreviousStates` of Kafka 4.3's `ClassicGroupState` and
# `TransactionState`. The states of the other groups are computed from epochs and members: Kafka has no table;
# what may follow is what can change in one step. A step that leads back to the same state is left out.
_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_BEFORE_TRANSACTION: Final = {
    TransactionState.EMPTY: _COMPLETE,
    TransactionState.ONGOING: (TransactionState.EMPTY, *_COMPLETE),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.PREPARE_EPOCH_FENCE: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_EPOCH_FENCE,
        TransactionState.EMPTY,
        *_COMPLETE,
    ),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
    TransactionState.DEAD: (TransactionState.EMPTY, *_COMPLETE),
}


def _computed(*states: str) -> Machine:
    """Of a group that lives, any state may come, but a group dies only when it is empty."""
    empty, *living, dead = states
    following = {state: (empty, *(each for each in living if each != state)) for state in living}
    return {empty: (*living, dead), **following, dead: ()}


TRANSACTION: Final[Machine] = {
    state.wire_name: tuple(each.wire_name for each, before in _BEFORE_TRANSACTION.items() if state in before)
    for state in _BEFORE_TRANSACTION
}
GROUPS: Final[Mapping[str, Machine]] = {
    Group.kind: {
        state.value: tuple(each.value for each in GroupState if state in CAN_FOLLOW[each] and each is not state)
        for state in GroupState
    },
    ConsumerGroup.kind: _computed(*(each.value for each in ConsumerGroupState)),
    ShareGroup.kind: _computed(*(each.value for each in ShareGroupState)),
    StreamsGroup.kind: _computed(*(each.value for each in StreamsGroupState)),
}
"""By the types of groups."""


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """A partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in a list."""

    group_id: str
    type: str
    state: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    """Some groups by id; `next_after` goes on, None at the end. `machines`: by the types of groups."""

    groups: tuple[GroupRow, ...]
    next_after: str | None
    machines: Mapping[str, Machine]


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member.

    Attributes:
        epoch: the member's, in the consumer protocol; None in the classic one.
        state: in the consumer protocol "STABLE", "UNREVOKED_PARTITIONS" (it has to give some up first) or
            "UNRELEASED_PARTITIONS" (it waits for others), in a share group "STABLE"; None in the classic protocol.
        assigned: the partitions that it reads; None when only the group's clients know.
        target: the partitions that it is to read in the end; None in the classic protocol.
        revoking: the partitions that it has to give up first.
        waits_in: "JoinGroup" or "SyncGroup", a request of it that is delayed; None for none.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    epoch: int | None
    state: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    assigned: tuple[TopicPartition, ...] | None
    target: tuple[TopicPartition, ...] | None
    revoking: tuple[TopicPartition, ...]
    waits_in: str | None


@dataclass(frozen=True, slots=True)
class OffsetView:
    """The committed offset of a partition.

    Attributes:
        committed: None where a transaction alone has one to commit.
        pending: the offset that an open transaction commits when it ends.
        lag: the offsets from there to the high watermark; None for a partition that is gone.
    """

    topic: str
    partition: int
    committed: int | None
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    pending: int | None
    log_start_offset: int | None
    high_watermark: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group.

    Attributes:
        states: all states of its type, each with those that may follow it; `state` is one of them.
        generation: or the group's epoch, in the consumer protocol; `assignment_epoch` is that of the target there.
        state_since_ms: None where it is not known.
        waiting_to_join, pending_sync: members whose JoinGroup waits; member ids that have not asked for their
            assignment yet.
        member_count, offset_count: of all; `members` and `offsets` are the first 1,000.
    """

    group_id: str
    type: str
    state: str
    states: Machine
    state_since_ms: int | None
    generation: int
    assignment_epoch: int | None
    protocol_type: str | None
    protocol: str | None
    waiting_to_join: int
    pending_sync: tuple[str, ...]
    member_count: int
    members: tuple[MemberView, ...]
    offset_count: int
    offsets: tuple[OffsetView, ...]


async def group_page(services: Services, after: str = "", most: int = MOST) -> GroupPage:
    """The groups whose ids sort behind `after`, at most `most`."""
    ids, next_after = page_of(await group_ids(services), after, min(most, MOST))

    rows = [
        GroupRow(group_id, group.kind, group.state.value, _generation(group), len(group.members))
        for group_id in ids
        if (group := services.groups.store.find(group_id)) is not None
    ]
    return GroupPage(tuple(rows), next_after, GROUPS)


async def group_view(services: Services, group_id: str) -> GroupView:
    """A group with its members and offsets. `NotFoundError` for an unknown one."""
    await group_loaded(services, group_id)
    services.core.writes.commit()
    group = find_group(services, group_id)
    if group is None:
        raise NotFoundError(missing_group(services, group_id))
    return _view(services, group)


def _generation(group: AnyGroup) -> int:
    return group.generation if isinstance(group, Group) else group.epoch


def _view(services: Services, group: AnyGroup) -> GroupView:
    described = describe_group(services, group.group_id)
    assigned = {member.member_id: member.partitions for member in described.members}
    members: list[MemberView] = []
    for each in list(group.members.values())[:MOST]:
        if isinstance(group, Group):
            assert isinstance(each, Member)
            members.append(_classic(group, each, assigned.get(each.member_id)))
        elif isinstance(group, ConsumerGroup):
            assert isinstance(each, ConsumerMember)
            members.append(_consumer(services, group, each))
        elif isinstance(group, StreamsGroup):
            assert isinstance(each, StreamsMember)
            members.append(_streams(services, group, each))
        else:
            assert isinstance(each, ShareMember)
            members.append(_share(services, group, each))
    offsets, count = _offsets(services, group)
    classic = group if isinstance(group, Group) else None
    return GroupView(
        group_id=group.group_id,
        type=group.kind,
        state=group.state.value,
        states=GROUPS[group.kind],
        state_since_ms=None if classic is None else classic.state_timestamp_ms,
        generation=_generation(group),
        assignment_epoch=None if isinstance(group, Group) else group.assignment_epoch,
        protocol_type=group.protocol_type,
        protocol=described.protocol,
        waiting_to_join=0 if classic is None else classic.waiting_to_join,
        pending_sync=() if classic is None else tuple(sorted(classic.pending_sync)),
        member_count=len(group.members),
        members=tuple(members),
        offset_count=count,
        offsets=offsets,
    )


def _classic(group: Group, member: Member, assigned: Iterable[tuple[str, int]] | None) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        is_leader=member.member_id == group.leader,
        epoch=None,
        state=None,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(each.name for each in member.protocols),
        subscribed_topics=_subscribed(member) if group.protocol_type == CONSUMER else (),
        subscribed_regex=None,
        assigned=None if assigned is None else tuple(TopicPartition(*each) for each in assigned),
        target=None,
        revoking=(),
        waits_in="JoinGroup" if _waits(member.join) else "SyncGroup" if _waits(member.sync) else None,
    )


def _waits(reply: Reply | None) -> bool:
    return reply is not None and reply.response is None


def _subscribed(member: Member) -> tuple[str, ...]:
    """The topics of its subscription; none for a member that is not a consumer."""
    metadata = member.protocols[0].metadata if member.protocols else b""
    try:
        return tuple(sorted(decode_versioned(ConsumerProtocolSubscription, metadata).topics))
    except DecodeError:
        return ()


def _consumer(services: Services, group: ConsumerGroup, member: ConsumerMember) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        is_leader=False,
        epoch=member.epoch,
        state=member.state.name,
        session_timeout_ms=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=() if member.server_assignor is None else (member.server_assignor,),
        subscribed_topics=tuple(sorted(member.topics)),
        subscribed_regex=member.regex or None,
        assigned=_places(services, member.assigned),
        target=_places(services, group.target_of(member)),
        revoking=_places(services, member.revoking),
        waits_in=None,
    )


def _share(services: Services, group: ShareGroup, member: ShareMember) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        is_leader=False,
        epoch=member.epoch,
        state=MemberState.STABLE.name,
        session_timeout_ms=None,
        rebalance_timeout_ms=-1,
        protocols=(),
        subscribed_topics=tuple(sorted(member.topics)),
        subscribed_regex=None,
        assigned=_places(services, member.assigned),
        target=_places(services, group.target_of(member.member_id)),
        revoking=(),
        waits_in=None,
    )


def _streams(services: Services, group: StreamsGroup, member: StreamsMember) -> MemberView:
    def places(tasks: Tasks) -> tuple[TopicPartition, ...]:
        return _places(services, partitions_of_tasks(group, tasks, services.core.topics))

    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        is_leader=False,
        epoch=member.epoch,
        state=member.state.name,
        session_timeout_ms=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=(),
        subscribed_topics=tuple(sorted(group.subscribed_topics())),
        subscribed_regex=None,
        assigned=places(member.assigned.without_epochs()),
        target=places(group.target_of(member.member_id)),
        revoking=places(member.revoking.without_epochs()),
        waits_in=None,
    )


def _places(services: Services, partitions: Mapping[bytes, Iterable[int]]) -> tuple[TopicPartition, ...]:
    topics = services.core.topics
    return tuple(
        TopicPartition(topic.name, index)
        for topic_id, indexes in partitions.items()
        if (topic := topics.with_id(topic_id)) is not None
        for index in sorted(indexes)
    )


def _offsets(services: Services, group: AnyGroup) -> tuple[tuple[OffsetView, ...], int]:
    pending = {place: each.offset for offsets in group.offsets.pending.values() for place, each in offsets.items()}
    places: Sequence[tuple[str, int]] = sorted({*group.offsets, *pending})
    shown: list[OffsetView] = []
    for name, index in places[:MOST]:
        committed = group.offsets.get(name, index)
        topic = services.core.topics.get(name)
        partition = None if topic is None else topic.partition(index)
        log = None if partition is None else partition.log
        offset = None if committed is None else committed.offset
        shown.append(
            OffsetView(
                topic=name,
                partition=index,
                committed=offset,
                leader_epoch=-1 if committed is None else committed.leader_epoch,
                metadata="" if committed is None else committed.metadata,
                commit_timestamp=-1 if committed is None else committed.commit_timestamp,
                pending=pending.get((name, index)),
                log_start_offset=None if log is None else log.log_start_offset,
                high_watermark=None if log is None else log.high_watermark,
                lag=None
                if log is None
                else max(0, log.high_watermark - (log.log_start_offset if offset is None else offset)),
            )
        )
    return tuple(shown), len(places)
