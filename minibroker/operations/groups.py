"""Operations on groups: their state, their lag, and forced rebalances."""

from dataclasses import dataclass
from typing import Final

from minibroker.cluster.errors import ConflictError, OperationError, is_the_callers, warn_caller
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Steps
from minibroker.config.names import misspelling
from minibroker.coordinators.groups.classic.group import Group, GroupState
from minibroker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.modern.group import ModernGroupState
from minibroker.coordinators.groups.modern.topics import Partitions
from minibroker.coordinators.groups.registry import AnyGroup, AnyModernGroup
from minibroker.coordinators.groups.share.group import ASSIGNOR, ShareGroup, ShareMember
from minibroker.coordinators.groups.streams.group import ASSIGNOR as STICKY
from minibroker.coordinators.groups.streams.group import StreamsGroup, StreamsMember, partitions_of_tasks
from minibroker.operations.options import DEFAULT_TIMEOUT
from minibroker.operations.share_groups import describe_loaded_partitions, wait_for_states
from minibroker.operations.waiting import until
from minibroker.operations.wording import format_count, missing_message
from minibroker.server.services import Services
from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolAssignment
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_storage.data_directory.names import TopicPartition

__tracebackhide__ = is_the_callers


STABLE_STATES: Final = frozenset({GroupState.STABLE, ModernGroupState.STABLE})


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        partitions: None while the member waits for an assignment, or if it is not a consumer.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A snapshot of a group.

    Attributes:
        type: `classic`, `consumer`, `share` or `streams`: the protocol of its members.
        state: Kafka's name of the state: `Empty`, `Stable`, `Dead`, or the name of a rebalancing state.
        generation: The generation of a `classic` group, or the epoch of any other group.
        protocol: The assignor chosen by the members.
    """

    group_id: str
    type: str
    state: str
    generation: int
    protocol: str | None
    members: tuple[MemberDescription, ...]

    @property
    def is_stable(self) -> bool:
        """Whether every member has its assignment."""
        return self.state == GroupState.STABLE.value


async def group_ids(services: Services) -> list[str]:
    """Return the ids of all groups, including those from earlier runs."""
    store = services.groups.store
    store.load_all()
    await until(lambda: None if store.is_loading else True, lambda: "groups are still being loaded", DEFAULT_TIMEOUT)
    return sorted(group.group_id for group in store.groups())


async def wait_for_group(services: Services, group_id: str) -> None:
    """Wait until a group is loaded from the log of an earlier run or a snapshot."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await until(
        lambda: None if services.groups.status(group_id) is loading else True,
        lambda: f"group {group_id!r} is still being loaded",
        DEFAULT_TIMEOUT,
    )
    if isinstance(services.groups.store.find(group_id), ShareGroup):
        await wait_for_states(services, group_id)


def missing_group_message(services: Services, group_id: str) -> str:
    """Return the message for a group that does not exist, including a list of the existing groups."""
    return missing_message("group", group_id, (group.group_id for group in services.groups.store.groups()))


def warn_of_misspelling(services: Services, group_id: str) -> None:
    """Issue a MinibrokerWarning if the group does not exist and its id resembles that of an existing group."""
    groups = services.groups.store.groups()
    if find_group(services, group_id) is None and misspelling(group_id, [group.group_id for group in groups]):
        warn_caller(missing_group_message(services, group_id))


def describe_group(services: Services, group_id: str) -> GroupDescription:
    """Return a description of a group. An unknown group is Dead, as in DescribeGroups.

    Raises:
        OperationError: the group cannot be read now.
    """
    group = find_group(services, group_id)
    if group is None:
        return GroupDescription(group_id, Group.kind, GroupState.DEAD.value, 0, None, ())
    if isinstance(group, ConsumerGroup):
        assignor = group.assignor(group.members.values(), next(iter(services.groups.consumers.assignors)))
        return _describe_assigned(services, group, assignor)
    if isinstance(group, ShareGroup):
        return _describe_assigned(services, group, ASSIGNOR)
    if isinstance(group, StreamsGroup):
        return _describe_assigned(services, group, STICKY)
    members = tuple(
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            _decode_assignment(member.assignment) if group.is_in(GroupState.STABLE) else None,
        )
        for member in group.members.values()
    )
    return GroupDescription(group_id, group.kind, group.state.value, group.generation, group.protocol_name, members)


def _describe_assigned(services: Services, group: AnyModernGroup, assignor: str) -> GroupDescription:
    """Describe a group. A member's partitions are those that it reads now, including any that it must revoke."""
    members = tuple(
        MemberDescription(
            member.member_id,
            None if isinstance(member, ShareMember) else member.instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            name_partitions(services, _partitions_of_member(services, group, member)),
        )
        for member in group.members.values()
    )
    return GroupDescription(group.group_id, group.kind, group.state.value, group.epoch, assignor, members)


def name_partitions(services: Services, partitions: Partitions) -> tuple[TopicPartition, ...]:
    """Return partitions with their topic names, omitting deleted topics."""
    return tuple(
        (topic.name, index)
        for topic_id, indexes in partitions.items()
        if (topic := services.core.topics.with_id(topic_id)) is not None
        for index in sorted(indexes)
    )


def _partitions_of_member(
    services: Services, group: AnyModernGroup, member: ConsumerMember | ShareMember | StreamsMember
) -> Partitions:
    """Return the partitions that a member reads."""
    if isinstance(member, StreamsMember):
        assert isinstance(group, StreamsGroup)
        return partitions_of_tasks(group, member.assigned.without_epochs(), services.core.topics)
    return member.assigned


