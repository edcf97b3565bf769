"""A member of a streams group, as its records describe it (Kafka's `StreamsGroupMember`). It is immutable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, Self

from minibroker.coordinators.groups.streams.tasks import (
    HOLDS_NOTHING,
    HeldTasks,
    TaskEpochs,
    TaskSets,
    task_sets,
)
from minibroker_protocol.coordinator_records.streams_groups import (
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    TaskIds,
)
from minibroker_protocol.java_text import in_java_order

AWAY: Final = -2
"""The member epoch of a static member that has left for a while."""


class TaskState(IntEnum):
    """The state of a member on its way to its target; the numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "TaskState":
        """The state of a record; one of a later Kafka is UNKNOWN."""
        return cls(number) if number in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(int(each) for each in TaskState)


def _no_tags() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member, which is a thread of an instance of the application.

    Attributes:
        rebalance_timeout_ms: how long it may take to give up tasks; -1 until it has said so.
        topology_epoch: the epoch of the topology that it runs.
        instance_id: of a static member, which keeps its tasks while it is away.
        process_id: the instance that it is part of; no instance has a task twice.
        endpoint: host and port for interactive queries, if it has them.
        epoch: the group's epoch that it has come to.
        previous_epoch: the one before; a heartbeat whose answer was lost may still carry it.
        assigned: what it runs, or may run as soon as it hears of it.
        revoking: what it has to give up first.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] = field(default_factory=_no_tags)
    epoch: int = 0
    previous_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: HeldTasks = HOLDS_NOTHING
    revoking: HeldTasks = HOLDS_NOTHING

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Does it run what the assignment of this epoch has for it?"""
        return self.state is TaskState.STABLE and self.epoch == assignment_epoch

    def at(self, epoch: int, state: TaskState, assigned: HeldTasks, revoking: HeldTasks = HOLDS_NOTHING) -> Self:
        """The member in another epoch, or in the same one."""
        return replace(self, previous_epoch=self.epoch, epoch=epoch, state=state, assigned=assigned, revoking=revoking)

    @property
    def is_away(self) -> bool:
        """Is it static, and has left for a while?"""
        return self.epoch == AWAY

    def gone_for_a_while(self) -> Self:
        """The member when it has left and will come back; its tasks wait for it, and no late commit is too late."""
        active = {each: dict.fromkeys(tasks, 0) for each, tasks in self.assigned.active.items()}
        return replace(self, epoch=AWAY, assigned=self.assigned._replace(active=active), revoking=HOLDS_NOTHING)

    def back_as(self, member_id: str) -> Self:
        """The member when it has come back."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0)

    def has_same_config_as(self, other: "StreamsMember") -> bool:
        """Would an assignor see no difference (`hasEpochRelevantMemberConfigChanged`)?"""
        return (self.topology_epoch, self.rack_id, self.tags, self.process_id) == (
            other.topology_epoch, other.rack_id, other.tags, other.process_id,
        )  # fmt: skip

    # Records

    def to_metadata(self) -> StreamsGroupMemberMetadataValue:
        """The member's metadata as a record."""
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
            client_tags=[KeyValue(key=key, value=value) for key, value in in_java_order(self.tags)],
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> Self:
        """The member as such a record has it."""
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
            tags={each.key: each.value for each in value.client_tags},
        )

    def to_current(self) -> StreamsGroupCurrentMemberAssignmentValue:
        """The member's current assignment as a record."""
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            active_tasks=_with_epochs(self.assigned.active),
            standby_tasks=_listed(self.assigned.standby),
            warmup_tasks=_listed(self.assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(self.revoking.active),
            standby_tasks_pending_revocation=_listed(self.revoking.standby),
            warmup_tasks_pending_revocation=_listed(self.revoking.warmup),
        )

    def with_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> Self:
        """The member where such a record has it."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=TaskState.of(value.state),
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


def _listed(tasks: TaskSets) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(indexes)) for each, indexes in in_java_order(tasks)]


def _with_epochs(tasks: TaskEpochs) -> list[TaskIds]:
    return [
        TaskIds(
            subtopology_id=each,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[index] for index in sorted(epochs)],
        )
        for each, epochs in in_java_order(tasks)
    ]


def _epochs_of(named: Iterable[TaskIds], member_epoch: int) -> TaskEpochs:
    """Tasks with their epochs; that of the member where a record of an early Kafka has none."""
    found: dict[str, dict[int, int]] = {}
    for each in named:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found
