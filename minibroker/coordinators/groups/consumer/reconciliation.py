"""Reconciliation of a member's current with its target assignment (Kafka's `CurrentAssignmentBuilder`).

It gives up first what it has to, and says so by no longer naming it; then it comes to the epoch of the assignment and
has what is free of it. The rest it gets when the members that had it have given it up.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

from minibroker.coordinators.groups.consumer.group import NO_EPOCHS, ConsumerMember
from minibroker.coordinators.groups.modern.group import MemberState
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, frozen


class Rules(NamedTuple):
    """The releases of Kafka whose changes hold; all of them unless the broker emulates an earlier one.

    Attributes:
        since_4_0: who leaves for a while need not name itself in version 0 of ConsumerGroupHeartbeat. The uniform
            assignor lets members keep one partition more than others, and balances one topic after the other where
            members subscribe to different ones.
        since_4_1: a group keeps a hash of its topics, and no longer a record of them.
        since_4_2: a member gives up at once what it no longer subscribes to; it comes to another epoch only with the
            assignment of that epoch.
        since_4_3: a group begins in epoch 1. Partitions have the epoch that they were assigned in, for late commits
            (KIP-1251). An assignment has a time, and is kept for `consumer.assignment.interval.ms`.
        since_4_4: the target's epoch of an emptied group goes up; the group assigns again when most of its members wish
            for another assignor; a static member that comes back has its place in a full group.
    """

    since_4_0: bool = True
    since_4_1: bool = True
    since_4_2: bool = True
    since_4_3: bool = True
    since_4_4: bool = True

    @classmethod
    def of(cls, is_before: Callable[[str], bool]) -> Self:
        """Return the rules of a broker; `is_before` returns whether it emulates an earlier release than a given one."""
        return cls(*(not is_before(release) for release in ("4.0", "4.1", "4.2", "4.3", "4.4")))


class UnknownStateError(Exception):
    """The member is in a state of a later Kafka, and still reads something: it has to join again."""


class Aim(NamedTuple):
    """The target of a member.

    Attributes:
        epoch: that of the assignment.
        target: what it is to read then.
        subscribed: the ids of the topics that it subscribes to now, which may be others than in that epoch.
        is_subscription_new: whether it has changed with this heartbeat.
        is_free: whether a partition has no owner, by topic id and number.
    """

    epoch: int
    target: Partitions
    subscribed: frozenset[bytes]
    is_subscription_new: bool
    is_free: Callable[[bytes, int], bool]


def reconcile(member: ConsumerMember, aim: Aim, owned: Partitions | None, rules: Rules) -> ConsumerMember:
    """Return the member after its next step, or the same member if there is none.

    Args:
        member: as it stands.
        aim: where it has to go.
        owned: what it says that it reads; None when it says nothing.
        rules: those of the release.
    """
    epoch = member.epoch
    if member.state is MemberState.STABLE:
        if epoch == aim.epoch:
            return _without_unsubscribed(member, aim, owned, rules)
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        # The member still reads what it is to give up: until it says otherwise, no other member may have it.
        if _owns(owned, member.revoking):
            return _without_unsubscribed(member, aim, owned, rules)
        # Before 4.2 the next epoch began with the revocation, not with the assignment.
        epoch += not rules.since_4_2
    elif member.state is MemberState.UNKNOWN:
        # A state of a newer release: only a member that holds nothing goes on; others are fenced, and join again.
        if owned is None or owned:
            raise UnknownStateError
        epoch = aim.epoch
    return _next(member, epoch, aim, owned, rules)


def _owns(owned: Partitions | None, revoked: Partitions) -> bool:
    """Return whether the member may still read some of these; it may if it reports nothing."""
    return owned is None or any(indexes & revoked.get(topic, frozenset()) for topic, indexes in owned.items())


def _without_unsubscribed(member: ConsumerMember, aim: Aim, owned: Partitions | None, rules: Rules) -> ConsumerMember:
    """Return the member without unsubscribed topics, which need no new assignment."""
    gone = {topic: indexes for topic, indexes in member.assigned.items() if topic not in aim.subscribed}
    if not (rules.since_4_2 and aim.is_subscription_new and gone):
        return member
    kept = {topic: indexes for topic, indexes in member.assigned.items() if topic not in gone}
    nothing = frozenset[int]()
    revoking = {
        **member.revoking,
        **{topic: each | member.revoking.get(topic, nothing) for topic, each in gone.items()},
    }
    previous_epoch = member.epoch if rules.since_4_3 else member.previous_epoch
    if _owns(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member, previous_epoch=previous_epoch, state=state, assigned=kept, revoking=revoking)
    epochs = member.epochs_with(member.epoch, kept) if rules.since_4_3 else NO_EPOCHS
    return replace(member, previous_epoch=previous_epoch, assigned=kept, epochs=epochs)


def _moved(
    member: ConsumerMember,
    epoch: int,
    state: MemberState,
    assigned: Partitions,
    revoking: Partitions,
    rules: Rules,
) -> ConsumerMember:
    """Return the member in another epoch, or in the same one."""
    return replace(
        member,
        previous_epoch=member.epoch,
        epoch=epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        epochs=member.epochs_with(epoch, assigned, revoking) if rules.since_4_3 else NO_EPOCHS,
    )


def _next(member: ConsumerMember, epoch: int, aim: Aim, owned: Partitions | None, rules: Rules) -> ConsumerMember:
    has, target, waiting = member.assigned, aim.target, NOTHING
    if rules.since_4_2:
        target = {topic: indexes for topic, indexes in target.items() if topic in aim.subscribed}
        waiting = member.revoking
    kept = frozen({topic: indexes & target.get(topic, frozenset()) for topic, indexes in has.items()})
    revoked = frozen({topic: indexes - target.get(topic, frozenset()) for topic, indexes in has.items()})
    # Revoke first, assign later: a partition never has two readers (KIP-848).
    if revoked and _owns(owned, revoked):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked, rules)
    missing = {topic: indexes - kept.get(topic, frozenset()) for topic, indexes in target.items()}
    free = {
        topic: {index for index in indexes if index in waiting.get(topic, ()) or aim.is_free(topic, index)}
        for topic, indexes in missing.items()
    }
    # The member gets what is free at once, and the rest as soon as others have let it go.
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    assigned = {topic: kept.get(topic, frozenset()) | free.get(topic, set()) for topic in (*kept, *free)}
    return _moved(member, aim.epoch, state, frozen(assigned), NOTHING, rules)
