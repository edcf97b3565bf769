"""The coordinator of streams groups: heartbeats, departures and timeouts.

This is Kafka's `GroupMetadataManager.streamsGroupHeartbeat` with its helpers. If internal topics are missing, the
request handler creates them after the heartbeat. They are available at the next heartbeat.
"""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.features import STREAMS_VERSION
from minibroker.config.releases import is_before
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.groups.modern.coordinator import Client, ModernGroups
from minibroker.coordinators.groups.modern.group import JOINING, GroupRefusedError
from minibroker.coordinators.groups.modern.topics import find_topics, hash_topics
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.groups.streams.group import (
    RECORDS,
    EndpointPartitions,
    StreamsGroup,
    StreamsMember,
    endpoints_of,
)
from minibroker.coordinators.groups.streams.internal_topics import (
    ConfiguredTopology,
    InternalTopic,
    Status,
    StatusCode,
    to_record,
)
from minibroker.coordinators.groups.streams.sticky import StreamsMemberSpec, TaskCounts, assign_sticky
from minibroker.coordinators.groups.streams.tasks import (
    NO_TASKS,
    NOTHING_REPORTED,
    HeldTasks,
    Tasks,
    are_subset,
    task_sets,
)
from minibroker.coordinators.groups.streams.update import RACK_TAGS, STANDBYS, GroupUpdate, reconcile
from minibroker_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from minibroker_protocol.records.record import NewRecord

_UNSET: Final = -1
_logger = logging.getLogger(__name__)


class StreamsAnswer(NamedTuple):
    """The response to a heartbeat.

    Attributes:
        tasks: The member's tasks, or None if they have not changed.
        endpoints: The endpoints of all members that have an endpoint, or None if nothing has changed.
        missing: The internal topics that must be created.
    """

    member_id: str
    epoch: int
    tasks: HeldTasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    statuses: tuple[Status, ...] = ()
    missing: Mapping[str, InternalTopic] = MappingProxyType({})


