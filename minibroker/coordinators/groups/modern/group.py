"""The base of modern groups (Kafka's `ModernGroup`, and `AbstractGroup` for streams groups).

Only records change a group (`apply`), both when they are written and when they are loaded.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.coordinators.groups.deadlines import MemberTimers
from minibroker.coordinators.groups.modern.records import Change, GroupRecords
from minibroker.coordinators.groups.modern.topics import partitions_of
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker_protocol.error_codes import ErrorCode

JOINING: Final = 0
"""The member epoch of a joining member."""
LEAVING: Final = -1
"""The member epoch of a member that leaves for good."""
AWAY: Final = -2
"""The member epoch of a static member that leaves temporarily."""
_FIRST_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit for members with epochs."""
_FIRST_TRANSACTIONAL_WITH_EPOCHS: Final = 6
"""The first version of TxnOffsetCommit with STALE_MEMBER_EPOCH. Earlier versions get ILLEGAL_GENERATION."""
_DELETED_EPOCH: Final = -1


class GroupRefusedError(RefusedRequestError):
    """A rejected request about a group, with Kafka's error code and message."""


class MemberState(IntEnum):
    """The reconciliation state of a consumer or share group member. Records store these values."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        """Return UNKNOWN for a state of a later Kafka release."""
        del value
        return cls.UNKNOWN


class ModernGroupState(Enum):
    """The state of a modern group. The values are Kafka's names.

    Only streams groups can be NOT_READY. Share groups are EMPTY, STABLE or DEAD.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ModernMember:
    """A member of a modern group, as described by its records. It is immutable.

    Attributes:
        instance_id: The instance id of a static member. rebalance_timeout_ms: The maximum time for revoking partitions,
        or -1 until the first heartbeat. epoch: The member's epoch. See `JOINING`, `LEAVING` and `AWAY`. previous_epoch:
        The member's previous epoch. A heartbeat still contains this epoch if the last response was lost.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    epoch: int = 0
    previous_epoch: int = -1

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol. This is possible only in consumer groups."""
        return False

    @property
    def is_revoking(self) -> bool:
        """Whether the member must revoke partitions or tasks before it gets others."""
        return False


M = TypeVar("M", bound=Any)
T = TypeVar("T")


class ModernGroup(Generic[M, T]):
    """A group of members `M` whose coordinator makes a target assignment `T` for each of them.

    Attributes:
        kind: "consumer", "share" or "streams". `protocol_type` is the same.
        records: The records that describe these groups.
        epoch: The group epoch, raised when members join or leave, and when their topics change.
        metadata_hash: The hash of the subscribed topics, 0 before Kafka 4.1.
        assignment_epoch: The epoch for which `target` was made.
        assigned_ms: The Unix time at which `target` was made, or 0 if another target may follow immediately.
        members: The members by member id.
        static_members: Member ids by instance id.
        target: The target assignments by member id.
        offsets: The committed offsets. Share groups have none.
        timers: The deadlines of each member, empty before the group is resumed.
    """

    kind: ClassVar[str]
    records: ClassVar[GroupRecords]

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        self.members: dict[str, M] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, T] = {}
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.timers: dict[str, MemberTimers] = {}
        self.is_dead = False

    @property
    def protocol_type(self) -> str:
        """The protocol type shown when groups are listed."""
        return self.kind

    @property
    def state(self) -> ModernGroupState:
        """The state of the group."""
        if self.is_dead:
            return ModernGroupState.DEAD
        return self._state_with_members() if self.members else ModernGroupState.EMPTY

    def _state_with_members(self) -> ModernGroupState:
        if self.epoch > self.assignment_epoch:
            return ModernGroupState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return ModernGroupState.STABLE
        return ModernGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def die(self) -> None:
        """Mark the group as deleted, or as moved to another coordinator."""
        self.is_dead = True

    def static_member(self, instance_id: str | None) -> M | None:
        """Return the member with an instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def may_assign_again(self, interval_ms: int, now_ms: int) -> bool:
        """Return whether the last assignment is older than the assignment interval."""
        return not interval_ms or not self.assigned_ms or now_ms >= self.assigned_ms + interval_ms

    def validate_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int, *, is_transactional: bool, version: int
    ) -> ErrorCode:
        """Return NONE if a client can commit offsets now, or an error (`validateOffsetCommit`).

        As in Kafka 4, a transaction may commit without a member. Kafka 3.9 returns UNKNOWN_MEMBER_ID in this case.
        """
        has_no_member = not member_id and group_instance_id is None
        if generation_id < 0 and (self.is_empty or (is_transactional and has_no_member)):
            return ErrorCode.NONE
        if (member := self.members.get(member_id)) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and not member.is_classic and version < _FIRST_WITH_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        code = _epoch_error(member, generation_id)
        is_early = is_transactional and version < _FIRST_TRANSACTIONAL_WITH_EPOCHS
        return ErrorCode.ILLEGAL_GENERATION if code and is_early else code

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return NONE if committed offsets can be fetched, or an error (`validateOffsetFetch`).

        A request can come from a member, or from a client that is not a member.
        """
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _epoch_error(member, epoch)

    def note_activity(self, member_id: str) -> None:
        """Do nothing, because a commit is not a heartbeat in a modern group."""

    def next_epoch(self) -> Change:
        """Return the record that raises the group epoch and changes nothing else."""
        return self.records.group_epoch(self.group_id, self.epoch + 1, self.metadata_hash)

    def apply(self, key: Any, value: Any | None) -> None:
        """Apply a written or loaded record. A value of None is a tombstone."""
        records = self.records
        if isinstance(key, records.group):
            self._apply_metadata(value)
        elif isinstance(key, records.target_metadata):
            self.assignment_epoch = _DELETED_EPOCH if value is None else value.assignment_epoch
            self.assigned_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, records.target):
            if value is None:
                self.target.pop(key.member_id, None)
            else:
                self.target[key.member_id] = self._target_in(value)
        elif isinstance(key, records.member):
            self._put(key.member_id, None if value is None else self.member_or_new(key.member_id).with_metadata(value))
        elif not isinstance(key, records.current):
            self._apply_own(key, value)
        elif value is not None:
            self._put(key.member_id, self.member_or_new(key.member_id).with_current(value))

    def _apply_metadata(self, value: Any | None) -> None:
        self.epoch = 0 if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _apply_own(self, key: Any, value: Any | None) -> None:
        """Apply a record that only this type of group has."""

    def _target_in(self, value: Any) -> T:
        """Return the target assignment in a record."""
        target: Any = partitions_of(value.topic_partitions)
        return cast("T", target)

    def _new_member(self, member_id: str) -> M:
        raise NotImplementedError

    def member_or_new(self, member_id: str) -> M:
        """Return the member with an id, or a new member."""
        return self.members.get(member_id) or self._new_member(member_id)

    def _put(self, member_id: str, member: M | None) -> M | None:
        """Store a member, or remove the member if the new state is None. Return the previous state, or None."""
        previous = self.members.pop(member_id, None)
        instance_id = None if previous is None else previous.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if member is not None:
            self.members[member_id] = member
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member_id
        return previous


def _epoch_error(member: ModernMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
