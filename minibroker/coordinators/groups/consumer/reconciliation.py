"""Reconciliation of a member's current assignment with its target assignment (Kafka's `CurrentAssignmentBuilder`).

The member first revokes partitions, and confirms the revocation by no longer reporting them. Then it moves to the epoch
of the assignment and gets the free partitions of its target. It gets the other partitions after their owners have
revoked them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

from minibroker.coordinators.groups.consumer.group import NO_EPOCHS, ConsumerMember
from minibroker.coordinators.groups.modern.group import GroupRefusedError, MemberState
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, freeze_partitions
from minibroker_protocol.error_codes import ErrorCode


class Rules(NamedTuple):
    """The Kafka releases whose changes apply. All are true unless the broker emulates an earlier release.

    Attributes:
        since_4_0: A member that leaves temporarily may omit its member id in version 0 of ConsumerGroupHeartbeat. The
            uniform assignor lets members keep one partition more than others. If members subscribe to different topics,
            it balances each topic in turn.
        since_4_1: A group stores a hash of its topics instead of a record of them.
        since_4_2: A member immediately revokes partitions of unsubscribed topics. It moves to another epoch only
            together with the assignment of that epoch.
        since_4_3: A group begins in epoch 1. Partitions have assignment epochs, for late commits (KIP-1251). An
            assignment has a time, and is kept for `consumer.assignment.interval.ms`.
        since_4_4: The target epoch of an emptied group is raised. The group makes a new assignment when most members
            prefer another assignor. A returning static member keeps its place in a full group.
    """

    since_4_0: bool = True
    since_4_1: bool = True
    since_4_2: bool = True
    since_4_3: bool = True
    since_4_4: bool = True

    @classmethod
    def of(cls, is_before: Callable[[str], bool]) -> Self:
        """Return the rules of a broker.

        `is_before` returns whether the broker emulates a Kafka release earlier than the given one.
        """
        return cls(*(not is_before(release) for release in ("4.0", "4.1", "4.2", "4.3", "4.4")))


class TargetState(NamedTuple):
    """The target of a member.

    Attributes:
        epoch: The epoch of the assignment.
        target: The member's partitions in that epoch.
        subscribed: The ids of the topics to which the member subscribes now, perhaps not the same as in that epoch.
        is_subscription_new: Whether the subscription has changed with this heartbeat.
        is_free: Returns whether a partition, given by topic id and index, has no owner.
    """

    epoch: int
    target: Partitions
    subscribed: frozenset[bytes]
    is_subscription_new: bool
    is_free: Callable[[bytes, int], bool]


def reconcile(member: ConsumerMember, goal: TargetState, owned: Partitions | None, rules: Rules) -> ConsumerMember:
    """Return the member after its next transition, or the same member if there is none.

    Args:
        member: The member's current state.
        goal: The member's target.
        owned: The partitions that the member reports as owned, or None if it reports nothing.
        rules: The rules of the release.

    Raises:
        GroupRefusedError: FENCED_MEMBER_EPOCH, because the member is in a state of a later Kafka release and still owns
            partitions.
    """
    epoch = member.epoch
    if member.state is MemberState.STABLE:
        if epoch == goal.epoch:
            return _drop_unsubscribed(member, goal, owned, rules)
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        # The member still owns partitions that it must revoke. No other member gets them until it has reported the
        # revocation.
        if _owns(owned, member.revoking):
            return _drop_unsubscribed(member, goal, owned, rules)
        # Before Kafka 4.2, a member entered the next epoch after the revocation, not with its new assignment.
        epoch += not rules.since_4_2
    elif member.state is MemberState.UNKNOWN:
        # The member's state was written by a newer release. Only a member that owns nothing can continue. Other
        # members are fenced and join again.
        if owned is None or owned:
            message = "The member's state is unknown here: it must join again."
            raise GroupRefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        epoch = goal.epoch
    return _advance(member, epoch, goal, owned, rules)


def _owns(owned: Partitions | None, revoked: Partitions) -> bool:
    """Return whether the member may still own any of these partitions.

    This is assumed if the member did not report its partitions.
    """
    return owned is None or any(indexes & revoked.get(topic, frozenset()) for topic, indexes in owned.items())


def _drop_unsubscribed(
    member: ConsumerMember, goal: TargetState, owned: Partitions | None, rules: Rules
) -> ConsumerMember:
    """Return the member without partitions of unsubscribed topics. Their removal requires no new assignment."""
    unsubscribed = {topic: indexes for topic, indexes in member.assigned.items() if topic not in goal.subscribed}
    if not (rules.since_4_2 and goal.is_subscription_new and unsubscribed):
        return member
    kept = {topic: indexes for topic, indexes in member.assigned.items() if topic not in unsubscribed}
    nothing = frozenset[int]()
    revoking = {
        **member.revoking,
        **{topic: lost | member.revoking.get(topic, nothing) for topic, lost in unsubscribed.items()},
    }
    previous_epoch = member.epoch if rules.since_4_3 else member.previous_epoch
    if _owns(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member, previous_epoch=previous_epoch, state=state, assigned=kept, revoking=revoking)
    epochs = member.assign_epochs(member.epoch, kept) if rules.since_4_3 else NO_EPOCHS
    return replace(member, previous_epoch=previous_epoch, assigned=kept, epochs=epochs)


def _change_epoch(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions, rules: Rules
) -> ConsumerMember:
    """Return a copy of the member with this epoch, state and partitions."""
    return replace(
        member,
        previous_epoch=member.epoch,
        epoch=epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        epochs=member.assign_epochs(epoch, assigned, revoking) if rules.since_4_3 else NO_EPOCHS,
    )


def _advance(
    member: ConsumerMember, epoch: int, goal: TargetState, owned: Partitions | None, rules: Rules
) -> ConsumerMember:
    owned_before, target, waiting = member.assigned, goal.target, NOTHING
    if rules.since_4_2:
        target = {topic: indexes for topic, indexes in target.items() if topic in goal.subscribed}
        waiting = member.revoking
    kept = freeze_partitions(
        {topic: indexes & target.get(topic, frozenset()) for topic, indexes in owned_before.items()}
    )
    revoked = freeze_partitions(
        {topic: indexes - target.get(topic, frozenset()) for topic, indexes in owned_before.items()}
    )
    # Revoke before assigning, so that a partition never has two owners (KIP-848).
    if revoked and _owns(owned, revoked):
        return _change_epoch(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked, rules)
    missing = {topic: indexes - kept.get(topic, frozenset()) for topic, indexes in target.items()}
    free = {
        topic: {index for index in indexes if index in waiting.get(topic, ()) or goal.is_free(topic, index)}
        for topic, indexes in missing.items()
    }
    # The member gets free partitions immediately, and the others as soon as their owners have revoked them.
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    assigned = {topic: kept.get(topic, frozenset()) | free.get(topic, set()) for topic in (*kept, *free)}
    return _change_epoch(member, goal.epoch, state, freeze_partitions(assigned), NOTHING, rules)
