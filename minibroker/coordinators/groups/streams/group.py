"""A streams group and its members: epochs, topology, target and current tasks (Kafka's `StreamsGroup`).

As in Kafka, topics, endpoints and shutdown requests are not stored in records. A new coordinator gets
them from heartbeats.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.groups.modern.group import AWAY, ModernGroup, ModernGroupState, ModernMember
from minibroker.coordinators.groups.modern.records import Change, GroupRecords
from minibroker.coordinators.groups.modern.topics import Partitions, TopicMetadata
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.streams.internal_topics import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    Topology,
    source_topics,
)
from minibroker.coordinators.groups.streams.tasks import (
    NO_HELD_TASKS,
    NO_TASKS,
    NOTHING_REPORTED,
    HeldTasks,
    Owners,
    ReportedOffsets,
    TaskEpochs,
    Tasks,
    TaskSets,
    each_task,
    task_sets,
)
from minibroker_protocol.coordinator_records import streams_groups
from minibroker_protocol.coordinator_records.streams_groups import (
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    TaskIds,
)
from minibroker_protocol.java_text import sort_in_java_order
from minibroker_storage.data_directory.names import TopicPartition

ASSIGNOR: Final = "sticky"
_FIRST_EPOCH: Final = 1
_NO_TOPOLOGY: Final = -1


def _target_value(tasks: Tasks) -> streams_groups.StreamsGroupTargetAssignmentMemberValue:
    tasks_by_kind = [
        [
            streams_groups.TargetTaskIds(subtopology_id=name, partitions=sorted(indexes))
            for name, indexes in sort_in_java_order(kind)
        ]
        for kind in tasks
    ]
    return streams_groups.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=tasks_by_kind[0], standby_tasks=tasks_by_kind[1], warmup_tasks=tasks_by_kind[2]
    )


RECORDS: Final = GroupRecords(
    streams_groups, "StreamsGroup", after_group=streams_groups.StreamsGroupTopologyKey, target_value=_target_value
)


class TaskState(IntEnum):
    """The reconciliation state of a member, numbered as in records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> "TaskState":
        """Return UNKNOWN for a state of a later Kafka release."""
        del value
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class StreamsMember(ModernMember):
    """A member of a streams group: one thread of an application instance (Kafka's `StreamsGroupMember`).

    Attributes:
        topology_epoch: The epoch of the member's topology.
        process_id: The id of the member's application instance. An instance never has the same task twice.
        endpoint: The host and port for interactive queries, or None.
        assigned: The tasks that the member runs, or will run after the next response.
        revoking: The tasks that the member must revoke before it gets others.
    """

    previous_epoch: int = 0
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    state: TaskState = TaskState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    revoking: HeldTasks = NO_HELD_TASKS

    @property
    def is_revoking(self) -> bool:
        """Whether the member must revoke tasks before it gets others."""
        return self.state is TaskState.UNREVOKED_TASKS

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has reached its target assignment in the given epoch."""
        return self.state is TaskState.STABLE and self.epoch == assignment_epoch

    def at(self, epoch: int, state: TaskState, assigned: HeldTasks, revoking: HeldTasks = NO_HELD_TASKS) -> Self:
        """Return a copy of the member with this epoch, state and tasks."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch, state=state, assigned=assigned, revoking=revoking)

    def as_absent(self) -> Self:
        """Return the state of an absent static member. It keeps its tasks, and can commit late in any epoch."""
        active = {subtopology: dict.fromkeys(tasks, 0) for subtopology, tasks in self.assigned.active.items()}
        return replace(self, epoch=AWAY, assigned=self.assigned._replace(active=active), revoking=NO_HELD_TASKS)

    def has_same_config_as(self, other: "StreamsMember") -> bool:
        """Return whether an assignor would treat both members alike (`hasEpochRelevantMemberConfigChanged`)."""
        return (self.topology_epoch, self.rack_id, self.tags, self.process_id) == (
            other.topology_epoch, other.rack_id, other.tags, other.process_id,
        )  # fmt: skip

    def to_metadata(self) -> StreamsGroupMemberMetadataValue:
        """Return the record of the metadata."""
        endpoint = None if self.endpoint is None else Endpoint(host=self.endpoint[0], port=self.endpoint[1])
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=endpoint,
            client_tags=[KeyValue(key=key, value=value) for key, value in sort_in_java_order(self.tags)],
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> Self:
        """Return a copy of the member with the metadata from a record."""
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            tags={tag.key: tag.value for tag in value.client_tags},
        )

    def to_current(self) -> StreamsGroupCurrentMemberAssignmentValue:
        """Return the record of the current assignment."""
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            active_tasks=_list_tasks_with_epochs(self.assigned.active),
            standby_tasks=_list_tasks(self.assigned.standby),
            warmup_tasks=_list_tasks(self.assigned.warmup),
            active_tasks_pending_revocation=_list_tasks_with_epochs(self.revoking.active),
            standby_tasks_pending_revocation=_list_tasks(self.revoking.standby),
            warmup_tasks_pending_revocation=_list_tasks(self.revoking.warmup),
        )

    def with_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> Self:
        """Return a copy of the member with the current assignment from a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=TaskState(value.state),
            assigned=HeldTasks(
                _epochs_of(value.active_tasks, value.member_epoch),
                task_sets(value.standby_tasks),
                task_sets(value.warmup_tasks),
            ),
            revoking=HeldTasks(
                _epochs_of(value.active_tasks_pending_revocation, value.member_epoch),
                task_sets(value.standby_tasks_pending_revocation),
                task_sets(value.warmup_tasks_pending_revocation),
            ),
        )


def _list_tasks(tasks: TaskSets) -> list[TaskIds]:
    return [TaskIds(subtopology_id=sub, partitions=sorted(indexes)) for sub, indexes in sort_in_java_order(tasks)]


def _list_tasks_with_epochs(tasks: TaskEpochs) -> list[TaskIds]:
    return [
        TaskIds(
            subtopology_id=subtopology,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[index] for index in sorted(epochs)],
        )
        for subtopology, epochs in sort_in_java_order(tasks)
    ]


def _epochs_of(listed: Iterable[TaskIds], member_epoch: int) -> TaskEpochs:
    """Return the tasks in a record with their assignment epochs.

    Records of early Kafka releases have no assignment epochs. The member's epoch is used instead.
    """
    epochs_by_subtopology: dict[str, dict[int, int]] = {}
    for task_ids in listed:
        epochs = task_ids.assignment_epochs
        if epochs is None or len(epochs) != len(task_ids.partitions):
            epochs = [member_epoch] * len(task_ids.partitions)
        if task_ids.partitions:
            epochs_by_subtopology[task_ids.subtopology_id] = dict(zip(task_ids.partitions, epochs, strict=True))
    return epochs_by_subtopology


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """A group whose members run the tasks of a topology.

    Attributes:
        validated_epoch: The epoch of the topology whose topics are ready, or -1.
        configs: The assignor settings of the last assignment.
        topology: The members' topology, or None before the first member has sent it.
        description_epochs: Two topology epochs: the last whose description a Kafka plugin has stored, and the last
            whose description it failed to store. Both are -1 unless a Kafka broker with a plugin wrote the record.
        owners: The processes that own each task.
        delay: The deadline that delays the first assignment after a member has joined.
        topics: The topics that are part of `metadata_hash`. Empty before the first lookup.
        configured: The topology configured for these topics.
        shutdown_by: The member that has requested the shutdown of the application.
        endpoint_epoch: Raised when tasks move between members with endpoints, and when endpoints change.
        reported: The task offsets reported by members, by member id.
    """

    kind = "streams"
    records = RECORDS

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        super().__init__(group_id, offsets)
        self.epoch = self.assignment_epoch = _FIRST_EPOCH
        self.validated_epoch = _NO_TOPOLOGY
        self.description_epochs = _NO_TOPOLOGY, _NO_TOPOLOGY
        self.configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.owners = Owners({}, {}, {})
        self.delay: Deadline | None = None
        self.topics: Mapping[str, TopicMetadata] = {}
        self.configured: ConfiguredTopology | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.reported: dict[str, ReportedOffsets] = {}

    def _state_with_members(self) -> ModernGroupState:
        is_ready = self.topology is not None and self.topology.epoch == self.validated_epoch
        return super()._state_with_members() if is_ready else ModernGroupState.NOT_READY

    @property
    def is_delayed(self) -> bool:
        """Whether the first assignment is delayed."""
        return self.delay is not None and self.delay.is_set

    def subscribed_topics(self) -> set[str]:
        """Return the topics that the members read."""
        return set() if self.topology is None or self.is_empty else set(self.topology.sources)

    def target_of(self, member_id: str) -> Tasks:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)

    def find_reported_offsets(self, member_id: str) -> ReportedOffsets:
        """Return the task offsets reported by a member."""
        return self.reported.get(member_id, NOTHING_REPORTED)

    def may_commit_late(self, member_id: str, epoch: int, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether a member can commit in an earlier epoch.

        The member must already have had the tasks of the partitions in that epoch.
        """
        member = self.members.get(member_id)
        if member is None or epoch > member.epoch or self.topology is None:
            return False
        for topic, index in partitions:
            subtopology = self.topology.sources.get(topic, "")
            if (assigned := member.assigned.active.get(subtopology, {}).get(index)) is None:
                assigned = member.revoking.active.get(subtopology, {}).get(index)
            if assigned is None or epoch < assigned:
                return False
        return True

    def epoch_record(self, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]) -> Change:
        """Return the record that changes the group epoch to the given one."""
        stored, failed = self.description_epochs
        return RECORDS.group_epoch(
            self.group_id,
            epoch,
            metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=[
                streams_groups.LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())
            ],
            stored_description_topology_epoch=stored,
            failed_description_topology_epoch=failed,
        )

    def next_epoch(self) -> Change:
        """Return the record that raises the group epoch and changes nothing else."""
        return self.epoch_record(self.epoch + 1, self.metadata_hash, self.validated_epoch, self.configs)

    def _apply_metadata(self, value: streams_groups.StreamsGroupMetadataValue | None) -> None:
        value = value or streams_groups.StreamsGroupMetadataValue(epoch=0, metadata_hash=0)
        super()._apply_metadata(value)
        self.validated_epoch = value.validated_topology_epoch
        self.description_epochs = value.stored_description_topology_epoch, value.failed_description_topology_epoch
        self.configs = {config.key: config.value for config in value.last_assignment_configs or ()}

    def _apply_own(self, key: Any, value: Any | None) -> None:
        if isinstance(key, streams_groups.StreamsGroupTopologyKey):
            self.topology = None if value is None else Topology.of(value)

    def _target_in(self, value: Any) -> Tasks:
        return Tasks(*map(task_sets, (value.active_tasks, value.standby_tasks, value.warmup_tasks)))

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)

    def _put(self, member_id: str, member: StreamsMember | None) -> StreamsMember | None:
        if (previous := super()._put(member_id, member)) is not None:
            self._release(previous.assigned, previous.process_id)
            self._release(previous.revoking, previous.process_id)
        if member is not None:
            self._own(member.assigned, member.process_id)
            self._own(member.revoking, member.process_id)
        else:
            self.reported.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
        return previous

    def _own(self, tasks: HeldTasks, process_id: str) -> None:
        active, standby, warmup = self.owners
        active.update(dict.fromkeys(each_task(tasks.active), process_id))
        for kind, owners in ((tasks.standby, standby), (tasks.warmup, warmup)):
            for task in each_task(kind):
                owners.setdefault(task, set()).add(process_id)

    def _release(self, tasks: HeldTasks, process_id: str) -> None:
        active, standby, warmup = self.owners
        for task in each_task(tasks.active):
            if active.get(task) == process_id:
                del active[task]
        for kind, owners in ((tasks.standby, standby), (tasks.warmup, warmup)):
            for task in each_task(kind):
                owners.get(task, set()).discard(process_id)
                if not owners.get(task):
                    owners.pop(task, None)


