"""A member of a consumer group, as its records describe it (Kafka's `ConsumerGroupMember`). It is immutable.

A member speaks the consumer protocol, or the classic one while its group goes from one to the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from minibroker.coordinators.groups.modern.member_state import MemberState
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions, partitions_of
from minibroker_protocol.coordinator_records.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

JOINING: Final = 0
"""The member epoch of a member that joins."""
LEAVING: Final = -1
"""The member epoch of a member that leaves for good."""
AWAY: Final = -2
"""The member epoch of a static member that leaves and means to come back."""

Epochs = Mapping[bytes, Mapping[int, int]]
"""Epochs of partitions, by the ids of their topics and their numbers."""
NO_EPOCHS: Final[Epochs] = {}


def _nothing() -> Partitions:
    return NOTHING


def _no_epochs() -> Epochs:
    return NO_EPOCHS


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member.

    Attributes:
        instance_id: what a static member is known by.
        rebalance_timeout_ms: how long it may take to give up partitions; -1 until it has said so.
        regex: of topics that it subscribes to, beside those that it names; empty for none.
        server_assignor: the assignor that it wishes for.
        classic: what it has said in the classic protocol, if it speaks that.
        epoch: the group's epoch that it has come to; see `JOINING`, `LEAVING` and `AWAY`.
        previous_epoch: the one before; a heartbeat whose answer was lost may still carry it.
        assigned: what it reads, or may read as soon as it hears of it.
        revoking: what it has to give up first.
        epochs: the epoch of the assignment that gave it each of these partitions; none before Kafka 4.3.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=_nothing)
    revoking: Partitions = field(default_factory=_nothing)
    epochs: Epochs = field(default_factory=_no_epochs)

    @property
    def is_classic(self) -> bool:
        """Does it speak the classic protocol?"""
        return self.classic is not None

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Does it read what the assignment of this epoch has for it?"""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def epoch_of(self, topic_id: bytes, index: int) -> int | None:
        """The epoch of the assignment that gave it a partition; None if it does not have it."""
        for partitions in (self.assigned, self.revoking):
            if index in partitions.get(topic_id, ()):
                return self.epochs.get(topic_id, {}).get(index, max(self.epoch, 0))
        return None

    def epochs_with(self, epoch: int, *several: Partitions) -> Epochs:
        """The epochs of partitions: those that it reads keep theirs, and others get this one."""
        found: dict[bytes, dict[int, int]] = {}
        for partitions in several:
            for topic, indexes in partitions.items():
                known, had = self.epochs.get(topic, {}), self.assigned.get(topic, frozenset())
                found.setdefault(topic, {}).update(
                    {index: known.get(index, epoch) if index in had else epoch for index in indexes}
                )
        return found

    def gone_for_a_while(self, *, has_epochs: bool) -> Self:
        """The member when it has left and will come back; its partitions wait, and no late commit is too late."""
        epochs = {topic: dict.fromkeys(indexes, 0) for topic, indexes in self.assigned.items()}
        return replace(self, epoch=AWAY, revoking=NOTHING, epochs=epochs if has_epochs else NO_EPOCHS)

    # Records

    def to_metadata(self) -> ConsumerGroupMemberMetadataValue:
        """The member's metadata as a record."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Self:
        """The member as such a record has it."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata if _says_anything(value.classic_member_metadata) else None,
        )

    def to_current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The member's current assignment as a record."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self._listed(self.assigned),
            partitions_pending_revocation=self._listed(self.revoking),
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Self:
        """The member where such a record has it."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=partitions_of(value.assigned_partitions),
            revoking=partitions_of(value.partitions_pending_revocation),
            epochs=_epochs_of((*value.assigned_partitions, *value.partitions_pending_revocation), value.member_epoch),
        )

    def _listed(self, partitions: Partitions) -> list[TopicPartitions]:
        listed: list[TopicPartitions] = []
        for topic, each in partitions.items():
            known, indexes = self.epochs.get(topic), sorted(each)
            epochs = None if known is None else [known[index] for index in indexes]
            listed.append(TopicPartitions(topic_id=topic, partitions=indexes, assignment_epochs=epochs))
        return listed


def _says_anything(classic: ClassicMemberMetadata | None) -> bool:
    return classic is not None and bool(classic.supported_protocols)


def _epochs_of(named: Iterable[TopicPartitions], member_epoch: int) -> Epochs:
    """The epochs of partitions; that of the member where a record of an earlier Kafka has none."""
    found: dict[bytes, dict[int, int]] = {}
    for each in named:
        epochs = each.assignment_epochs
        if not epochs or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        found.setdefault(bytes(each.topic_id), {}).update(zip(each.partitions, epochs, strict=True))
    return found
