"""A share group: epochs, members, target and current assignments, share-partitions (Kafka's `ShareGroup`).

A group changes by its records alone (`apply`): those that are written now, and those that are read after a start.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from minibroker.clock import Clock
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions, partitions_of
from minibroker.coordinators.groups.modern.sessions import MemberTimers
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.share.member import ShareMember
from minibroker.coordinators.groups.share.state_partitions import StatePartitions
from minibroker_protocol.coordinator_records import share_groups as records
from minibroker_protocol.error_codes import ErrorCode

PROTOCOL_TYPE: Final = "share"
ASSIGNOR: Final = "simple"
_GONE: Final = -1


class ShareGroupState(Enum):
    """Where a group stands; the values are the names that Kafka shows."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup:
    """One group.

    Attributes:
        epoch: rises when members come or go, and when the partitions that they read change.
        metadata_hash: stands for the topics that the members subscribe to.
        assignment_epoch: the epoch that `target` was made for.
        assigned_ms: when that was, in ms since 1970; 0 if it is not known.
        members: by member id.
        target: what each member is to read.
        partitions: its share-partitions.
        offsets: nothing; such a group commits none.
        timers: what time does to each member; none while the group is only read from the log.
        is_assigning: whether a target is being made.
        is_beginning: whether the states of partitions are being begun.
        topics: the topics of `metadata_hash`, once they were looked up.
        complete: topics, and share-partitions, that have been found to lack no state.
    """

    __slots__ = (
        "_clock",
        "_subscribed",
        "_waits",
        "assigned_ms",
        "assignment_epoch",
        "complete",
        "epoch",
        "group_id",
        "is_assigning",
        "is_beginning",
        "is_dead",
        "members",
        "metadata_hash",
        "offsets",
        "partitions",
        "target",
        "timers",
        "topics",
    )

    protocol_type = PROTOCOL_TYPE
    kind = "share"

    def __init__(self, group_id: str, clock: Clock) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}
        self.partitions = StatePartitions()
        self.offsets = GroupOffsets()
        self.timers: dict[str, MemberTimers] = {}
        self.is_dead = False
        self.is_assigning = False
        self.is_beginning = False
        self.topics: Mapping[str, TopicMetadata] = {}
        self.complete: tuple[Mapping[str, TopicMetadata], StatePartitions] | None = None
        self._clock = clock
        self._subscribed: frozenset[str] | None = frozenset()
        self._waits: bool | None = None

    # Where it stands

    @property
    def state(self) -> ShareGroupState:
        """Where it stands."""
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""
        return not self.members

    def die(self) -> None:
        """It is no more."""
        self.is_dead = True

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that the members subscribe to, whether they exist or not."""
        if self._subscribed is None:
            self._subscribed = topics_of_all(self.members.values())
        return self._subscribed

    def waits_for_assignment(self) -> bool:
        """Is there a partition with a state, without a reader, and with a subscriber to its topic?"""
        if self._waits is None:
            self._waits = self._find_unassigned()
        return self._waits

    def _find_unassigned(self) -> bool:
        if not self.members or not self.partitions.initialized:
            return False
        subscribed = self.subscribed_topics()
        ready = {
            topic: each.partitions for topic, each in self.partitions.initialized.items() if each.name in subscribed
        }
        if not ready:
            return False
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.target.values():
            for topic, indexes in target.items():
                before = assigned.get(topic)
                assigned[topic] = indexes if before is None else before | indexes
        return any(assigned.get(topic) != indexes for topic, indexes in ready.items())

    # Checks

    def validate_commit(
        self,
        member_id: str,  # noqa: ARG002 - the refusal is the same for all
        group_instance_id: str | None,  # noqa: ARG002 - the same
        generation_id: int,  # noqa: ARG002 - the same
        *,
        is_transactional: bool,  # noqa: ARG002 - the same
        version: int,  # noqa: ARG002 - the same
    ) -> ErrorCode:
        """Offsets are not committed in share groups (`validateOffsetCommit`)."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def note_activity(self, member_id: str) -> None:
        """There are no commits here."""

    # Records

    def apply(self, key: Any, value: Any | None) -> None:
        """A record is written, or was read; None is a tombstone."""
        self._waits = None
        if isinstance(key, records.ShareGroupMetadataKey):
            self.epoch = 0 if value is None else value.epoch
            self.metadata_hash = 0 if value is None else value.metadata_hash
        elif isinstance(key, records.ShareGroupTargetAssignmentMetadataKey):
            self.assignment_epoch = _GONE if value is None else value.assignment_epoch
            self.assigned_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, records.ShareGroupTargetAssignmentMemberKey):
            if value is None:
                self.target.pop(key.member_id, None)
            else:
                self.target[key.member_id] = partitions_of(value.topic_partitions)
        elif isinstance(key, records.ShareGroupMemberMetadataKey):
            self._subscribed = None
            if value is None:
                self.members.pop(key.member_id, None)
            else:
                self.members[key.member_id] = self._member(key.member_id).with_metadata(value)
        elif isinstance(key, records.ShareGroupCurrentMemberAssignmentKey):
            if value is not None:
                self.members[key.member_id] = self._member(key.member_id).with_current(value)
        elif isinstance(key, records.ShareGroupStatePartitionMetadataKey):
            self.partitions = StatePartitions() if value is None else StatePartitions.of(value, self._clock.now_ms())

    def _member(self, member_id: str) -> ShareMember:
        return self.members.get(member_id) or ShareMember(member_id)

    def target_of(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.target.get(member_id, NOTHING)


def topics_of_all(members: Iterable[ShareMember]) -> frozenset[str]:
    """The topics that any of some members subscribes to."""
    return frozenset[str]().union(*{member.topics for member in members})