class StreamsGroups(ModernGroups[StreamsGroup]):
    """All streams groups."""

    group_type = StreamsGroup

    def __init__(self, core: Core, store: GroupStore, forgotten: Container[str]) -> None:
        super().__init__(core, store, forgotten)
        self._has_delay = self._summarizes_names = not is_before(core.config.release, "4.2")
        self._has_intervals = not is_before(core.config.release, "4.3")
        self._may_switch = not is_before(core.config.release, "4.4")

    @property
    def is_enabled(self) -> bool:
        """Whether the configuration and the feature streams.version allow streams groups."""
        is_allowed = "streams" in self.core.config.items("group.coordinator.rebalance.protocols")
        return is_allowed and self.core.features.level(STREAMS_VERSION) > 0

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval of a member's heartbeats, in milliseconds."""
        return self._setting(group_id, "heartbeat.interval.ms")

    def task_offset_interval_ms(self, group_id: str) -> int:
        """Return the interval at which members report the offsets of their tasks, in milliseconds."""
        return self._setting(group_id, "task.offset.interval.ms")

    def acceptable_recovery_lag(self, group_id: str) -> int:
        """Return the maximum lag, in records, at which a copy of a task's state is good enough to run the task."""
        return self._setting(group_id, "acceptable.recovery.lag")

    def _setting(self, group_id: str, name: str) -> int:
        return self.core.configs.group(group_id).integer(f"streams.{name}")

    def new_group(self, group_id: str, offsets: GroupOffsets | None = None) -> StreamsGroup:
        """See `ModernGroups`."""
        return StreamsGroup(group_id, offsets)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, *, supports_missing_tags: bool
    ) -> StreamsAnswer:
        """Let a member join, or restart its session.

        In a request, a value of None or a rebalance timeout of -1 means no change.

        Args:
            request: The heartbeat.
            client: The member's client.
            supports_missing_tags: Whether the client supports the status MISSING_CLIENT_TAGS.

        Raises:
            GroupRefusedError: The member or its topology is rejected, or a record could not be written.
        """
        joins = request.member_epoch == JOINING
        owned = _parse_owned_tasks(request)
        group, tombstones = self.group_for(request.group_id, joins=joins)
        static_member = group.static_member(request.instance_id)
        if joins and static_member is None:
            self.check_room(group, request.member_id)
        member = self._member_of(group, static_member, request, owned)
        updated = _update_member(member, request, client)
        is_new = self.find(group.group_id) is not group
        update = GroupUpdate(group)
        if static_member is not None and joins:
            update.take_over(static_member, member)
        self._prepare(update, member, updated, request, owned, is_new=is_new)
        moved = self._advance(update, updated, owned)
        self._save(update, moved, tombstones)
        if static_member is not None and static_member.member_id != moved.member_id:
            self.end_session(group, static_member.member_id)
        timers = self.restart_session(group, moved.member_id)
        if moved.is_revoking and moved != updated:
            timers.start_revocation(moved.rebalance_timeout_ms)
        elif moved != updated:
            timers.end_revocation()
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = moved.member_id
        has_other_tasks = moved.assigned != member.assigned
        has_other_endpoints = moved.endpoint != member.endpoint or (has_other_tasks and moved.endpoint is not None)
        if has_other_endpoints and not is_new:  # As in Kafka, the endpoint epoch of a new group stays 0.
            group.endpoint_epoch += 1
        tasks = moved.assigned if joins or has_other_tasks else None
        missing_tags = update.find_missing_tags(moved) if supports_missing_tags else []
        return _build_answer(update, request.endpoint_information_epoch, moved, tasks, missing_tags)

    def _member_of(
        self,
        group: StreamsGroup,
        static_member: StreamsMember | None,
        request: StreamsGroupHeartbeatRequest,
        owned: Tasks | None,
    ) -> StreamsMember:
        """Return the state of the member before the heartbeat, taken from the static member that it replaces, if any.

        Args:
            group: The member's group.
            static_member: The member with the instance id in the heartbeat.
            request: The heartbeat.
            owned: The tasks that the member reports.

        Raises:
            GroupRefusedError: The member is unknown or fenced.
        """
        joins, epoch = request.member_epoch == JOINING, request.member_epoch
        if joins and static_member is not None:
            self.check_released(static_member, request.member_id)
            return replace(static_member, member_id=request.member_id, epoch=0, previous_epoch=0)
        if joins:
            return group.member_or_new(request.member_id)
        member: StreamsMember = self.member(group, request.member_id, request.instance_id)
        has_no_others = owned is not None and are_subset(owned, member.assigned.without_epochs())
        self.check_epoch(member, epoch, may_be_previous=has_no_others)
        return member

    def _prepare(
        self,
        update: GroupUpdate,
        member: StreamsMember,
        updated: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        owned: Tasks | None,
        *,
        is_new: bool,
    ) -> None:
        """Collect the changes requested by a heartbeat, except task changes.

        Raises:
            GroupRefusedError: The topology, a task or an offset in the heartbeat is rejected.
        """
        group = update.group
        if updated != member:
            update.bumps = request.instance_id is None or not updated.has_same_config_as(member)
            update.changes.append(RECORDS.member_metadata(group.group_id, updated))
        update.set_topology(None if request.topology is None else to_record(request.topology))
        if updated.topology_epoch < update.topology.epoch:
            update.statuses.append(
                Status(
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch "
                    f"{update.topology.epoch}.",
                )
            )
        topics = find_topics(self.core.topics, update.topology.required_topics, group.topics)
        update.set_topics(
            topics,
            hash_topics(topics) if topics is not group.topics else group.metadata_hash,
            summarizes_names=self._summarizes_names,
        )
        update.check_tasks(owned)
        reported = group.find_reported_offsets(updated.member_id).updated(
            request.task_offsets, request.task_end_offsets
        )
        # As in Kafka, offsets in the first heartbeat of a new group are ignored.
        if reported is not NOTHING_REPORTED and not is_new:
            group.reported[updated.member_id] = reported
        update.advance_epoch(self._assignor_settings(group.group_id))
        delay_ms = self._setting(group.group_id, "initial.rebalance.delay.ms") if self._has_delay else 0
        if group.is_empty and delay_ms > 0 and not group.is_delayed:
            group.delay = group.delay or Deadline(self.core.clock, partial(self._make_delayed_assignment, group))
            group.delay.restart(delay_ms)

    def _assignor_settings(self, group_id: str) -> dict[str, str]:
        """Return the assignor settings of a group (`streamsGroupAssignmentConfigs`)."""
        settings = {STANDBYS: str(self._setting(group_id, "num.standby.replicas"))}
        tags = self.core.configs.group(group_id).items("streams.rack.aware.assignment.tags")
        return {**settings, RACK_TAGS: ",".join(tags)} if tags else settings

    def _advance(self, update: GroupUpdate, updated: StreamsMember, owned: Tasks | None) -> StreamsMember:
        """Return the member with its new tasks.

        Raises:
            GroupRefusedError: The state of the member is unknown.
        """
        group = update.group
        epoch, target = self._refresh_target(update, updated)
        if updated.is_reconciled(epoch):
            return updated
        moved = reconcile(updated, epoch, target, owned, group.owners, may_switch=self._may_switch)
        if moved != updated:
            update.changes.append(RECORDS.current_assignment(group.group_id, moved))
        return moved

    def _refresh_target(self, update: GroupUpdate, updated: StreamsMember | None) -> tuple[int, Tasks]:
        """Make a new target assignment if it is due, and return the target's epoch and the member's tasks."""
        group = update.group
        member_id = "" if updated is None else updated.member_id
        if group.is_delayed:
            update.report_delay("Assignment delayed due to the configured initial rebalance delay.")
            return group.assignment_epoch, NO_TASKS
        current = group.assignment_epoch, update.target_of(member_id)
        if group.assignment_epoch >= update.epoch:
            return current
        interval_ms = self._setting(group.group_id, "assignment.interval.ms") if self._has_intervals else 0
        if not group.may_assign_again(interval_ms, self.store.now_ms()):
            update.report_delay("Assignment delayed due to the configured assignment interval.")
            return current
        members, target = update.list_updated_members(updated)
        new_target = _make_assignment(group, members, update.configured, int(update.configs[STANDBYS]))
        update.changes += RECORDS.new_target(group.group_id, new_target, target, update.epoch, self.store.now_ms())
        return update.epoch, new_target.get(member_id, NO_TASKS)

    def _save(self, update: GroupUpdate, moved: StreamsMember | None, before: list[NewRecord]) -> None:
        """Write the changes.

        Raises:
            GroupRefusedError: The changes could not be written.
        """
        group = update.group
        if code := self.store.save_changes(group, update.changes, before):
            if moved is not None and moved.member_id not in group.members and group.delay is not None:
                group.delay.cancel()
            raise GroupRefusedError(code)
        group.topics, group.configured = update.topics, update.configured

    def _make_delayed_assignment(self, group: StreamsGroup) -> None:
        """Make the first assignment after its delay (`computeDelayedTargetAssignment`)."""
        if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
            return
        update = GroupUpdate(group)
        update.configured, update.topics, update.configs = group.configured, group.topics, group.configs
        self._refresh_target(update, None)
        try:
            self._save(update, None, [])
        except GroupRefusedError as error:  # The error is only logged, because the next heartbeat tries again.
            _logger.warning("The assignment of group %s could not be stored: %s", group.group_id, error.code.name)

    def leave_with_shutdown(
        self, group_id: str, member_id: str, instance_id: str | None, epoch: int, *, shuts_down: bool
    ) -> StreamsAnswer:
        """Remove a member, or mark a static member as temporarily absent.

        If `shuts_down` is true, the member also requests the shutdown of the whole application.
        """
        group = self.existing(group_id)
        if shuts_down and group.shutdown_by is None:
            group.shutdown_by = member_id
        self.leave(group_id, member_id, instance_id, epoch)
        return StreamsAnswer(member_id, epoch)

    def _make_absent(self, member: StreamsMember) -> StreamsMember:
        return member.as_absent()

    def _session_timeout_ms(self, group: StreamsGroup, member_id: str) -> int:
        del member_id
        return self._setting(group.group_id, "session.timeout.ms")

    def forget(self, group: StreamsGroup, *, is_gone: bool = True) -> None:
        """Cancel all deadlines of a group, and its delayed assignment."""
        if group.delay is not None:
            group.delay.cancel()
        super().forget(group, is_gone=is_gone)


def _make_assignment(
    group: StreamsGroup, members: Mapping[str, StreamsMember], topology: ConfiguredTopology, standbys: int
) -> dict[str, Tasks]:
    """Make a target assignment. It is empty until the topics of the topology are ready."""
    specs = {
        member_id: StreamsMemberSpec(
            member.process_id, member.assigned.without_epochs(), group.find_reported_offsets(member_id).reached
        )
        for member_id, member in members.items()
    }
    subtopologies = (topology.subtopologies or {}) if topology.is_ready else {}
    counts = {name: TaskCounts(sub.tasks, bool(sub.changelogs)) for name, sub in subtopologies.items()}
    return assign_sticky(specs, counts, standbys)


def _build_answer(
    update: GroupUpdate,
    known_endpoint_epoch: int,
    moved: StreamsMember,
    tasks: HeldTasks | None,
    missing_tags: Sequence[str],
) -> StreamsAnswer:
    group = update.group
    endpoints = endpoints_of(group) if group.endpoint_epoch != known_endpoint_epoch else None
    statuses = list(update.statuses)
    if update.configured.fault is not None:
        statuses.append(update.configured.fault)
    if group.shutdown_by is not None:
        statuses.append(
            Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown "
                "for the entire application.",
            )
        )
    if missing_tags:
        statuses.append(
            Status(
                StatusCode.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing_tags)}]. "
                "Configure them via 'client.tag.<tagKey>' in your Streams config.",
            )
        )
    return StreamsAnswer(
        moved.member_id, moved.epoch, tasks, group.endpoint_epoch, endpoints, tuple(statuses), update.configured.missing
    )


def _parse_owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member reports, or None if the report lacks any of the three kinds of tasks."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(task_sets(active), task_sets(standby), task_sets(warmup))


def _update_member(member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client) -> StreamsMember:
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    keeps_endpoint = endpoint is None and request.member_epoch != JOINING
    sent_endpoint = None if endpoint is None else (endpoint.host, endpoint.port)
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNSET else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=client.id,
        client_host=client.host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if keeps_endpoint else sent_endpoint,
        tags=member.tags if tags is None else {tag.key: tag.value for tag in tags},
    )
