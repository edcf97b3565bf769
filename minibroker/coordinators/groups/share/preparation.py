"""Preparations of heartbeats of large share groups: steps before the group is looked at."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.modern.changes import Change
from minibroker.coordinators.groups.modern.partitions import Partitions
from minibroker.coordinators.groups.modern.topics import TopicMetadata, finding_topics, known_topics
from minibroker.coordinators.groups.modern.topics_hash import hash_of
from minibroker.coordinators.groups.share import changes as records
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.share.member import ShareMember
from minibroker.support.slices import Steps

MANY_TOPICS: Final = 1000
"""A group whose members subscribe to more is a large one."""
_OF_A_STEP: Final = 500


class Preparation(NamedTuple):
    """The findings of a moment ago.

    Attributes:
        names: the topics that all members subscribe to.
        topics: those of them that exist.
        metadata_hash: of these topics; None where they were those of the group.
        moved: the member, if it comes to the target that the group had.
        change: the record of that; None where it had come to it before.
    """

    names: frozenset[str]
    topics: Mapping[str, TopicMetadata]
    metadata_hash: int | None
    moved: ShareMember
    change: Change | None


def names_with(group: ShareGroup, member_id: str, topics: frozenset[str]) -> frozenset[str]:
    """The topics that all members subscribe to, once this one, which may be new, subscribes to these."""
    member = group.members.get(member_id)
    if member is not None and member.topics == topics:
        return group.subscribed_topics()
    others = (each.topics for each in group.members.values() if each.member_id != member_id)
    return topics.union(*set(others))


def in_parts(topics: Mapping[str, TopicMetadata]) -> Iterator[dict[bytes, tuple[str, int]]]:
    """The names and numbers of partitions of topics by their ids, some topics at a time."""
    listed = iter(topics.items())
    while part := {topic.topic_id: (name, topic.partitions) for name, topic in islice(listed, _OF_A_STEP)}:
        yield part


def preparing(group: ShareGroup, member: ShareMember, all_topics: Topics) -> Steps[Preparation]:
    """Find out what will be so once the group has this member.

    What another heartbeat changes meanwhile, this one finds out again.
    """
    names = names_with(group, member.member_id, member.topics)
    yield
    known = group.topics
    found = yield from finding_topics(all_topics, names, known)
    yield
    metadata_hash = None if found is known else hash_of(found)
    yield
    group.waits_for_assignment()  # which the group remembers
    yield
    target = group.target_of(member.member_id)
    moved = reconcile(member, group.assignment_epoch, target, found, has_new_topics=False)
    yield
    change = None if moved is member else records.current_assignment(group.group_id, moved)
    yield
    return Preparation(names, found, metadata_hash, moved, change)


def reconcile(
    member: ShareMember,
    target_epoch: int,
    target: Partitions,
    found: Mapping[str, TopicMetadata],
    *,
    has_new_topics: bool,
) -> ShareMember:
    """The member with what it is to read, as far as it subscribes to that (Kafka's `ShareGroupAssignmentBuilder`)."""
    if member.epoch == target_epoch and not has_new_topics:
        return member
    if found.keys() <= member.topics:
        subscribed = {topic.topic_id for topic in found.values()}
    else:
        subscribed = {found[name].topic_id for name in member.topics if name in found}
    assigned = {topic: indexes for topic, indexes in target.items() if topic in subscribed}
    if member.epoch == target_epoch:
        return replace(member, assigned=assigned)
    return replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=assigned)


def topics_and_hash(
    group: ShareGroup, names: frozenset[str], all_topics: Topics, prepared: Preparation | None
) -> tuple[Mapping[str, TopicMetadata], int]:
    """The topics of these names, `group.topics` where they are the same, and their hash."""
    metadata_hash = None
    if prepared is not None and prepared.names == names:
        found, metadata_hash = prepared.topics, prepared.metadata_hash
    else:
        found = known_topics(all_topics, names, group.topics)
    if found and found is group.topics:
        return found, group.metadata_hash
    return found, hash_of(found) if metadata_hash is None else metadata_hash
