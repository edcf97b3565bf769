"""The changes that one heartbeat makes to a streams group."""

from collections.abc import Mapping
from typing import Final

from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.streams.group import RECORDS, StreamsGroup, StreamsMember
from minibroker.coordinators.groups.streams.internal_topics import (
    ConfiguredTopology,
    Status,
    StatusCode,
    Topology,
    configure,
)
from minibroker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from minibroker_protocol.coordinator_records.streams_groups import StreamsGroupTopologyKey, StreamsGroupTopologyValue
from minibroker_protocol.error_codes import ErrorCode

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
