"""A streams group: epochs, topology, members, target and current tasks (Kafka's `StreamsGroup`).

A group changes by its records alone (`apply`): those that are written now, and those that are read after a start. What
it knows of topics, of endpoints and of a shutdown is not in records, as in Kafka: a coordinator that begins finds that
out again, or has it told.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.groups.modern.commit_versions import FIRST_TRANSACTIONAL_WITH_EPOCHS, FIRST_WITH_EPOCHS
from minibroker.coordinators.groups.modern.sessions import MemberTimers
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.streams.internal_topics import ConfiguredTopology
from minibroker.coordinators.groups.streams.member import StreamsMember
from minibroker.coordinators.groups.streams.reconciliation import Owners
from minibroker.coordinators.groups.streams.tasks import (
    NO_TASKS,
    NOTHING_REPORTED,
    HeldTasks,
    ReportedOffsets,
    Tasks,
    task_sets,
)
from minibroker.coordinators.groups.streams.topology import Topology
from minibroker_protocol.coordinator_records import streams_groups as records
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.data_directory.names import TopicPartition

PROTOCOL_TYPE: Final = "streams"
ASSIGNOR: Final = "sticky"
_FIRST_EPOCH: Final = 1
_GONE: Final = -1
_NO_TOPOLOGY: Final = -1


class StreamsGroupState(Enum):
    """Where a group stands; the values are the names that Kafka shows."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup:
    """One group.

    Attributes:
        epoch: goes up whenever who is in the group changes, or its topics, or its settings.
        metadata_hash: stands for the topics that the topology names.
        validated_epoch: the epoch of the topology whose topics are ready; -1 where they are not.
        configs: the settings that the last assignment was made with.
        assignment_epoch: the epoch that `target` was made for.
        assigned_ms: when that was, in ms since 1970; 0 if it is not known.
        topology: what the members run; None until the first has said so.
        description_epochs: the epochs of the topologies whose descriptions a plugin of Kafka's has stored and refused;
            -1 for none. Only what a Kafka with a plugin has written has others.
        members: by member id.
        static_members: the ids of those that have an instance id, by that.
        target: what each member is to run.
        owners: the processes that have each task now.
        offsets: what was committed.
        timers: what time does to each member; none while the group is only read from the log.
        delay: puts the first assignment off, once a member has joined.
        is_assigning: whether a target is being made.
        topics: the topics of `metadata_hash`, once they were looked up.
        configured: the topology beside those.
        shutdown_by: the member that has asked all others to stop.
        endpoint_epoch: goes up whenever tasks move between members with endpoints, or endpoints change.
        reported: the offsets of tasks that members have reported, by member id.
    """

    protocol_type = PROTOCOL_TYPE
    kind = "streams"

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_epoch = _NO_TOPOLOGY
        self.description_epochs = _NO_TOPOLOGY, _NO_TOPOLOGY
        self.configs: Mapping[str, str] = {}
        self.assignment_epoch = _FIRST_EPOCH
        self.assigned_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Tasks] = {}
        self.owners = Owners({}, {}, {})
        self.offsets = offsets or GroupOffsets()
        self.timers: dict[str, MemberTimers] = {}
        self.delay: Deadline | None = None
        self.is_dead = False
        self.is_assigning = False
        self.topics: Mapping[str, TopicMetadata] = {}
        self.configured: ConfiguredTopology | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.reported: dict[str, ReportedOffsets] = {}

    # Where it stands

    @property
    def state(self) -> StreamsGroupState:
        """Where it stands."""
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Has it no members?"""
        return not self.members

    @property
    def is_delayed(self) -> bool:
        """Is its first assignment put off?"""
        return self.delay is not None and self.delay.is_set

    def die(self) -> None:
        """It is no more."""
        self.is_dead = True

    def subscribed_topics(self) -> set[str]:
        """The topics that the members read."""
        return set() if self.topology is None or self.is_empty else set(self.topology.sources)

    def target_of(self, member_id: str) -> Tasks:
        """The target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)

    def reported_by(self, member_id: str) -> ReportedOffsets:
        """The offsets that a member has told."""
        return self.reported.get(member_id, NOTHING_REPORTED)

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """The member that goes by an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    # Checks

    def validate_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode:
        """May this one commit offsets now? NONE, or why not (`validateOffsetCommit`); see `may_commit_late`."""
        names_nobody = not member_id and group_instance_id is None
        if generation_id < 0 and (self.is_empty or (is_transactional and names_nobody)):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and version < FIRST_WITH_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        code = _epoch_error(member, generation_id)
        is_early = is_transactional and version < FIRST_TRANSACTIONAL_WITH_EPOCHS
        return ErrorCode.ILLEGAL_GENERATION if code and is_early else code

    def may_commit_late(self, member_id: str, epoch: int, places: Iterable[TopicPartition]) -> bool:
        """May a member commit in an epoch before its own, for tasks that it has had since then?"""
        member = self.members.get(member_id)
        if member is None or epoch > member.epoch or self.topology is None:
            return False
        for topic, index in places:
            subtopology = self.topology.sources.get(topic, "")
            assigned = member.assigned.active.get(subtopology, {}).get(index)
            if assigned is None:
                assigned = member.revoking.active.get(subtopology, {}).get(index)
            if assigned is None or epoch < assigned:
                return False
        return True

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """May this member read committed offsets? A request without a member may (`validateOffsetFetch`)."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _epoch_error(member, epoch)

    def note_activity(self, member_id: str) -> None:
        """A commit is no heartbeat here."""

    # Records

    def apply(self, key: Any, value: Any | None) -> None:
        """A record is written, or was read; None is a tombstone."""
        if isinstance(key, records.StreamsGroupMetadataKey):
            self._take_metadata(value)
        elif isinstance(key, records.StreamsGroupTopologyKey):
            self.topology = None if value is None else Topology.of(value)
        elif isinstance(key, records.StreamsGroupTargetAssignmentMetadataKey):
            self.assignment_epoch = _GONE if value is None else value.assignment_epoch
            self.assigned_ms = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, records.StreamsGroupTargetAssignmentMemberKey):
            if value is None:
                self.target.pop(key.member_id, None)
            else:
                named = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
                self.target[key.member_id] = Tasks(*map(task_sets, named))
        elif isinstance(key, records.StreamsGroupMemberMetadataKey):
            member = self._member(key.member_id)
            self._put(key.member_id, None if value is None else member.with_metadata(value))
        elif isinstance(key, records.StreamsGroupCurrentMemberAssignmentKey) and value is not None:
            self._put(key.member_id, self._member(key.member_id).with_current(value))

    def _take_metadata(self, value: records.StreamsGroupMetadataValue | None) -> None:
        self.epoch = 0 if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash
        self.validated_epoch = _NO_TOPOLOGY if value is None else value.validated_topology_epoch
        stored = _NO_TOPOLOGY if value is None else value.stored_description_topology_epoch
        self.description_epochs = stored, _NO_TOPOLOGY if value is None else value.failed_description_topology_epoch
        configs = None if value is None else value.last_assignment_configs
        self.configs = {each.key: each.value for each in configs or ()}

    def _member(self, member_id: str) -> StreamsMember:
        return self.members.get(member_id) or StreamsMember(member_id)

    def _put(self, member_id: str, member: StreamsMember | None) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._release(before.assigned, before.process_id)
            self._release(before.revoking, before.process_id)
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if member is not None:
            self.members[member_id] = member
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member_id
            self._own(member.assigned, member.process_id)
            self._own(member.revoking, member.process_id)
            return
        self.reported.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def _own(self, tasks: HeldTasks, process_id: str) -> None:
        active, standby, warmup = self.owners
        active.update(dict.fromkeys(_each(tasks.active), process_id))
        for kind, owners in ((tasks.standby, standby), (tasks.warmup, warmup)):
            for task in _each(kind):
                owners.setdefault(task, set()).add(process_id)

    def _release(self, tasks: HeldTasks, process_id: str) -> None:
        active, standby, warmup = self.owners
        for task in _each(tasks.active):
            if active.get(task) == process_id:
                del active[task]
        for kind, owners in ((tasks.standby, standby), (tasks.warmup, warmup)):
            for task in _each(kind):
                owners.get(task, set()).discard(process_id)
                if not owners.get(task):
                    owners.pop(task, None)


def _each(tasks: Mapping[str, Iterable[int]]) -> Iterable[tuple[str, int]]:
    return ((subtopology, index) for subtopology, indexes in tasks.items() for index in indexes)


def _epoch_error(member: StreamsMember, epoch: int) -> ErrorCode:
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH
