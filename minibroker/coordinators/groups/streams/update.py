"""The changes that one heartbeat makes to a streams group, and the next step of a member towards its target."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.streams.group import RECORDS, StreamsGroup, StreamsMember, TaskState
from minibroker.coordinators.groups.streams.internal_topics import (
    ConfiguredTopology,
    Status,
    StatusCode,
    Topology,
    configure,
)
from minibroker.coordinators.groups.streams.tasks import (
    NO_TASKS,
    HeldTasks,
    Owners,
    Task,
    Tasks,
    each_task,
    overlap,
    sets_of,
)
from minibroker_protocol.coordinator_records.streams_groups import StreamsGroupTopologyKey, StreamsGroupTopologyValue
from minibroker_protocol.error_codes import ErrorCode


class _Holdings(NamedTuple):
    active: frozenset[Task]
    standby: frozenset[Task]
    warmup: frozenset[Task]


class _Difference:
    """The difference between current and target tasks of one kind: tasks that the member keeps, revokes and gets."""

    def __init__(self, has: frozenset[Task], target: frozenset[Task], is_free: Callable[[Task], bool]) -> None:
        missing = target - has
        self.kept = set(has & target)
        self.revoked = set(has - target)
        self.free = {task for task in missing if is_free(task)}
        self.is_incomplete = len(self.free) < len(missing)

    def keep(self, tasks: set[Task]) -> None:
        """Keep tasks that the member already has as another kind of task, so that it need not wait for them."""
        self.free -= tasks
        self.kept |= tasks


def reconcile(
    member: StreamsMember,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    owners: Owners,
    *,
    may_switch: bool = True,
) -> StreamsMember:
    """Return the member after its next transition, or the same member if there is none.

    Args:
        member: The member's current state.
        target_epoch: The epoch of the assignment.
        target: The member's tasks in `target_epoch`.
        owned: The tasks that the member reports, or None if it reports nothing.
        owners: The current owners of each task.
        may_switch: Whether tasks can change their kind without being revoked, as since Kafka 4.4.

    Raises:
        GroupRefusedError: FENCED_MEMBER_EPOCH, because the member is in a state of a later Kafka release and still has
            tasks.
    """
    epoch = member.epoch
    if member.state is TaskState.STABLE:
        if epoch == target_epoch:
            return member
    elif member.state is TaskState.UNREVOKED_TASKS:
        if owned is None or overlap(owned, member.revoking.without_epochs()):
            return member
        epoch += 1
    elif member.state is TaskState.UNKNOWN:
        if owned is None or any(owned):
            message = "The member is in an unknown state: it must join again."
            raise GroupRefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        epoch = target_epoch
    return _advance(member, epoch, target_epoch, target, owned, owners, may_switch=may_switch)


def _advance(
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    owners: Owners,
    *,
    may_switch: bool,
) -> StreamsMember:
    current, wanted_tasks = _to_holdings(member.assigned.without_epochs()), _to_holdings(target)
    switching = current if may_switch else _Holdings(*[frozenset[Task]()] * 3)
    active, standby, warmup = _find_differences(current, wanted_tasks, switching, member.process_id, owners)
    standby.keep(standby.free & switching.active)
    for replica, other, held in ((warmup, standby, switching.standby), (standby, warmup, switching.warmup)):
        changed = replica.free & held
        replica.keep(changed)
        other.revoked -= changed
    for replica, held in ((standby, switching.standby), (warmup, switching.warmup)):
        replica.revoked -= held & wanted_tasks.active
    held_epochs = member.assigned.active
    revoked = HeldTasks(_keep_epochs(held_epochs, active.revoked), sets_of(standby.revoked), sets_of(warmup.revoked))
    must_revoke = any(revoked) and (owned is None or overlap(owned, revoked.without_epochs()))
    promoted: set[Task] = set() if must_revoke else active.free
    for replica, held in ((standby, switching.standby), (warmup, switching.warmup)):
        replica.kept |= (held & wanted_tasks.active) - promoted
    kept = HeldTasks(_keep_epochs(held_epochs, active.kept), sets_of(standby.kept), sets_of(warmup.kept))
    if must_revoke:
        return member.at(epoch, TaskState.UNREVOKED_TASKS, kept, revoked)
    new_active = {
        subtopology: dict.fromkeys(tasks, target_epoch) for subtopology, tasks in sets_of(active.free).items()
    }
    waits = active.is_incomplete or standby.is_incomplete or warmup.is_incomplete
    state = TaskState.UNRELEASED_TASKS if waits else TaskState.STABLE
    return member.at(
        target_epoch, state, kept.merged(HeldTasks(new_active, sets_of(standby.free), sets_of(warmup.free)))
    )


def _find_differences(
    has: _Holdings, target: _Holdings, switching: _Holdings, process_id: str, owners: Owners
) -> tuple[_Difference, _Difference, _Difference]:
    def runs_here(task: Task) -> bool:
        return owners.active.get(task) == process_id

    def is_standby_here(task: Task) -> bool:
        return process_id in owners.standby.get(task, ())

    def is_warmup_here(task: Task) -> bool:
        return process_id in owners.warmup.get(task, ())

    def is_standby_beside(task: Task) -> bool:
        return is_standby_here(task) and task not in switching.standby

    def is_warmup_beside(task: Task) -> bool:
        return is_warmup_here(task) and task not in switching.warmup

    def is_active_free(task: Task) -> bool:
        return owners.active.get(task) is None and not is_standby_beside(task) and not is_warmup_beside(task)

    def is_standby_free(task: Task) -> bool:
        runs_beside = runs_here(task) and task not in switching.active
        return not runs_beside and not is_standby_here(task) and not is_warmup_beside(task)

    def can_start_warmup(task: Task) -> bool:
        return not runs_here(task) and not is_standby_beside(task) and not is_warmup_here(task)

    return (
        _Difference(has.active, target.active, is_active_free),
        _Difference(has.standby, target.standby, is_standby_free),
        _Difference(has.warmup, target.warmup, can_start_warmup),
    )


def _to_holdings(tasks: Tasks) -> _Holdings:
    return _Holdings(*(frozenset(each_task(kind)) for kind in tasks))


def _keep_epochs(held: Mapping[str, Mapping[int, int]], tasks: Iterable[Task]) -> dict[str, dict[int, int]]:
    return {name: {index: held[name][index] for index in indexes} for name, indexes in sets_of(tasks).items()}


STANDBYS: Final = "num.standby.replicas"
RACK_TAGS: Final = "rack.aware.assignment.tags"
"""The names of the assignor's settings."""
_NOT_READY: Final = -1


