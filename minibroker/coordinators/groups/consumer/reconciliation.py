"""Reconciliation of a member's current with its target assignment (Kafka's `CurrentAssignmentBuilder`).

It gives up first what it has to, and says so by no longer naming it; then it comes to the epoch of the assignment and
has what is free of it. The rest it gets when the members that had it have given it up.
"""

from collections.abc import Callable

from minibroker.coordinators.groups.consumer.member import ConsumerMember
from minibroker.coordinators.groups.modern.member_state import MemberState
from minibroker.coordinators.groups.modern.partitions import Partitions, frozen


class UnknownStateError(Exception):
    """The member is in a state of a later Kafka, and still reads something: it has to join again."""


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    """The member one step further; the same one when there is none to take.

    Args:
        member: as it stands.
        target_epoch: the epoch of the assignment.
        target: what it is to read in `target_epoch`.
        owned: what it says that it reads; None when it says nothing.
        is_free: whether nobody has a partition, by topic id and number.
    """
    epoch = member.epoch
    if member.state is MemberState.STABLE:
        if epoch == target_epoch:
            return member
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns(owned, member.revoking):
            return member
        epoch += 1
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise UnknownStateError
        epoch = target_epoch
    return _next(member, epoch, target_epoch, target, owned, is_free)


def _owns(owned: Partitions | None, revoked: Partitions) -> bool:
    """Might it still read some of these? Who says nothing might."""
    return owned is None or any(indexes & revoked.get(topic, frozenset()) for topic, indexes in owned.items())


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    has = member.assigned
    kept = frozen({topic: indexes & target.get(topic, frozenset()) for topic, indexes in has.items()})
    revoked = frozen({topic: indexes - target.get(topic, frozenset()) for topic, indexes in has.items()})
    if revoked and _owns(owned, revoked):
        return member.at(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    missing = {topic: indexes - kept.get(topic, frozenset()) for topic, indexes in target.items()}
    free = {topic: {index for index in indexes if is_free(topic, index)} for topic, indexes in missing.items()}
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    assigned = {topic: kept.get(topic, frozenset()) | free.get(topic, set()) for topic in (*kept, *free)}
    return member.at(target_epoch, state, frozen(assigned))
