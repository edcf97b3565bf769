"""The base of the coordinators of consumer, share and streams groups.

The base class looks up groups and members, and handles timeouts, departures and errors. In Kafka, this code is in
`GroupMetadataManager`.
"""

import logging
from collections.abc import Container, Iterable
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from minibroker.cluster.advice import LOST_GROUPS, explain_lost_members
from minibroker.cluster.core import Core
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.deadlines import MemberTimers
from minibroker.coordinators.groups.modern.group import AWAY, GroupRefusedError, ModernMember
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import Partitions
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.registry import AnyModernGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.record import NewRecord

_logger = logging.getLogger(__name__)


class Client(NamedTuple):
    """The client of a member: its client id, and its host in Kafka's format."""

    id: str
    host: str


class Answer(NamedTuple):
    """The response to a member. An `assignment` of None means no change."""

    member_id: str
    epoch: int
    assignment: Partitions | None


G = TypeVar("G", bound=AnyModernGroup)


class ModernGroups(Generic[G]):
    """All groups of one type.

    Args:
        forgotten: The ids of groups deleted by a reset. Their members must join again.

    Attributes:
        group_type: The class of the groups.
        replaces_classic: Whether a new group can replace an empty classic group.
    """

    group_type: ClassVar[type[AnyModernGroup]]
    replaces_classic: ClassVar[bool] = True

    def __init__(self, core: Core, store: GroupStore, forgotten: Container[str]) -> None:
        self.core = core
        self.store = store
        self._forgotten = forgotten
        self._kind = self.group_type.kind

    @property
    def is_enabled(self) -> bool:
        """Whether the configuration and Kafka's features allow these groups."""
        raise NotImplementedError

    @property
    def max_size(self) -> int:
        """The maximum number of members in a group."""
        return self.core.config.integer(f"group.{self._kind}.max.size")

    def find(self, group_id: str) -> G | None:
        """Return the group of this type with the given id, or None."""
        group: Any = self.store.find(group_id)
        return cast("G", group) if isinstance(group, self.group_type) else None

    def existing(self, group_id: str) -> G:
        """Return the group.

        Raises:
            GroupRefusedError: GROUP_ID_NOT_FOUND.
        """
        if (group := self.find(group_id)) is None:
            problem = "not found" if self.store.find(group_id) is None else f"is not a {self._kind} group"
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
        return group

    def new_group(self, group_id: str, offsets: GroupOffsets | None = None) -> G:
        """Return a new group. The group is added to the store when its first records are written."""
        raise NotImplementedError

    def group_for(self, group_id: str, *, joins: bool) -> tuple[G, list[NewRecord]]:
        """Return the group of a member, and the records that must be written before the group's other records.

        A joining member creates the group if necessary, and can replace an empty classic group.

        Raises:
            GroupRefusedError: GROUP_ID_NOT_FOUND, or UNKNOWN_MEMBER_ID for a group that a reset has deleted.
        """
        existing = self.store.find(group_id)
        if joins and existing is None:
            return self.new_group(group_id), []
        if joins and self.replaces_classic and isinstance(existing, Group) and existing.is_empty:
            return self.new_group(group_id, existing.offsets), self.store.tombstones(existing)
        if existing is None:
            if group_id in self._forgotten:
                # The group was deleted by a reset. This error makes its members join again.
                raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} was reset.")
            message = f"{self._kind.capitalize()} group {group_id} not found."
            raise GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        return self.existing(group_id), []

    def check_room(self, group: G, member_id: str) -> None:
        """Check that the group has room for a member.

        Raises:
            GroupRefusedError: GROUP_MAX_SIZE_REACHED.
        """
        if len(group.members) >= self.max_size and member_id not in group.members:
            message = f"The {self._kind} group has reached its maximum capacity of {self.max_size} members."
            raise GroupRefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def member(self, group: G, member_id: str, instance_id: str | None = None) -> Any:
        """Return the member with a member id. If an instance id is given, it must belong to the same member.

        Raises:
            GroupRefusedError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is None:
            if (member := group.members.get(member_id)) is None:
                message = f"Member {member_id} is not a member of group {group.group_id}."
                raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
            return member
        if (member := group.static_member(instance_id)) is None:
            raise GroupRefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise GroupRefusedError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
            )
        return member

    @staticmethod
    def check_released(owner: ModernMember, member_id: str) -> None:
        """Check that a static member has left before another member joins with its instance id.

        Raises:
            GroupRefusedError: UNRELEASED_INSTANCE_ID.
        """
        if owner.epoch != AWAY:
            raise GroupRefusedError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {owner.instance_id} cannot join the group because the "
                f"instance id is owned by {owner.member_id} member.",
            )

    def check_epoch(self, member: ModernMember, epoch: int, *, may_be_previous: bool = True, clause: str = "") -> None:
        """Check that a heartbeat has the member's epoch.

        Args:
            member: The member.
            epoch: The epoch in the heartbeat.
            may_be_previous: Whether the previous epoch is accepted, too.
            clause: Kafka's addition to the message for an epoch that is too small.

        Raises:
            GroupRefusedError: FENCED_MEMBER_EPOCH.
        """
        if epoch == member.epoch or (may_be_previous and epoch < member.epoch and epoch == member.previous_epoch):
            return
        size, clause = ("greater", "") if epoch > member.epoch else ("smaller", clause)
        raise GroupRefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self._kind} group member has a {size} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}){clause}. The member must abandon all its partitions and rejoin.",
        )

    def save(self, group: G, changes: Iterable[Change], before: Iterable[NewRecord] = ()) -> None:
        """Write changes and apply them.

        Raises:
            GroupRefusedError: The changes could not be written.
        """
        if code := self.store.save_changes(group, changes, before):
            raise GroupRefusedError(code)

    def rebalance(self, group: G) -> ErrorCode:
        """Begin a new group epoch, as if a member had joined or left. The next heartbeat triggers a new assignment."""
        return self.store.save_changes(group, [group.next_epoch()])

    def leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> Answer:
        """Remove a member, or mark a static member as temporarily absent.

        Raises:
            GroupRefusedError: The member or group is unknown, or the change could not be written.
        """
        group = self.existing(group_id)
        member = self.member(group, member_id, instance_id)
        if epoch == AWAY and instance_id is not None:
            absent = self._make_absent(member)
            code = self.store.save_changes(group, [group.records.current_assignment(group_id, absent)])
            self.timers(group, member.member_id).end_revocation()
        else:
            code = self._fence(group, member.member_id)
        if code:
            raise GroupRefusedError(code)
        return Answer(member_id, epoch, None)

    def _make_absent(self, member: Any) -> Any:
        """Return the state of a static member while it is temporarily absent."""
        raise NotImplementedError

    def _fence(self, group: G, member_id: str) -> ErrorCode:
        """Remove a member, and return NONE or the error of a failed write."""
        group_id, records = group.group_id, group.records
        changes = [*records.member_tombstones(group_id, member_id), self._epoch_without(group, member_id)]
        # Since Kafka 4.4, the assignment epoch also advances if no member is left.
        if group.members.keys() == {member_id}:
            changes.append(records.assignment_epoch(group_id, group.epoch + 1))
        if not (code := self.store.save_changes(group, changes)):
            self.end_session(group, member_id)
        return code

    def _epoch_without(self, group: G, member_id: str) -> Change:
        """Return the record that raises the group epoch after the removal of a member."""
        del member_id
        return group.next_epoch()

    def _session_timeout_ms(self, group: G, member_id: str) -> int:
        raise NotImplementedError

    def timers(self, group: G, member_id: str) -> MemberTimers:
        """Return the deadlines of a member."""
        if (timers := group.timers.get(member_id)) is None:
            on_deadline = partial(self._on_deadline, group, member_id)
            timers = group.timers[member_id] = MemberTimers(self.core.clock, on_deadline)
        return timers

    def restart_session(self, group: G, member_id: str) -> MemberTimers:
        """Restart a member's session, and return the member's deadlines."""
        timers = self.timers(group, member_id)
        timers.restart_session(self._session_timeout_ms(group, member_id))
        return timers

    @staticmethod
    def end_session(group: G, member_id: str) -> None:
        """Cancel all deadlines of a removed member."""
        if (timers := group.timers.pop(member_id, None)) is not None:
            timers.cancel()

    def _on_deadline(self, group: G, member_id: str, reason: str) -> None:
        if member_id not in group.members:
            return
        _logger.info("Member %s of group %s is removed: %s", member_id, group.group_id, reason)
        session_ms = self._session_timeout_ms(group, member_id)
        if code := self._fence(group, member_id):  # The removal is tried again after another session timeout.
            _logger.warning("%s has left group %s; this could not be stored: %s", member_id, group.group_id, code.name)
            self.timers(group, member_id).restart_session(session_ms)
        elif not group.members:
            advice = explain_lost_members(group.group_id, session_ms)
            self.core.advice.advise(LOST_GROUPS, group.group_id, advice)

    def resume(self, group: G) -> None:
        """Start the sessions of a group that was loaded or converted from another protocol."""
        for member in tuple(group.members.values()):
            timers = self.restart_session(group, member.member_id)
            if member.is_revoking:
                timers.start_revocation(member.rebalance_timeout_ms)

    def forget(self, group: G, *, is_gone: bool = True) -> None:
        """Cancel all deadlines of a group that was removed or converted to another protocol."""
        if is_gone:
            group.die()
        for timers in group.timers.values():
            timers.cancel()
        group.timers.clear()

    def close(self) -> None:
        """Cancel all deadlines."""
        for group in self.store.groups():
            if isinstance(group, self.group_type):
                self.forget(group, is_gone=False)  # type: ignore[arg-type]  # The class of the groups is G.