class GroupUpdate:
    """The changes made by one update to a streams group. They take effect after they are written.

    Attributes:
        changes: The records, in order.
        bumps: Whether the update raises the group epoch.
        epoch: The group epoch after the update.
        topology, topics, configured, configs: The group's values after the update.
        statuses: The statuses in the response to the member.
    """

    topology: Topology
    configured: ConfiguredTopology

    def __init__(self, group: StreamsGroup) -> None:
        self.group = group
        self.changes: list[Change] = []
        self.bumps = False
        self.epoch = group.epoch
        self.topics: Mapping[str, TopicMetadata] = group.topics
        self.configs: Mapping[str, str] = group.configs
        self.statuses: list[Status] = []
        self._taken_over: tuple[str, str] | None = None
        self._metadata_hash = group.metadata_hash
        self._validated_epoch = group.validated_epoch

    def take_over(self, replaced: StreamsMember, member: StreamsMember) -> None:
        """Record that a static member has returned, possibly under another member id (`replaceStreamsMember`)."""
        target = self.group.target_of(replaced.member_id)
        self.changes += RECORDS.replaced_member(self.group.group_id, replaced.member_id, member, target)
        self._taken_over = replaced.member_id, member.member_id

    def target_of(self, member_id: str) -> Tasks:
        """Return the tasks of a member in the target before the update.

        A member that replaces another member has the tasks of the replaced member.
        """
        if self._taken_over is not None and member_id == self._taken_over[1]:
            member_id = self._taken_over[0]
        return self.group.target_of(member_id)

    def list_updated_members(self, updated: StreamsMember | None) -> tuple[dict[str, StreamsMember], dict[str, Tasks]]:
        """Return the members after the update and the target before it (`UpdatedMembersAndTargetAssignmentView`)."""
        members, target = dict(self.group.members), dict(self.group.target)
        if self._taken_over is not None:
            old_id, new_id = self._taken_over
            members.pop(old_id)
            target[new_id] = target.pop(old_id, NO_TASKS)
        if updated is not None:
            members[updated.member_id] = updated
        return members, target

    def find_missing_tags(self, member: StreamsMember) -> list[str]:
        """Return the rack-awareness tags that the configuration requires and the member lacks."""
        tags = self.configs.get(RACK_TAGS, "")
        return [tag for tag in tags.split(",") if tag not in member.tags] if tags else []

    def set_topology(self, value: StreamsGroupTopologyValue | None) -> None:
        """Use a member's topology (`maybeUpdateTopology`).

        Raises:
            GroupRefusedError: The topology is invalid, missing, or different from the group's.
        """
        current = self.group.topology
        sent = current if value is None else Topology.of(value)
        if sent is None:
            raise GroupRefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
        if sent.epoch < 0:
            raise GroupRefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "Topology epoch must be non-negative.")
        if current is None:
            self.changes.append(Change(StreamsGroupTopologyKey(group_id=self.group.group_id), value))
        elif current.epoch <= sent.epoch and current != sent:
            raise GroupRefusedError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        self.topology = current or sent

    def set_topics(self, topics: Mapping[str, TopicMetadata], metadata_hash: int, *, summarizes_names: bool) -> None:
        """Use the topics of the topology (`InternalTopicManager.configureTopics`). See `configure` for the flag.

        Raises:
            GroupRefusedError: The topology is invalid.
        """
        group = self.group
        self.topics, self._metadata_hash = topics, metadata_hash
        is_new = metadata_hash != group.metadata_hash
        self.bumps |= is_new
        if group.configured is not None and group.topology is not None and not is_new:
            self.configured = group.configured
        else:
            self.configured = configure(self.topology, topics, summarizes_names=summarizes_names)
        self._validated_epoch = self.topology.epoch if self.configured.is_ready else _NOT_READY
        self.bumps |= self._validated_epoch != group.validated_epoch

    def check_tasks(self, owned: Tasks | None) -> None:
        """Check that the tasks reported by a member exist.

        Raises:
            GroupRefusedError: INVALID_REQUEST for a task that does not exist.
        """
        if not self.configured.is_ready or owned is None:
            return
        subtopologies = self.configured.subtopologies or {}
        for kind in owned:
            for name, indexes in kind.items():
                if (subtopology := subtopologies.get(name)) is None:
                    raise GroupRefusedError(
                        ErrorCode.INVALID_REQUEST, f"Subtopology {name} does not exist in the topology."
                    )
                for index in indexes:
                    if not 0 <= index < subtopology.tasks:
                        raise GroupRefusedError(
                            ErrorCode.INVALID_REQUEST,
                            f"Task {index} for subtopology {name} is invalid. "
                            f"Number of tasks for this subtopology: {subtopology.tasks}",
                        )

    def advance_epoch(self, configs: Mapping[str, str]) -> None:
        """Use the given assignor settings, and raise the group epoch if they or any other change require it."""
        self.configs = configs
        if self.bumps or configs != self.group.configs:
            self.epoch += 1
            self.changes.append(
                self.group.epoch_record(self.epoch, self._metadata_hash, self._validated_epoch, configs)
            )

    def report_delay(self, detail: str) -> None:
        """Report that the next assignment is delayed."""
        self.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
