"""Groups of all types, and the state machines of groups and transactions, for the lab's page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, TypeAlias

from minibroker.cluster.errors import NotFoundError
from minibroker.coordinators.groups.classic.group import (
    CONSUMER,
    VALID_PREVIOUS_STATES,
    Group,
    GroupState,
    Member,
    Reply,
)
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.modern.group import MemberState, ModernGroupState
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup, ShareMember
from minibroker.coordinators.groups.streams.group import StreamsGroup, partitions_of_tasks
from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker.operations import groups
from minibroker.operations.topics import page_of
from minibroker.server.services import Services
from minibroker_protocol.coordinator_records import ConsumerProtocolSubscription, decode_versioned
from minibroker_protocol.errors import DecodeError
from minibroker_storage.data_directory.names import TopicPartition

MAX_ELEMENTS: Final = 1_000
"""Maximum number of groups on a page, and of members and offsets of a group."""

StateMachine: TypeAlias = Mapping[str, tuple[str, ...]]
"""The names of all states in life cycle order, each with the names of its possible successors."""

# Classic groups and transactions use the tables `validPreviousStates` of Kafka 4.3's `ClassicGroupState` and
# `TransactionState`. Other groups compute their state from epochs and members, and Kafka has no table for them. For
# these groups, every change that a single event can cause is listed. Transitions to the same state are omitted.
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


def _any_to_any(*states: str) -> StateMachine:
    """Return a state machine in which any state can follow any other, except that only an empty group becomes dead."""
    empty, *living, dead = states
    following = {state: (empty, *(other for other in living if other != state)) for state in living}
    return {empty: (*living, dead), **following, dead: ()}


TRANSACTION: Final[StateMachine] = {
    state.wire_name: tuple(following.wire_name for following, before in _BEFORE_TRANSACTION.items() if state in before)
    for state in _BEFORE_TRANSACTION
}
GROUPS: Final[Mapping[str, StateMachine]] = {
    Group.kind: {
        state.value: tuple(after.value for after in GroupState if state in VALID_PREVIOUS_STATES[after] - {after})
        for state in GroupState
    },
    ConsumerGroup.kind: _any_to_any("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    ShareGroup.kind: _any_to_any("Empty", "Stable", "Dead"),
    StreamsGroup.kind: _any_to_any(*(state.value for state in ModernGroupState)),
}
"""The state machine of each group type."""


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
    """A page of groups by id.

    Attributes:
        next_after: the `after` of the next page, or None on the last page.
        machines: the state machine of each group type.
    """

    groups: tuple[GroupRow, ...]
    next_after: str | None
    machines: Mapping[str, StateMachine]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView(groups.MemberDescription):
    """A member with the state that its group keeps for it.

    Attributes:
        epoch: the member epoch in the consumer protocol; None in the classic one.
        state: in the consumer protocol "STABLE", "UNREVOKED_PARTITIONS" (the member must revoke partitions first)
            or "UNRELEASED_PARTITIONS" (it waits for other members); in a share group "STABLE"; None in the classic
            protocol.
        revoking: the partitions that the member must revoke first.
        waits_in: "JoinGroup" or "SyncGroup" if such a request of the member is delayed, else None.
    """

    is_leader: bool = False
    epoch: int | None = None
    state: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    revoking: tuple[TopicPartition, ...] = ()
    waits_in: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetView:
    """The committed offset of a partition.

    Attributes:
        committed: None if the group's only offset is that of an open transaction.
        pending: the offset that an open transaction will commit when it ends.
        lag: the number of offsets from `committed` to the high watermark; None if the partition no longer exists.
    """

    topic: str
    partition: int
    committed: int | None
    commit_timestamp: int
    pending: int | None
    high_watermark: int | None
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView(groups.GroupDescription):
    """A group with the state that its coordinator keeps for it.

    Attributes:
        members: the first 1,000 of `member_count`.
        states: all states of the group's type, each with its possible successors; `state` is one of them.
        assignment_epoch: the epoch of the target assignment in the consumer protocol.
        waiting_to_join: the number of members whose JoinGroup is delayed.
        offsets: the first 1,000 of `offset_count`.
    """

    members: tuple[MemberView, ...]
    states: StateMachine
    assignment_epoch: int | None
    waiting_to_join: int
    member_count: int
    offset_count: int
    offsets: tuple[OffsetView, ...]


async def group_page(services: Services, after: str = "") -> GroupPage:
    """Return a page of at most 1,000 groups whose ids come after `after`."""
    ids, next_after = page_of(await groups.group_ids(services), after, MAX_ELEMENTS)
    rows = [
        GroupRow(group_id, group.kind, group.state.value, _generation(group), len(group.members))
        for group_id in ids
        if (group := services.groups.store.find(group_id)) is not None
    ]
    return GroupPage(tuple(rows), next_after, GROUPS)


async def group_view(services: Services, group_id: str) -> GroupView:
    """Return a group with its members and offsets.

    Raises:
        NotFoundError: the group does not exist.
    """
    await groups.wait_for_group(services, group_id)
    services.core.writes.commit()
    group = groups.find_group(services, group_id)
    if group is None:
        raise NotFoundError(groups.missing_group_message(services, group_id))
    return _describe_group(services, group)


def _generation(group: AnyGroup) -> int:
    return group.generation if isinstance(group, Group) else group.epoch


def _describe_group(services: Services, group: AnyGroup) -> GroupView:
    described = groups.describe_group(services, group.group_id)
    offsets, count = _describe_offsets(services, group)
    classic = group if isinstance(group, Group) else None
    values = _fields_of(described)
    values["members"] = tuple(_describe_member(services, group, member) for member in described.members[:MAX_ELEMENTS])
    return GroupView(
        **values,
        states=GROUPS[group.kind],
        assignment_epoch=None if isinstance(group, Group) else group.assignment_epoch,
        waiting_to_join=0 if classic is None else classic.waiting_to_join,
        member_count=len(group.members),
        offset_count=count,
        offsets=offsets,
    )


def _fields_of(described: groups.GroupDescription | groups.MemberDescription) -> dict[str, Any]:
    return {field.name: getattr(described, field.name) for field in fields(described)}


def _describe_member(services: Services, group: AnyGroup, described: groups.MemberDescription) -> MemberView:
    make: Callable[..., MemberView] = partial(MemberView, **_fields_of(described))
    member = group.members[described.member_id]
    if isinstance(member, Member):
        assert isinstance(group, Group)
        return make(
            is_leader=member.member_id == group.leader,
            subscribed_topics=_subscribed_topics(member) if group.protocol_type == CONSUMER else (),
            waits_in="JoinGroup" if _is_delayed(member.join) else "SyncGroup" if _is_delayed(member.sync) else None,
        )
    if isinstance(member, ConsumerMember):
        assert isinstance(group, ConsumerGroup)
        return make(
            epoch=member.epoch,
            state=member.state.name,
            subscribed_topics=tuple(sorted(member.topics)),
            subscribed_regex=member.regex or None,
            revoking=groups.name_partitions(services, member.revoking),
        )
    if isinstance(member, ShareMember):
        assert isinstance(group, ShareGroup)
        return make(epoch=member.epoch, state=MemberState.STABLE.name, subscribed_topics=tuple(sorted(member.topics)))
    assert isinstance(group, StreamsGroup)
    revoking = partitions_of_tasks(group, member.revoking.without_epochs(), services.core.topics)
    return make(
        epoch=member.epoch,
        state=member.state.name,
        subscribed_topics=tuple(sorted(group.subscribed_topics())),
        revoking=groups.name_partitions(services, revoking),
    )


def _is_delayed(reply: Reply | None) -> bool:
    return reply is not None and reply.response is None


def _subscribed_topics(member: Member) -> tuple[str, ...]:
    """Return the topics of a member's subscription, or none for a member that is not a consumer."""
    metadata = member.protocols[0].metadata if member.protocols else b""
    try:
        return tuple(sorted(decode_versioned(ConsumerProtocolSubscription, metadata).topics))
    except DecodeError:
        return ()


def _describe_offsets(services: Services, group: AnyGroup) -> tuple[tuple[OffsetView, ...], int]:
    pending = {key: offset.offset for offsets in group.offsets.pending.values() for key, offset in offsets.items()}
    places: Sequence[tuple[str, int]] = sorted({*group.offsets, *pending})
    views: list[OffsetView] = []
    for name, index in places[:MAX_ELEMENTS]:
        committed = group.offsets.get(name, index)
        partition = services.core.topics.find_partition(name, index)
        offset = None if committed is None else committed.offset
        views.append(
            OffsetView(
                topic=name,
                partition=index,
                committed=offset,
                commit_timestamp=-1 if committed is None else committed.commit_timestamp,
                pending=pending.get((name, index)),
                high_watermark=None if partition is None else partition.log.high_watermark,
                lag=None if partition is None else groups.lag_behind(partition, offset),
            )
        )
    return tuple(views), len(places)