def committed_offsets(services: Services, group_id: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group by (topic, partition).

    A share group commits no offsets. Its start offsets are returned instead, for partitions it has begun to read.

    Raises:
        OperationError: the group cannot be read now.
    """
    group = find_group(services, group_id)
    if group is None:
        return {}
    if isinstance(group, ShareGroup):
        described = describe_loaded_partitions(services, group)
        return {key: share.start_offset for key, share in described.items() if share.start_offset is not None}
    return {
        (topic, index): offset.offset
        for topic, partitions in group.offsets.committed.items()
        for index, offset in partitions.items()
    }


def group_lag(services: Services, group_id: str) -> Steps[dict[TopicPartition, int]]:
    """Return the lag of a group for each partition that has a committed offset or is assigned.

    Without a committed offset, the lag counts from the log start offset. Control records count, as in Kafka's own
    tools. For a share group, the lag counts the unfinished records of partitions it has begun to read (KIP-1226).

    Raises:
        OperationError: the group cannot be read now.
    """
    services.core.writes.commit()
    group = find_group(services, group_id)
    if isinstance(group, ShareGroup):
        shared = describe_loaded_partitions(services, group)
        return {key: description.lag for key, description in sorted(shared.items()) if description.lag is not None}
    committed = committed_offsets(services, group_id)
    described = describe_group(services, group_id)
    assigned = {key for member in described.members for key in member.partitions or ()}
    lag: dict[TopicPartition, int] = {}
    for name, index in sorted(committed.keys() | assigned):
        partition = services.core.topics.find_partition(name, index)
        if partition is not None:
            lag[name, index] = lag_behind(partition, committed.get((name, index)))
        yield
    return lag


def lag_behind(partition: Partition, committed: int | None) -> int:
    """Return the lag of a committed offset. Without one, the lag counts from the log start offset."""
    log = partition.log
    return max(0, log.high_watermark - (log.log_start_offset if committed is None else committed))


async def wait_until_stable(
    services: Services,
    group_id: str,
    *,
    members: int | None = None,
    timeout: float,  # noqa: ASYNC109 - part of the API
) -> GroupDescription:
    """Wait until every member has its assignment and every partition of the subscribed topics has an owner.

    Args:
        services: the broker.
        group_id: the group.
        members: the expected number of members, or None for any.
        timeout: in seconds.

    Raises:
        WaitTimeoutError: the message shows the current state of the group.
    """
    if members is not None and members < 0:
        raise OperationError(f"members: {members}")

    def look() -> GroupDescription | None:
        group = find_group(services, group_id)
        expected = members if members is not None else max(1, len(group.members) if group is not None else 0)
        if group is None or len(group.members) != expected:
            return None
        settled = group.state in STABLE_STATES if expected else group.is_empty
        description = describe_group(services, group_id)
        return description if settled and not find_unassigned(services, group, description) else None

    def describe() -> str:
        description = describe_group(services, group_id)
        expected = "members" if members is None else format_count(members, "member")
        count = format_count(len(description.members), "member")
        state = f"{description.state}, generation {description.generation}, {count}"
        lines = [f"group {group_id!r} was not stable with {expected} within {timeout:g} s: {state}"]
        group = find_group(services, group_id)
        if group is None:
            lines.append(f"  {missing_group_message(services, group_id)}")
        unassigned = sorted(find_unassigned(services, group, description)) if group is not None else []
        if description.is_stable and unassigned:
            lines.append(f"  no member has {', '.join(f'{topic}-{index}' for topic, index in unassigned)}")
        for member in description.members:
            held = "waits" if member.partitions is None else ", ".join(f"{t}-{i}" for t, i in member.partitions) or "-"
            lines.append(f"  {member.client_id} ({member.member_id}): {held}")
        return "\n".join(lines)

    return await until(look, describe, timeout)


def rebalance(services: Services, group_id: str) -> None:
    """Make all members rejoin or receive new assignments, as if a member had joined.

    Raises:
        ConflictError: the group has no members.
        OperationError: the rebalance is refused.
    """
    group = find_group(services, group_id)
    if group is None or not group.members:
        raise ConflictError(f"group {group_id!r} has no members")
    if isinstance(group, Group):
        services.groups.rebalances.maybe_prepare(group)
        return
    groups = services.groups
    if isinstance(group, ShareGroup):
        code = groups.shares.rebalance(group)
    elif isinstance(group, StreamsGroup):
        code = groups.streams.rebalance(group)
    else:
        code = groups.consumers.rebalance(group)
    if code:
        raise OperationError(f"group {group_id!r}: {code.name}: {code.meaning}")


def find_group(services: Services, group_id: str) -> AnyGroup | None:
    """Return a group, or None if it is unknown or still being loaded.

    Raises:
        OperationError: Kafka rejects the group id.
    """
    code = services.groups.status(group_id)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    if code is ErrorCode.NOT_COORDINATOR and services.core.topics.get(CONSUMER_OFFSETS) is None:
        return None  # Without the offsets topic, no group has ever existed.
    if code:
        kind = OperationError if code is ErrorCode.INVALID_GROUP_ID else ConflictError
        raise kind(f"group {group_id!r}: {code.name}: {code.meaning}")
    return services.groups.store.find(group_id)


def _decode_assignment(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    if not assignment:
        return ()
    try:
        decoded = decode_versioned(ConsumerProtocolAssignment, assignment)
    except DecodeError:
        return None
    return tuple((topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions)


def find_unassigned(services: Services, group: AnyGroup, description: GroupDescription) -> set[TopicPartition]:
    """Return the subscribed partitions that no member owns, or none if that cannot be determined."""
    subscribed = group.subscribed_topics()
    if not subscribed or any(member.partitions is None for member in description.members):
        return set()
    existing = {
        (topic.name, partition.index)
        for name in subscribed
        if (topic := services.core.topics.get(name)) is not None
        for partition in topic.partitions
    }
    return existing - {key for member in description.members for key in member.partitions or ()}
