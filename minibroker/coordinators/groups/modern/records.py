"""The records of modern groups (Kafka's `GroupCoordinatorRecordHelpers`).

Kafka names the records of all group types alike, so one class creates all of them. The changes of one update are
written as one batch, and applied after the batch is in the log (`ModernGroup.apply`).
"""

from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from minibroker.coordinators.groups.modern.topics import Partitions
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import schema_of

_VALUE_VERSION: Final = 0


class Change(NamedTuple):
    """The key and value of a record. A value of None is a tombstone."""

    key: Any
    value: Any | None

    def encode(self, now_ms: int) -> NewRecord:
        """Return the encoded record."""
        value = None if self.value is None else encode_versioned(self.value, _VALUE_VERSION)
        return NewRecord(self.encode_key(), value, now_ms)

    def encode_key(self) -> bytes:
        """Return the encoded key. Its version is the record type."""
        return encode_versioned(self.key, schema_of(self.key.__class__).versions.first)


class GroupRecords:
    """The records common to all modern groups, for one group type.

    Args:
        module: The module that declares the records of the group type.
        kind: The prefix of the record names, such as "ConsumerGroup".
        before_group: A class of keys specific to the type. Kafka writes its tombstone before the group's.
        after_group: A class of keys specific to the type. Kafka writes its tombstone after the group's.
        target_value: Makes the value of a member's target assignment, if the assignment does not consist of
            partitions.

    Attributes:
        group, member, current, target, target_metadata: The classes of the keys.
    """

    def __init__(
        self,
        module: ModuleType,
        kind: str,
        *,
        before_group: type[Any] | None = None,
        after_group: type[Any] | None = None,
        target_value: Callable[[Any], Any] | None = None,
    ) -> None:
        def declared(name: str) -> Any:
            return getattr(module, f"{kind}{name}")

        self._module = module
        self._group_value = declared("MetadataValue")
        self._target_value = declared("TargetAssignmentMemberValue")
        self._target_metadata_value = declared("TargetAssignmentMetadataValue")
        self._make_target = target_value or self._encode_partitions
        self.group, self.member = declared("MetadataKey"), declared("MemberMetadataKey")
        self.current = declared("CurrentMemberAssignmentKey")
        self.target = declared("TargetAssignmentMemberKey")
        self.target_metadata = declared("TargetAssignmentMetadataKey")
        self._group_keys = [key for key in (before_group, self.group, after_group) if key is not None]

    def _encode_partitions(self, partitions: Partitions) -> Any:
        topic_partitions = [
            self._module.TopicPartition(topic_id=topic, partitions=sorted(indexes))
            for topic, indexes in partitions.items()
        ]
        return self._target_value(topic_partitions=topic_partitions)

    def group_epoch(self, group_id: str, epoch: int, metadata_hash: int, **fields: Any) -> Change:
        """Return the record of a group's epoch and of the hash of the group's topics, 0 before Kafka 4.1."""
        value = self._group_value(epoch=epoch, metadata_hash=metadata_hash, **fields)
        return Change(self.group(group_id=group_id), value)

    def member_metadata(self, group_id: str, member: Any) -> Change:
        """Return the record of a member's metadata."""
        return Change(self.member(group_id=group_id, member_id=member.member_id), member.to_metadata())

    def current_assignment(self, group_id: str, member: Any) -> Change:
        """Return the record of a member's current assignment."""
        return Change(self.current(group_id=group_id, member_id=member.member_id), member.to_current())

    def target_assignment(self, group_id: str, member_id: str, target: Any) -> Change:
        """Return the record of a member's target assignment."""
        return Change(self.target(group_id=group_id, member_id=member_id), self._make_target(target))

    def assignment_epoch(self, group_id: str, epoch: int, made_ms: int = 0) -> Change:
        """Return the record with the epoch and the time of the target assignment.

        If the time is 0, another target may follow immediately.
        """
        value = self._target_metadata_value(assignment_epoch=epoch, assignment_timestamp=made_ms)
        return Change(self.target_metadata(group_id=group_id), value)

    def new_target(
        self, group_id: str, target: Mapping[str, Any], before: Mapping[str, Any], epoch: int, made_ms: int
    ) -> list[Change]:
        """Return the records of a new target assignment, for the members whose targets have changed."""
        changed = ((member_id, new) for member_id, new in target.items() if before.get(member_id) != new)
        changes = [self.target_assignment(group_id, member_id, new) for member_id, new in changed]
        return [*changes, self.assignment_epoch(group_id, epoch, made_ms)]

    def replaced_member(self, group_id: str, before: str, member: Any, target: Any) -> list[Change]:
        """Return the records of a returning static member. It keeps its target, even under another member id."""
        return [
            *self.member_tombstones(group_id, before),
            self.member_metadata(group_id, member),
            self.target_assignment(group_id, member.member_id, target),
            self.current_assignment(group_id, member),
        ]

    def member_tombstones(self, group_id: str, member_id: str) -> list[Change]:
        """Return the tombstones of a member, in the order that Kafka requires."""
        keys = self.current, self.target, self.member
        return [Change(key(group_id=group_id, member_id=member_id), None) for key in keys]

    def group_tombstones(self, group_id: str, members: Collection[str]) -> list[Change]:
        """Return the tombstones of a group and all its members."""
        current, target, metadata = (
            [Change(key(group_id=group_id, member_id=member_id), None) for member_id in members]
            for key in (self.current, self.target, self.member)
        )
        group = [Change(key(group_id=group_id), None) for key in self._group_keys]
        return [*current, *target, Change(self.target_metadata(group_id=group_id), None), *metadata, *group]