class EndpointPartitions(NamedTuple):
    """The source partitions that a member serves for interactive queries, by topic (`EndpointToPartitionsManager`)."""

    endpoint: tuple[str, int]
    active: list[tuple[str, list[int]]]
    standby: list[tuple[str, list[int]]]


def endpoints_of(group: StreamsGroup) -> list[EndpointPartitions]:
    """Return the partitions served by each member that has an endpoint.

    The list is empty unless the existing topics fit the topology.
    """
    subtopologies = None if group.configured is None else group.configured.subtopologies
    if subtopologies is None:
        return []
    return [
        EndpointPartitions(
            member.endpoint,
            _source_partitions(group, subtopologies, member.assigned.without_epochs().active),
            _source_partitions(group, subtopologies, member.assigned.copies),
        )
        for member in group.members.values()
        if member.endpoint is not None
    ]


def _source_partitions(
    group: StreamsGroup, subtopologies: Mapping[str, ConfiguredSubtopology], tasks: TaskSets
) -> list[tuple[str, list[int]]]:
    source_partitions: list[tuple[str, list[int]]] = []
    for subtopology, indexes in sort_in_java_order(tasks):
        for topic in subtopologies[subtopology].sources if subtopology in subtopologies else ():
            metadata = group.topics.get(topic)
            existing = [index for index in sorted(indexes) if metadata is not None and index < metadata.partitions]
            if existing:
                source_partitions.append((topic, existing))
    return source_partitions


def partitions_of_tasks(group: StreamsGroup, tasks: Tasks, topics: Topics) -> Partitions:
    """Return the partitions read by active tasks, by topic id."""
    partitions: dict[bytes, frozenset[int]] = {}
    for subtopology, indexes in tasks.active.items():
        description = None if group.topology is None else group.topology.subtopologies.get(subtopology)
        for name in () if description is None else source_topics(description):
            if (topic := topics.get(name)) is not None:
                partitions[topic.id] = frozenset(index for index in indexes if index < len(topic.partitions))
    return partitions
