"""A member of a share group, as its records describe it (Kafka's `ShareGroupMember`). It is immutable."""

from dataclasses import dataclass, field, replace
from typing import Self

from minibroker.coordinators.groups.modern.member_state import MemberState
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions, partitions_of
from minibroker_protocol.coordinator_records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TopicPartitions,
)


def _nothing() -> Partitions:
    return NOTHING


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member.

    Attributes:
        epoch: the group's epoch that it has come to.
        previous_epoch: the one before; a heartbeat whose answer was lost may still carry it.
        assigned: the partitions that it fetches from.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=_nothing)

    def to_metadata(self) -> ShareGroupMemberMetadataValue:
        """The member's metadata as a record."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> Self:
        """The member as such a record has it."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def to_current(self) -> ShareGroupCurrentMemberAssignmentValue:
        """The member's current assignment as a record."""
        listed = [TopicPartitions(topic_id=topic, partitions=sorted(each)) for topic, each in self.assigned.items()]
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=MemberState.STABLE,
            assigned_partitions=listed,
        )

    def with_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> Self:
        """The member where such a record has it."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=partitions_of(value.assigned_partitions),
        )
